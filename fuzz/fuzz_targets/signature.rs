//! Any bytes as a signature, and as an image that has some.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::signature(bytes));
