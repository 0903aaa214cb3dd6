//! Any bytes as a DwarFS image.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::importers::dwarfs(bytes));
