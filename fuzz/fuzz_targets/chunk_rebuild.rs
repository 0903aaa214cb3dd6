//! Any bytes as a chunk of any model.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::chunk_rebuild(bytes));
