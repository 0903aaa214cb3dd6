//! Any bytes as a Merkle tree, and as an image read under the identity that it claims.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shale_tests::fuzz::identity(bytes));
