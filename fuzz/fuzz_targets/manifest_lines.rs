//! Any bytes as lines of a manifest.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::manifest_lines(bytes));
