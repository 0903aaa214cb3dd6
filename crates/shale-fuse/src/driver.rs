//! Answers requests from a view, whatever carries the requests.
//!
//! The driver turns requests of the kernel into calls of the view, and errors of the view into
//! error numbers. It needs no table of inodes, files or directories, since every request is
//! complete in itself, and file handles outlive the mount. What it remembers of requests only saves
//! work. A panic in the view fails the request with EIO and does not end the mount.

use crate::log::Log;
use crate::memo::Memo;
use crate::options::{Flush, Options, ReadWatch};
use crate::push::{Push, Sink, SmallFiles};
use crate::statistics::{FLUSH_XATTR, LAYOUT_XATTR, STATISTICS_XATTR, Statistics};
use crate::view::{
    Attributes, MODE_DIRECTORY, MODE_TYPE_MASK, ROOT, Seek, Totals, View, ViewError, XattrUse,
};
use rustix::io::Errno;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Longest name, as on other file systems.
const NAME_LEN_MAX: usize = 255;
/// Number of offsets that `.` and `..` take in a listing.
const DOT_COUNT: u64 = 2;

/// Answers requests about one view.
pub(crate) struct Driver {
    view: Arc<dyn View>,
    uid: Option<u32>,
    gid: Option<u32>,
    xattr_use: XattrUse,
    root_changes: bool,
    generation: u32,
    pub(crate) statistics: Statistics,
    memo: Memo,
    push: Push,
    log: Log,
    on_read: Option<ReadWatch>,
    on_flush: Option<Flush>,
}

/// One entry of a listing. The kernel continues after it at `next_offset`.
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) next_offset: u64,
    pub(crate) attributes: Attributes,
}

impl Driver {
    pub(crate) fn new(view: Arc<dyn View>, options: &Options) -> Self {
        // A file that is pushed may be read without a request, so it would not be seen.
        let push_len_max = if options.on_read.is_some() { 0 } else { options.push_len_max };
        Self {
            uid: options.uid,
            gid: options.gid,
            xattr_use: view.xattr_use(),
            root_changes: view.root_changes(),
            generation: view.generation(),
            statistics: Statistics::new(),
            memo: Memo::new(),
            push: Push::new(push_len_max),
            log: Log::new(Arc::clone(&options.log)),
            on_read: options.on_read.clone(),
            on_flush: options.on_flush.clone(),
            view,
        }
    }

    pub(crate) fn xattr_use(&self) -> XattrUse {
        self.xattr_use
    }

    /// Returns whether answers about the root and its names may change.
    pub(crate) fn root_changes(&self) -> bool {
        self.root_changes
    }

    /// Returns the length up to which files are to be pushed into the page cache.
    pub(crate) fn push_len_max(&self) -> u64 {
        self.push.len_max()
    }

    /// Begins to push small files into `sink`; with `None`, ends it.
    pub(crate) fn push_into(&self, sink: Option<Box<dyn Sink>>) {
        self.push.connect(sink);
    }

    /// Notes that the kernel no longer knows an inode.
    pub(crate) fn forget(&self, inode: u64) {
        self.push.forget(inode);
    }

    /// Returns the generation of an inode number. The kernel requires 0 for the root.
    pub(crate) fn generation(&self, inode: u64) -> u32 {
        if inode == ROOT { 0 } else { self.generation }
    }

    /// Looks up `name` in a directory; `None` if there is no such name. The kernel asks for `.` and
    /// `..` only to resolve file handles, when it has the number of an inode and needs the inode or
    /// its parent.
    pub(crate) fn lookup(&self, parent: u64, name: &[u8]) -> Result<Option<Attributes>, Errno> {
        self.answer(format_args!("look up a name in"), parent, || {
            Ok(match name {
                b"." => Some(self.view.attributes(parent)?),
                b".." => Some(self.view.attributes(self.view.parent(parent)?)?),
                _ if name.len() > NAME_LEN_MAX => return Err(Failure::Errno(Errno::NAMETOOLONG)),
                _ => self.view.lookup(parent, name)?,
            })
        })
        .map(|found| found.map(|attributes| self.owned(attributes)))
    }

    pub(crate) fn attributes(&self, inode: u64) -> Result<Attributes, Errno> {
        self.answer(format_args!("read the attributes of"), inode, || {
            Ok(self.view.attributes(inode)?)
        })
        .map(|attributes| self.owned(attributes))
    }

    pub(crate) fn link_target(&self, inode: u64) -> Result<Vec<u8>, Errno> {
        self.answer(format_args!("read the link"), inode, || Ok(self.view.link_target(inode)?))
    }

    /// Reads into `buf`; returns fewer bytes only at the end of the file.
    pub(crate) fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        if let Some(on_read) = &self.on_read {
            on_read(inode);
        }
        let pushed = self.push.reading(inode, offset);
        let wanted = buf.len();
        let read = self.answer(format_args!("read {wanted} bytes at {offset} of"), inode, || {
            let len = self.view.read(inode, offset, buf)?;
            if len > wanted {
                return Err(Failure::View(ViewError::Damaged("more bytes than asked for".into())));
            }
            Ok(len)
        });
        self.pushing(|| self.push.push(pushed, &*self.view));
        read
    }

    /// Pushes files, and survives a panic of the view.
    fn pushing(&self, push: impl FnOnce()) {
        if self.push.is_enabled() {
            let _ = catch_unwind(AssertUnwindSafe(push));
        }
    }

    /// Passes the entries of a listing from `offset` on to `sink`, until `sink` is full and returns
    /// false.
    ///
    /// An error after some entries ends the listing there. The kernel asks for the rest, and gets
    /// the error then. `tells_attributes` says that the kernel learns the inodes, not only names.
    pub(crate) fn list(
        &self,
        directory: u64,
        offset: u64,
        tells_attributes: bool,
        sink: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        let is_fixed = !(self.root_changes && directory == ROOT);
        if is_fixed && self.memo.ends_at(directory, offset) {
            self.pushing(|| self.push.ended(directory, &*self.view));
            return Ok(());
        }
        let mut files = SmallFiles::default();
        let mut end = offset;
        let mut is_full = false;
        let listed = self.answer(format_args!("list"), directory, || {
            self.list_from(directory, offset, &mut |line| {
                let Listed { next_offset, attributes, .. } = line;
                is_full = !sink(line);
                if !is_full {
                    end = next_offset;
                    if tells_attributes {
                        self.push.collect(&attributes, &mut files);
                    }
                }
                !is_full
            })
        });
        self.push.listed(directory, &files);
        if listed.is_ok() && !is_full {
            if is_fixed {
                self.memo.note_end(directory, end);
            }
            if end == offset {
                self.pushing(|| self.push.ended(directory, &*self.view));
            }
        }
        if end > offset { Ok(()) } else { listed }
    }

    fn list_from(
        &self,
        directory: u64,
        mut offset: u64,
        sink: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Failure> {
        while offset < DOT_COUNT {
            // The kernel uses only the number and the type of these two.
            let (name, inode): (&[u8], u64) = match offset {
                0 => (b".", directory),
                _ => (b"..", self.parent(directory)?),
            };
            offset += 1;
            if !sink(Listed { name, next_offset: offset, attributes: bare_directory(inode) }) {
                return Ok(());
            }
        }
        let mut bad_name = Ok(());
        self.view.list(directory, offset - DOT_COUNT, &mut |entry| {
            bad_name = check_name(entry.name);
            offset += 1;
            let attributes = self.owned(entry.attributes);
            if attributes.mode & MODE_TYPE_MASK == MODE_DIRECTORY {
                self.memo.note_parent(attributes.inode, directory);
            }
            bad_name.is_ok() && sink(Listed { name: entry.name, next_offset: offset, attributes })
        })?;
        Ok(bad_name?)
    }

    fn parent(&self, directory: u64) -> Result<u64, ViewError> {
        match self.memo.parent(directory) {
            Some(parent) => Ok(parent),
            None => self.view.parent(directory),
        }
    }

    /// Returns the value of one extended attribute.
    ///
    /// If the image has no attributes at all, the answer is EOPNOTSUPP: programs that look for
    /// labels and access lists in every file stop asking at the first such answer. ENOSYS would
    /// stop the kernel as well, but would also hide the statistics. In all other cases the answer
    /// for a missing attribute is that of [`no_xattr`].
    pub(crate) fn xattr(&self, inode: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if inode == ROOT && name == STATISTICS_XATTR.as_bytes() {
            return Ok(self.statistics.snapshot(self.counters()).to_json().into_bytes());
        }
        if let (true, Some(on_flush)) =
            (inode == ROOT && name == FLUSH_XATTR.as_bytes(), &self.on_flush)
        {
            on_flush();
            return Ok(Vec::new());
        }
        let found = self.answer(format_args!("read an extended attribute of"), inode, || {
            if name == LAYOUT_XATTR.as_bytes() {
                return Ok(self.view.layout(inode)?.map(String::into_bytes));
            }
            if !self.xattr_use.any {
                return Err(Failure::Errno(Errno::OPNOTSUPP));
            }
            Ok(self.view.xattr(inode, name)?)
        })?;
        found.ok_or_else(|| no_xattr(name))
    }

    /// Lists the names of extended attributes, each followed by a zero byte. Only root sees
    /// `trusted.` names, as on other file systems; the kernel protects their values.
    pub(crate) fn xattr_names(&self, inode: u64, uid: u32) -> Result<Vec<u8>, Errno> {
        if !self.xattr_use.any {
            // The kernel remembers this answer and never asks again.
            return Err(Errno::NOSYS);
        }
        self.answer(format_args!("list the extended attributes of"), inode, || {
            let mut names = Vec::new();
            self.view.xattr_names(inode, &mut |name| {
                if uid == 0 || !name.starts_with(b"trusted.") {
                    names.extend_from_slice(name);
                    names.push(0);
                }
            })?;
            Ok(names)
        })
    }

    /// Returns the offset of the next data or hole; ENXIO if there is none.
    pub(crate) fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<u64, Errno> {
        self.answer(format_args!("seek in"), inode, || Ok(self.view.seek(inode, offset, what)?))?
            .ok_or(Errno::NXIO)
    }

    pub(crate) fn totals(&self) -> Totals {
        self.view.totals()
    }

    /// Frees the caches of the view.
    pub(crate) fn rest(&self) {
        self.push.rest();
        // A panic is a bug, but no reason to end the mount.
        let _ = catch_unwind(AssertUnwindSafe(|| self.view.rest()));
    }

    /// Returns the counters of the view and of pushed files.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.view.counters();
        counters.extend(self.push.counters());
        counters
    }

    /// Names an inode for a message: by a path, or by its number if it has none or if finding the
    /// path fails.
    fn name(&self, inode: u64) -> String {
        let path = catch_unwind(AssertUnwindSafe(|| self.view.path(inode))).unwrap_or_default();
        match path {
            None => format!("inode {inode}"),
            Some(path) if path.is_empty() => "the root directory".to_owned(),
            Some(path) => String::from_utf8_lossy(&path).into_owned(),
        }
    }

    fn owned(&self, attributes: Attributes) -> Attributes {
        Attributes {
            uid: self.uid.unwrap_or(attributes.uid),
            gid: self.gid.unwrap_or(attributes.gid),
            ..attributes
        }
    }

    /// Calls the view once. Logs errors that are the fault of the image or the driver.
    fn answer<T>(
        &self,
        what: fmt::Arguments<'_>,
        inode: u64,
        call: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        let failure = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::View(ViewError::Damaged("the driver failed (a bug)".into())),
        };
        Err(match failure {
            Failure::Errno(errno) => errno,
            Failure::View(ViewError::NotFound) => Errno::NOENT,
            Failure::View(ViewError::NotDirectory) => Errno::NOTDIR,
            Failure::View(ViewError::WrongKind) => Errno::INVAL,
            Failure::View(error) => {
                self.log.line(|| format!("cannot {what} {}: {error}", self.name(inode)));
                Errno::IO
            }
        })
    }
}

/// Returns the error for a missing attribute, depending on the namespace of its name. The kernel
/// does this by itself for its own file systems; for FUSE it passes on all names.
fn no_xattr(name: &[u8]) -> Errno {
    const NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    if name == b"system.posix_acl_access" || name == b"system.posix_acl_default" {
        return Errno::NODATA;
    }
    match NAMESPACES.iter().find_map(|namespace| name.strip_prefix(*namespace)) {
        None => Errno::OPNOTSUPP,
        Some(b"") => Errno::INVAL,
        Some(_) => Errno::NODATA,
    }
}

/// Why a request failed: an error of the view, or an error number to return unchanged.
enum Failure {
    View(ViewError),
    Errno(Errno),
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Self {
        Self::View(error)
    }
}

/// Checks a name. The kernel refuses a whole listing that contains one invalid name and does not
/// say which name it was.
fn check_name(name: &[u8]) -> Result<(), ViewError> {
    let bad = name.is_empty()
        || name.len() > NAME_LEN_MAX
        || matches!(name, b"." | b"..")
        || name.iter().any(|&b| b == b'/' || b == 0);
    if bad {
        return Err(ViewError::Damaged(format!(
            "an entry has the invalid name \"{}\"",
            name.escape_ascii()
        )));
    }
    Ok(())
}

fn bare_directory(inode: u64) -> Attributes {
    Attributes {
        inode,
        mode: MODE_DIRECTORY,
        link_count: 0,
        uid: 0,
        gid: 0,
        device: (0, 0),
        len: 0,
        data_len: 0,
        atime: Default::default(),
        mtime: Default::default(),
        ctime: Default::default(),
    }
}
