//! Any bytes as an archive of whatever format it is.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::importers::any(bytes));
