//! Any bytes as a thin image over a base that fits.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::thin(bytes));
