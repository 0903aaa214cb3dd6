//! Any bytes as a SquashFS image.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::importers::squashfs(bytes));
