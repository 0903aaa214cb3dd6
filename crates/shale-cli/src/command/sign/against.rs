//! `shale verify --against`: compares an image with a directory, by content and by metadata.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};
use shale::Cancel;
use shale::read::{Attributes, InodeKind, Options, Tree};

use crate::args::{ImageArgs, Offset, Verify};
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, signal, size, text};

/// Bytes compared at a time.
const BLOCK_LEN: usize = 1 << 20;
/// Differences that are printed; further ones are counted.
const SHOWN_MAX: u64 = 1_000;

/// Compares the image with `directory` and prints the differences.
///
/// # Errors
/// The image or the directory cannot be read.
pub fn run(args: &Verify, directory: &Path, say: &Say) -> anyhow::Result<Exit> {
    let image = ImageArgs {
        image: args.image.clone(),
        offset: Offset::Auto,
        snapshot: args.snapshot.clone(),
        expect: None,
    };
    let tree = open::tree(&image, Options::default(), say)?;
    std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", text::path(directory)))?;
    let mut comparison = Comparison {
        tree: &tree,
        directory,
        with_metadata: args.metadata,
        cancel: signal::cancel()?,
        entries: 0,
        bytes: 0,
        differences: 0,
        listed: Vec::new(),
    };
    comparison.image_entries(say)?;
    comparison.new_entries(say)?;
    let Comparison { entries, bytes, differences, listed, .. } = comparison;
    if say.json {
        say.value(&json!({
            "same": differences == 0,
            "entries": entries,
            "bytes": bytes,
            "metadata": args.metadata,
            "difference_count": differences,
            "differences": listed,
        }))?;
    } else {
        let (image, directory) = (text::path(&args.image), text::path(directory));
        let compared = format!("{} entries, {}", size::count(entries), size::show(bytes));
        match differences {
            0 => say.line(format!("{image} and {directory} are the same: {compared}")),
            count => say.warn(format!(
                "{image} and {directory} differ: {} differences, {compared} compared",
                size::count(count)
            )),
        }
    }
    Ok(if differences == 0 { Exit::Done } else { Exit::Failed })
}

struct Comparison<'a> {
    tree: &'a Tree,
    directory: &'a Path,
    with_metadata: bool,
    cancel: Cancel,
    entries: u64,
    bytes: u64,
    differences: u64,
    listed: Vec<Value>,
}

impl Comparison<'_> {
    /// Compares every entry of the image with the file of the same path.
    fn image_entries(&mut self, say: &Say) -> anyhow::Result<()> {
        let mut walk = self.tree.walk(self.tree.root_inode())?;
        while let Some(step) = walk.advance()? {
            self.cancel.check()?;
            let (path, attributes) = (step.path.to_vec(), step.attributes);
            self.entries += 1;
            let file = self.directory.join(OsStr::from_bytes(&path));
            let found = match file.symlink_metadata() {
                Ok(found) => found,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    if attributes.kind == InodeKind::Directory {
                        walk.skip_directory();
                    }
                    self.differs(&path, "missing in the directory", say);
                    continue;
                }
                Err(error) => {
                    self.differs(&path, &format!("cannot be read: {error}"), say);
                    continue;
                }
            };
            if kind_of(&found) != Some(attributes.kind) {
                if attributes.kind == InodeKind::Directory {
                    walk.skip_directory();
                }
                self.differs(&path, "another kind of file", say);
                continue;
            }
            if let Some(what) = self.content(&file, &found, &attributes)? {
                self.differs(&path, &what, say);
            }
            if self.with_metadata {
                for what in metadata(&found, &attributes) {
                    self.differs(&path, &what, say);
                }
            }
        }
        Ok(())
    }

    /// Compares contents, targets of links and numbers of devices.
    fn content(
        &mut self,
        file: &Path,
        found: &Metadata,
        attributes: &Attributes,
    ) -> anyhow::Result<Option<String>> {
        Ok(match attributes.kind {
            InodeKind::File if found.len() != attributes.size => {
                Some(format!("{} bytes, {} in the image", found.len(), attributes.size))
            }
            InodeKind::File => self.bytes(file, attributes)?,
            InodeKind::Symlink => {
                let target = self.tree.link_target(attributes.inode)?;
                let is_same = std::fs::read_link(file)
                    .is_ok_and(|found| found.as_os_str().as_bytes() == &target[..]);
                (!is_same).then(|| "another link target".to_owned())
            }
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                let (major, minor) = attributes.device();
                let is_same = found.rdev() == rustix::fs::makedev(major, minor);
                (!is_same).then(|| "another device".to_owned())
            }
            _ => None,
        })
    }

    /// The first difference of two contents.
    fn bytes(&mut self, file: &Path, attributes: &Attributes) -> anyhow::Result<Option<String>> {
        let mut source = match File::open(file) {
            Ok(source) => source,
            Err(error) => return Ok(Some(format!("cannot be read: {error}"))),
        };
        let (mut stored, mut found) = (vec![0; BLOCK_LEN], vec![0; BLOCK_LEN]);
        let mut offset = 0;
        while offset < attributes.size {
            self.cancel.check()?;
            let len = self.tree.read(attributes.inode, offset, &mut stored)?;
            if let Err(error) = source.read_exact(&mut found[..len]) {
                return Ok(Some(format!("cannot be read at offset {offset}: {error}")));
            }
            if let Some(at) = (0..len).find(|&at| stored[at] != found[at]) {
                return Ok(Some(format!("content differs at offset {}", offset + at as u64)));
            }
            offset += len as u64;
            self.bytes += len as u64;
        }
        Ok(None)
    }

    /// Finds files of the directory that are not in the image.
    fn new_entries(&mut self, say: &Say) -> anyhow::Result<()> {
        let mut pending = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            self.cancel.check()?;
            let place = self.directory.join(OsStr::from_bytes(&path));
            let Ok(Some(inode)) = self.tree.lookup_path(&path) else { continue };
            let entries = match std::fs::read_dir(&place) {
                Ok(entries) => entries,
                Err(error) => {
                    self.differs(&path, &format!("cannot be read: {error}"), say);
                    continue;
                }
            };
            let mut names = Vec::new();
            for entry in entries {
                let entry = entry?;
                names.push((entry.file_name(), entry.file_type()?.is_dir()));
            }
            names.sort();
            for (name, is_directory) in names {
                let name = text::bytes(&name);
                let mut below = path.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend_from_slice(name);
                match self.tree.lookup(inode, name)? {
                    None => self.differs(&below, "not in the image", say),
                    Some(found) if is_directory => {
                        // Another kind of file was reported already.
                        if self.tree.attributes(found)?.kind == InodeKind::Directory {
                            pending.push(below);
                        }
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }

    fn differs(&mut self, path: &[u8], what: &str, say: &Say) {
        self.differences += 1;
        if self.differences > SHOWN_MAX {
            return;
        }
        if say.json {
            let mut object = Map::new();
            text::put_name(&mut object, "path", path);
            object.insert("what".to_owned(), what.into());
            self.listed.push(Value::Object(object));
        } else {
            say.warn(format!("{}: {what}", text::entry(path)));
        }
    }
}

fn kind_of(found: &Metadata) -> Option<InodeKind> {
    let kind = found.file_type();
    Some(match () {
        () if kind.is_file() => InodeKind::File,
        () if kind.is_dir() => InodeKind::Directory,
        () if kind.is_symlink() => InodeKind::Symlink,
        () if kind.is_block_device() => InodeKind::BlockDevice,
        () if kind.is_char_device() => InodeKind::CharDevice,
        () if kind.is_fifo() => InodeKind::Fifo,
        () if kind.is_socket() => InodeKind::Socket,
        () => return None,
    })
}

/// The differences of permissions, owner and time. Links have no permissions of their own.
fn metadata(found: &Metadata, attributes: &Attributes) -> Vec<String> {
    let mut differences = Vec::new();
    let permissions = found.mode() & 0o7777;
    let stored = attributes.permissions;
    if attributes.kind != InodeKind::Symlink && permissions != stored {
        differences.push(format!("permissions {permissions:04o}, {stored:04o} in the image"));
    }
    if (found.uid(), found.gid()) != (attributes.uid, attributes.gid) {
        differences.push(format!(
            "owner {}:{}, {}:{} in the image",
            found.uid(),
            found.gid(),
            attributes.uid,
            attributes.gid
        ));
    }
    let time = (found.mtime(), found.mtime_nsec());
    if time != (attributes.mtime.sec, i64::from(attributes.mtime.nsec)) {
        differences.push(format!(
            "time {}.{:09}, {}.{:09} in the image",
            time.0, time.1, attributes.mtime.sec, attributes.mtime.nsec
        ));
    }
    differences
}
