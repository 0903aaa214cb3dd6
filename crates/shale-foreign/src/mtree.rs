//! mtree, out: a list of what a tree has, with lengths and SHA-256 of contents, which `mtree`,
//! bsdtar and others compare a tree with. It holds no contents.

use std::io::{self, Write};

use sha2::{Digest, Sha256};
use shale_format::inode::device_parts;
use shale_model::InodeKind;

use crate::archive::{Archive, ArchiveEntry, Keeps, Taken};

/// Writes an mtree list, a line for each entry with its full path.
pub struct MtreeWriter<W> {
    out: W,
    /// The line of the entry at hand, and the digest of its content.
    line: Option<(String, Option<Sha256>)>,
    /// Content of the entry that is still to come.
    left: u64,
}

impl<W> std::fmt::Debug for MtreeWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MtreeWriter").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<W: Write> MtreeWriter<W> {
    /// Writes a list to `out`.
    ///
    /// # Errors
    /// The first line cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(b"#mtree\n")?;
        Ok(Self { out, line: None, left: 0 })
    }

    fn end_line(&mut self) -> io::Result<()> {
        let Some((mut line, digest)) = self.line.take() else { return Ok(()) };
        if self.left > 0 {
            return Err(io::Error::other("less data than the entry has"));
        }
        if let Some(digest) = digest {
            line.push_str(" sha256digest=");
            digest.finalize().iter().for_each(|byte| line.push_str(&format!("{byte:02x}")));
        }
        line.push('\n');
        self.out.write_all(line.as_bytes())
    }
}

/// A path as mtree writes it: bytes that are not letters, digits or plain signs in octal.
fn escaped(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for &byte in path {
        match byte {
            b'#' | b'\\' | b'=' | b'*' | b'?' | b'[' => out.push_str(&format!("\\{byte:03o}")),
            byte if byte.is_ascii_graphic() => out.push(char::from(byte)),
            byte => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

impl<W: Write> Archive for MtreeWriter<W> {
    fn keeps(&self) -> Keeps {
        // Each name has the digest of its content.
        Keeps { holes: false, hard_links: false, shared_contents: false }
    }

    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken> {
        self.end_line()?;
        let metadata = entry.metadata;
        let kind = match metadata.kind {
            InodeKind::File => "file",
            InodeKind::Directory => "dir",
            InodeKind::Symlink => "link",
            InodeKind::BlockDevice => "block",
            InodeKind::CharDevice => "char",
            InodeKind::Fifo => "fifo",
            InodeKind::Socket => "socket",
        };
        let path = match entry.path {
            b"" => ".".to_owned(),
            path => format!("./{}", escaped(path)),
        };
        let mut line = format!(
            "{path} type={kind} mode=0{:o} uid={} gid={} nlink={} time={}.{:09}",
            metadata.permissions,
            metadata.uid,
            metadata.gid,
            entry.link_count,
            metadata.mtime.sec,
            metadata.mtime.nsec
        );
        let mut digest = None;
        match metadata.kind {
            InodeKind::File => {
                line.push_str(&format!(" size={}", metadata.len));
                digest = Some(Sha256::new());
            }
            InodeKind::Symlink => line.push_str(&format!(" link={}", escaped(entry.target))),
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                let (major, minor) = device_parts(metadata.device);
                line.push_str(&format!(" device=linux,{major},{minor}"));
            }
            _ => {}
        }
        let mut taken = Taken::whole();
        taken.lose_xattrs(entry.xattrs, |_| false);
        self.left = if metadata.kind == InodeKind::File { metadata.len } else { 0 };
        self.line = Some((line, digest));
        Ok(taken)
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| io::Error::other("more data than the entry has"))?;
        if let Some((_, Some(digest))) = &mut self.line {
            digest.update(bytes);
        }
        Ok(())
    }

    fn end_entry(&mut self) -> io::Result<()> {
        self.end_line()
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.end_line()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_graphic_ascii() {
        assert_eq!(escaped("a b#\n\\ü".as_bytes()), "a\\040b\\043\\012\\134\\303\\274");
    }
}
