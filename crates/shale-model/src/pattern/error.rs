//! Why a pattern cannot be used.

use thiserror::Error;

/// Why a pattern or filter rule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{syntax} `{pattern}`: {what}")]
pub struct PatternError {
    /// What it was parsed as: "pattern" or "filter rule".
    pub syntax: &'static str,
    /// The pattern or rule, made printable.
    pub pattern: String,
    /// What is wrong with it.
    pub what: &'static str,
}
