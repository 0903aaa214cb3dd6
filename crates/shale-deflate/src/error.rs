//! What can go wrong.

/// Why a stream cannot be read or rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeflateError {
    /// The bytes are not a deflate stream.
    #[error("not a valid deflate stream")]
    Invalid,
    /// The stream ends early.
    #[error("the deflate stream is truncated")]
    Truncated,
    /// The stream holds more bytes than the caller allows.
    #[error("the deflate stream holds more than {0} bytes")]
    TooLong(usize),
    /// No model makes this stream.
    #[error("no known encoder makes this stream")]
    Unknown,
    /// The model or one of its settings is unknown.
    #[error("unknown encoder model or settings: {0:#x}")]
    UnknownModel(u64),
    /// The cut or the lengths of the task contradict each other or the model.
    #[error("the cut does not fit the chunk")]
    BadCut,
    /// The search for matches took more probes than allowed.
    #[error("the search for matches takes more than {0} probes")]
    TooManyProbes(u64),
}
