//! Any bytes as a patch of a table page: applied, and the result read in every way.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::page_patch(bytes));
