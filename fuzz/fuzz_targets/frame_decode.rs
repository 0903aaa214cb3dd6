//! Any bytes as a frame of any codec.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::frame_decode(bytes));
