//! An append to an image whose append index is the bytes: nothing that it says makes wrong bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::append_index(bytes));
