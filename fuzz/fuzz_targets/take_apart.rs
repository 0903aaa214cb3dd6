//! Any bytes as a file that may hold compressed streams.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::take_apart(bytes));
