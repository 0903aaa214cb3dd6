//! Files out of the image, into a new directory.
//!
//! Everything is made new, by names that the reader has checked, in directories that were made
//! here, so nothing outside of the target is touched whatever the image holds. The files belong to
//! the user; modes, times, hard links and holes are kept. Extended attributes and devices are not.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{File, FileTimes, Permissions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use shale_format::{InodeKind, Timestamp};
use shale_model::pattern::Patterns;
use shale_read::{Attributes, Tree};

use crate::failure::{During, Failure, USAGE};

/// Bytes read at once.
const CHUNK_LEN: usize = 1 << 20;

/// Extracts what `pattern` matches, or everything, into the directory `target`, which must not be
/// there. Calls `each` with every path. Returns the number of entries that are no files and cannot
/// be extracted.
///
/// # Errors
/// The image is damaged, `target` is there, a file cannot be written, or nothing matches.
pub fn extract(
    tree: &Tree,
    target: &Path,
    pattern: Option<&OsStr>,
    each: &mut dyn FnMut(&Path),
) -> Result<u64, Failure> {
    let patterns: Vec<&[u8]> = pattern.iter().map(|pattern| pattern.as_bytes()).collect();
    let usage = |error: &dyn std::fmt::Display| Failure { code: USAGE, message: error.to_string() };
    let patterns = Patterns::new(&patterns).map_err(|error| usage(&error))?;
    let make = std::fs::DirBuilder::new().mode(0o700).create(target);
    make.during(format_args!("make {}", target.display()))?;
    let mut job = Job {
        tree,
        target,
        made: Vec::new(),
        known: HashSet::new(),
        links: HashMap::new(),
        buf: vec![0; CHUNK_LEN],
        left_out: 0,
        count: 0,
    };
    let mut walk = tree.walk(tree.root_inode()).during("read the image")?;
    // The positions in the patterns of the directories on the path.
    let mut positions = vec![patterns.start()];
    while let Some(step) = walk.advance().during("read the image")? {
        let (path, depth, found) =
            (Path::new(OsStr::from_bytes(step.path)), step.depth, step.attributes);
        if depth == 0 {
            job.made.push((PathBuf::new(), found));
            continue;
        }
        positions.truncate(depth);
        let Some(above) = positions.last() else { continue };
        let position = patterns.step(above, step.name());
        let is_selected = patterns.is_empty() || position.is_selected();
        positions.push(position);
        if is_selected {
            job.entry(path, &found)?;
            each(path);
        }
    }
    if job.count == 0 && pattern.is_some() {
        let _ = std::fs::remove_dir(target);
        return Err(usage(&"nothing in the image matches the pattern"));
    }
    job.finish()?;
    Ok(job.left_out)
}

struct Job<'a> {
    tree: &'a Tree,
    target: &'a Path,
    /// Directories, outer ones first; they get their modes and times at the end.
    made: Vec<(PathBuf, Attributes)>,
    /// Their paths.
    known: HashSet<PathBuf>,
    /// The first path of each file that has several.
    links: HashMap<u64, PathBuf>,
    buf: Vec<u8>,
    left_out: u64,
    count: u64,
}

impl Job<'_> {
    fn entry(&mut self, path: &Path, found: &Attributes) -> Result<(), Failure> {
        self.parents(path)?;
        self.count += 1;
        let place = self.target.join(path);
        let make =
            |result: std::io::Result<()>| result.during(format_args!("make {}", place.display()));
        match found.kind {
            InodeKind::Directory => self.directory(path, found),
            InodeKind::File => {
                if found.link_count > 1 {
                    if let Some(first) = self.links.get(&found.inode) {
                        return make(std::fs::hard_link(first, &place));
                    }
                    self.links.insert(found.inode, place.clone());
                }
                self.file(&place, found)
            }
            InodeKind::Symlink => {
                let to = self.tree.link_target(found.inode).during("read the image")?;
                make(symlink(OsStr::from_bytes(&to), &place))
            }
            _ => {
                self.left_out += 1;
                Ok(())
            }
        }
    }

    /// Makes the directories above `path` that no step has made: those that the pattern skipped.
    fn parents(&mut self, path: &Path) -> Result<(), Failure> {
        let Some(parent) = path.parent() else { return Ok(()) };
        if parent == Path::new("") || self.known.contains(parent) {
            return Ok(());
        }
        self.parents(parent)?;
        let inode =
            self.tree.lookup_path(parent.as_os_str().as_bytes()).during("read the image")?;
        let inode = inode.ok_or_else(|| Failure::new("a directory is not in the image"))?;
        let found = self.tree.attributes(inode).during("read the image")?;
        self.directory(parent, &found)
    }

    fn directory(&mut self, path: &Path, found: &Attributes) -> Result<(), Failure> {
        let place = self.target.join(path);
        let make = std::fs::DirBuilder::new().mode(0o700).create(&place);
        make.during(format_args!("make {}", place.display()))?;
        self.made.push((path.to_owned(), *found));
        self.known.insert(path.to_owned());
        Ok(())
    }

    fn file(&mut self, place: &Path, found: &Attributes) -> Result<(), Failure> {
        let what = format!("write {}", place.display());
        let mut options = File::options();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(place).during(&what)?;
        let mut at = 0;
        while at < found.size {
            let len = self.tree.read(found.inode, at, &mut self.buf);
            let len = len.during(format_args!("read {}", place.display()))?;
            let bytes = self.buf.get(..len).unwrap_or_default();
            if bytes.is_empty() {
                return Err(Failure::new(format!("{} ends early in the image", place.display())));
            }
            if bytes.iter().all(|&byte| byte == 0) {
                file.seek(SeekFrom::Current(len as i64)).during(&what)?;
            } else {
                file.write_all(bytes).during(&what)?;
            }
            at += len as u64;
        }
        file.set_len(found.size).during(&what)?;
        dress(&file, found).during(&what)
    }

    /// Gives directories their modes and times, inner ones first.
    fn finish(&mut self) -> Result<(), Failure> {
        for (path, found) in self.made.iter().rev() {
            let place = self.target.join(path);
            let directory = File::open(&place).and_then(|directory| dress(&directory, found));
            directory.during(format_args!("finish {}", place.display()))?;
        }
        Ok(())
    }
}

/// Sets mode and modification time. Setuid and setgid bits are left out: the owner is another one.
fn dress(file: &File, found: &Attributes) -> std::io::Result<()> {
    file.set_permissions(Permissions::from_mode(found.permissions & 0o777))?;
    file.set_times(FileTimes::new().set_modified(time(found.mtime)))
}

fn time(stamp: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(stamp.sec.unsigned_abs());
    let whole = match stamp.sec < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(seconds),
        false => SystemTime::UNIX_EPOCH.checked_add(seconds),
    };
    let exact = whole.and_then(|time| time.checked_add(Duration::from_nanos(stamp.nsec.into())));
    exact.unwrap_or(SystemTime::UNIX_EPOCH)
}
