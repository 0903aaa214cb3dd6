//! Any bytes as a cpio archive.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::importers::cpio(bytes));
