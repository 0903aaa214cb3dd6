//! Any bytes as a deflate stream.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::deflate_stream(bytes));
