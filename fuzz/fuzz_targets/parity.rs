//! Any bytes as an image with parity: found, compared, repaired.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::parity(bytes));
