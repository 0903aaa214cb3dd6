//! Any bytes as two images that are merged.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::merge_images(bytes));
