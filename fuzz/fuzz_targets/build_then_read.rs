//! A tree as the bytes choose it: built, read back, checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::build_then_read(bytes));
