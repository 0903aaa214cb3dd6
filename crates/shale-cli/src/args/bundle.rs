//! Arguments of `bundle`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::create::{How, Target};
use super::local::local_path;

/// `shale bundle`.
#[derive(Debug, Args)]
pub struct Bundle {
    /// What to bundle: a directory, or anything else that `shale create` packs. An image is taken
    /// as it is, with its parity and signatures, unless --train packs it again.
    pub source: OsString,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", value_parser = local_path())]
    pub output: PathBuf,
    /// The program to run, as a path in SOURCE.
    #[arg(long, value_name = "PATH")]
    pub run: OsString,
    /// The runtime that the file begins with (default: the one that is installed with shale).
    #[arg(long, value_name = "FILE")]
    pub runtime: Option<PathBuf>,
    /// Run the program once, with the arguments after `--`, and store what it reads first, in small
    /// frames that decode fast. The bundle then starts faster.
    #[arg(long, conflicts_with = "hot")]
    pub train: bool,
    /// With --train, end the program after this many seconds, for programs that do not end by
    /// themselves.
    #[arg(long, value_name = "SECONDS", requires = "train")]
    pub train_for: Option<u64>,
    /// What becomes of the output.
    #[command(flatten)]
    pub target: Target,
    /// Options of the build.
    #[command(flatten)]
    pub how: How,
    /// Arguments of the program for --train.
    #[arg(last = true, value_name = "ARGUMENT")]
    pub arguments: Vec<OsString>,
}
