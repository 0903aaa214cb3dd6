//! A directory beside the output for what becomes part of it.
//!
//! It is beside the output because there must be room for the output anyway, and because parts of
//! it are then moved without being copied on file systems that share blocks.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::text;

/// Directories with such a name that may be left by runs that were killed.
const NAME_COUNT_MAX: u32 = 100;

/// The directory. Dropping it removes it with everything in it.
pub struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    /// Makes a directory beside `output`, which only this user can read.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn beside(output: &Path) -> anyhow::Result<Self> {
        let name = output.file_name().context("the output has no name")?.to_string_lossy();
        for number in 0..NAME_COUNT_MAX {
            let folder = output.with_file_name(format!(".{name}.{number}.bundle"));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self { folder }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot make {}", text::path(&folder)));
                }
            }
        }
        anyhow::bail!("there are many directories such as .{name}.0.bundle: remove them")
    }

    /// The path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_and_nothing_of_others_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("app");
        std::fs::create_dir(folder.path().join(".app.0.bundle")).unwrap();
        let workshop = Workshop::beside(&output).unwrap();
        std::fs::write(workshop.path("image"), "x").unwrap();
        assert!(folder.path().join(".app.1.bundle/image").exists());
        drop(workshop);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
