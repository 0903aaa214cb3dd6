//! Gives the shared library its name for the dynamic linker. The number changes only if the ABI
//! changes incompatibly.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libshale.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
