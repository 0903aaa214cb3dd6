//! Why a question has no answer.

use std::io;
use std::path::PathBuf;

use shale_read::ReadError;

/// Why a tree could not be searched or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file or directory beside the image could not be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A word of an expression is not what it should be.
    #[error("{word}: {problem}")]
    Expression {
        /// The word.
        word: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A pattern is not a regular expression.
    #[error("the pattern is not valid: {0}")]
    Pattern(String),
    /// The path does not exist in the image.
    #[error("{0}: no such file or directory in the image")]
    Path(String),
    /// The image has no table of this name.
    #[error("{table}: no such table, or no such snapshot")]
    NoTable {
        /// The name that was given.
        table: String,
    },
    /// The caller of a function stopped it by an error of its own.
    #[error(transparent)]
    Output(#[from] io::Error),
}
