//! A whole image, damaged as the bytes say: right answers or errors.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::damage_then_read(bytes));
