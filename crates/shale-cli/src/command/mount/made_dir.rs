//! `--mkdir`: a mount point that exists only while it is mounted.

use std::fs::{DirBuilder, create_dir_all, remove_dir};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Directories made for a mount point. Dropping it removes them, unless they are in use or not
/// empty.
pub struct MadeDir {
    /// The missing ancestors and the mount point, from the top.
    made: Vec<PathBuf>,
}

impl MadeDir {
    /// Makes a mount point and its missing ancestors.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub fn new(mount_point: &Path) -> io::Result<Self> {
        // The driver changes its directory before it removes them.
        let mount_point = std::path::absolute(mount_point)?;
        let mut made = Self { made: Vec::new() };
        let missing = mount_point.ancestors().take_while(|path| path.symlink_metadata().is_err());
        let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        for path in missing.into_iter().rev() {
            DirBuilder::new().mode(0o755).create(&path)?;
            made.made.push(path);
        }
        // Reports a file in the way.
        create_dir_all(&mount_point)?;
        Ok(made)
    }
}

impl Drop for MadeDir {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            if remove_dir(path).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_and_is_empty_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let [there, other] = ["there", "other"].map(|name| directory.path().join(name));
        std::fs::create_dir(&there).unwrap();
        drop(MadeDir::new(&there).unwrap());
        assert!(there.is_dir());
        let made = MadeDir::new(&other.join("a/b")).unwrap();
        assert!(other.join("a/b").is_dir());
        std::fs::write(other.join("file"), "").unwrap();
        drop(made);
        assert!(other.is_dir() && !other.join("a").exists());
        assert!(MadeDir::new(&other.join("file")).is_err());
        assert!(MadeDir::new(&other.join("file/below")).is_err());
    }
}
