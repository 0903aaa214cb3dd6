//! Options for encrypted images.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

const HEADING: &str = "Options for encrypted images (age)";

/// Keys that open encrypted images.
#[derive(Debug, Clone, Default, Args)]
pub struct AgeArgs {
    /// A file with secret keys, as `age-keygen` writes it, to open encrypted images. Can be
    /// repeated (default: the files in SHALE_IDENTITY, separated by colons).
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING,
        hide_short_help = true)]
    pub identity: Vec<PathBuf>,
    /// A file whose first line is the passphrase of an encrypted image (default: the file in
    /// SHALE_PASSPHRASE_FILE).
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING,
        hide_short_help = true)]
    pub passphrase_file: Option<PathBuf>,
}

/// Recipients of a new image.
#[derive(Debug, Clone, Default, Args)]
pub struct EncryptArgs {
    /// Encrypt the image to this public key (age1...), as `age` does. Can be repeated: each owner
    /// of a key reads the image.
    #[arg(long, value_name = "RECIPIENT")]
    pub age: Vec<String>,
    /// Encrypt the image to the public keys in this file. Can be repeated.
    #[arg(long, value_name = "FILE")]
    pub age_recipients_file: Vec<PathBuf>,
}

impl AgeArgs {
    /// These options again, as words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let keys = self.identity.iter().map(|path| ("--identity", path));
        let all = keys.chain(self.passphrase_file.iter().map(|path| ("--passphrase-file", path)));
        all.flat_map(|(name, path)| [name.into(), path.clone().into()]).collect()
    }
}
