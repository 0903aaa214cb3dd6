//! Any bytes as an image that is checked.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::check_image(bytes));
