//! `libshale`: reads ShaleFS images from C.
//!
//! The functions of [`ffi`] are the whole interface; `include/shale.h` declares them, and
//! `docs/guide/c.md` explains them. Handles are opaque and may be used by many threads at once. No
//! function panics across the boundary: a panic becomes the code `SHALE_CODE_BUG`. A null pointer
//! is an argument error where a pointer is needed.
//!
//! This crate knows neither the writer nor the bytes of an image.

mod code; // codes and texts of errors
mod image; // an open image, in safe Rust
#[allow(unsafe_code)] // the boundary to C
mod ffi; // the functions that C calls

pub use code::Code;
pub use ffi::{
    EntryStat, ListCallback, shale_close, shale_extract, shale_last_error_code,
    shale_last_error_text, shale_list, shale_open, shale_read, shale_readlink, shale_stat,
    shale_version,
};
pub use image::Image;
