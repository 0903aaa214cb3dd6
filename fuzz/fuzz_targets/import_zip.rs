//! Any bytes as a zip archive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::importers::zip(bytes));
