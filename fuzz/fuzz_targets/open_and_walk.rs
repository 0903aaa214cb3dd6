//! Any bytes as an image: opened and asked for everything.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::open_and_walk(bytes));
