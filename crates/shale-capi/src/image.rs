//! An open image, in safe Rust: what the functions for C do once their pointers are checked.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use shale_extract::{ExtractOptions, extract};
use shale_host::NoProgress;
use shale_model::pattern::Patterns;
use shale_read::files::{Bases, FilePlace, gather};
use shale_read::{Attributes, FileSource, Identity, Options, SnapshotChoice, Tree};

use crate::code::{Code, Failure};

/// An open image. Only a pointer to it crosses the boundary.
pub struct Image {
    tree: Tree,
}

impl Image {
    /// Opens the newest snapshot of the image in a file. Reads a few kilobytes, whatever the size
    /// of the image. Other parts of it, and the base of a thin image, are looked for beside it.
    ///
    /// # Errors
    /// The file cannot be read, is not an image, or does not have the expected identity.
    pub fn open(path: &Path, expected: Option<Identity>) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| Failure::system(path, &error))?;
        let first = FileSource::new(file).map_err(|error| Failure::system(path, &error))?;
        let options = Options::default().expect(expected);
        let named = |error| {
            let failure = Failure::from(error);
            Failure::new(failure.code(), format!("{}: {failure}", path.display()))
        };
        let found = gather(Arc::new(first), &FilePlace::new(path), &Bases::default());
        let image = found.and_then(|found| shale_read::Image::open(found.source, options));
        let image = image.map_err(named)?;
        Ok(Self { tree: image.tree(&SnapshotChoice::Newest)? })
    }

    /// Looks up a path from the root. Follows no symbolic links.
    ///
    /// # Errors
    /// The path does not exist, or the image is damaged.
    pub fn stat(&self, path: &[u8]) -> Result<Attributes, Failure> {
        let Some(inode) = self.tree.lookup_path(path)? else {
            let text = format!("{}: no such file in the image", path.escape_ascii());
            return Err(Failure::new(Code::NotFound, text));
        };
        Ok(self.tree.attributes(inode)?)
    }

    /// Calls `each` with the entries of a directory, in the order of their names, until it returns
    /// false.
    ///
    /// # Errors
    /// The inode is not a directory, or the image is damaged.
    pub fn list(
        &self,
        directory: u64,
        mut each: impl FnMut(&[u8], &Attributes) -> bool,
    ) -> Result<(), Failure> {
        Ok(self.tree.list_attributes(directory, 0, |entry, found| each(entry.name, found))?)
    }

    /// Reads bytes of a regular file from `offset` on; fewer than `buf` holds only at its end.
    ///
    /// # Errors
    /// The inode is not a regular file, or the image is damaged.
    pub fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, Failure> {
        Ok(self.tree.read(inode, offset, buf)?)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// The inode is not a symbolic link, or the image is damaged.
    pub fn link_target(&self, inode: u64) -> Result<Vec<u8>, Failure> {
        Ok(self.tree.link_target(inode)?)
    }

    /// Extracts a path and everything below it into a directory, which is made if it does not
    /// exist. An empty path is the whole image. Paths below the directory are those in the image.
    /// Never replaces a file and never writes outside of the directory.
    ///
    /// # Errors
    /// A file exists already, and nothing was extracted; the path does not exist; the image is
    /// damaged; a file cannot be written or not with all its attributes.
    pub fn extract(&self, path: &[u8], directory: &Path) -> Result<(), Failure> {
        let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
        let path = &path[slashes..];
        let patterns = match path.is_empty() {
            true => Patterns::default(),
            false => Patterns::new(&[literal(path)])
                .map_err(|error| Failure::argument(error.to_string()))?,
        };
        let options = ExtractOptions::default().patterns(patterns);
        let report = extract(&self.tree, directory, &options, &NoProgress)?;
        match report.problems.first() {
            None => Ok(()),
            Some(problem) => {
                let path = problem.path.escape_ascii();
                let text = format!("{path}: {} (problems: {})", problem.kind, report.problem_count);
                Err(Failure::new(Code::Partial, text))
            }
        }
    }
}

/// A pattern that matches only `path`.
fn literal(path: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(path.len());
    for &byte in path {
        if b"*?[]{}\\".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern
}
