//! Check, repair, parity and signatures of ShaleFS images.
//!
//! [`check()`] reports everything that is wrong with an image, [`repair()`] restores a damaged one
//! into a new file, [`add_parity`] appends the parity that a repair needs, [`sign()`] and
//! [`verify_signature`] vouch for an identity and test it.
//!
//! This crate reads images and appends sections to them. It does not know the build pipeline.

mod error; // why something was not done
mod check; // everything that can be checked
mod parity; // parity for a complete image
mod repair; // a damaged image, restored into a new file
mod sign; // signatures and keys
mod protection; // parity measured and removed

pub use check::{
    Advice, CheckLevel, CheckOptions, CheckReport, Checked, DamagedPath, Left, ParityState,
    Problem, Remedy, Subset, Touches, check,
};
pub use error::{Error, ParityProblem, SignProblem};
pub use parity::{ParityOptions, ParityReport, add_parity, add_to_file};
pub use protection::{ParityFacts, RemovedParity, parity_facts, remove_parity};
pub use repair::{RepairOptions, RepairReport, repair};
pub use sign::{
    SignOptions, Verified, embed_signature, generate_key, read_public_key, read_secret_key,
    read_signature, sign, signature_text, signatures, verify_signature, verify_signature_in,
    write_signature,
};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
