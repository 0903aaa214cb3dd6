//! Any bytes as a table page: read in every way.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::table_page(bytes));
