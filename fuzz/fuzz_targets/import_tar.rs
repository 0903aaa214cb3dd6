//! Any bytes as a tar archive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::importers::tar(bytes));
