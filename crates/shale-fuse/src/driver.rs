//! Requests answered from a view, whatever carries them.
//!
//! The driver turns what the kernel asks into questions to the view, and the view's errors into
//! error numbers. It keeps no table of inodes, files or directories: every request stands alone,
//! so forgetting and releasing are no work and handles outlive the mount. A panic below costs the
//! request it happened in, which fails with EIO, not the mount.

use crate::log::Log;
use crate::options::{Flush, Options, ReadWatch};
use crate::statistics::{FLUSH_XATTR, LAYOUT_XATTR, STATISTICS_XATTR, Statistics};
use crate::view::{Attributes, MODE_DIRECTORY, ROOT, Seek, Totals, View, ViewError, XattrUse};
use rustix::io::Errno;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Longest name the kernel lets through on other file systems.
const NAME_LEN_MAX: usize = 255;
/// Offsets of a listing that `.` and `..` take.
const DOT_COUNT: u64 = 2;

/// Answers requests about one view.
pub(crate) struct Driver {
    view: Arc<dyn View>,
    uid: Option<u32>,
    gid: Option<u32>,
    xattr_use: XattrUse,
    generation: u32,
    pub(crate) statistics: Statistics,
    log: Log,
    on_read: Option<ReadWatch>,
    on_flush: Option<Flush>,
}

/// One line of a listing. `next_offset` is where the kernel goes on after it.
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) next_offset: u64,
    pub(crate) attributes: Attributes,
}

impl Driver {
    pub(crate) fn new(view: Arc<dyn View>, options: &Options) -> Self {
        Self {
            uid: options.uid,
            gid: options.gid,
            xattr_use: view.xattr_use(),
            generation: view.generation(),
            statistics: Statistics::new(),
            log: Log::new(Arc::clone(&options.log)),
            on_read: options.on_read.clone(),
            on_flush: options.on_flush.clone(),
            view,
        }
    }

    pub(crate) fn xattr_use(&self) -> XattrUse {
        self.xattr_use
    }

    /// The generation of an inode number; the kernel insists on 0 for the root.
    pub(crate) fn generation(&self, inode: u64) -> u32 {
        if inode == ROOT { 0 } else { self.generation }
    }

    /// The inode under `name`, or `None` where there is none. `.` and `..` are asked only for the
    /// sake of file handles: the kernel holds a number and wants the inode or its parent back.
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

    /// Fills `buf`; shorter only at the end of the file.
    pub(crate) fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        if let Some(on_read) = &self.on_read {
            on_read(inode);
        }
        let wanted = buf.len();
        self.answer(format_args!("read {wanted} bytes at {offset} of"), inode, || {
            let len = self.view.read(inode, offset, buf)?;
            if len > wanted {
                return Err(Failure::View(ViewError::Damaged("more bytes than asked for".into())));
            }
            Ok(len)
        })
    }

    /// Hands lines of a listing from `offset` on to `sink`, until it is full and returns false.
    ///
    /// An error after some lines ends the listing there; the kernel comes back for the rest and
    /// gets the error then.
    pub(crate) fn list(
        &self,
        directory: u64,
        offset: u64,
        sink: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        let mut line_count = 0u64;
        let listed = self.answer(format_args!("list"), directory, || {
            self.list_from(directory, offset, &mut |line| {
                let taken = sink(line);
                line_count += u64::from(taken);
                taken
            })
        });
        if line_count > 0 { Ok(()) } else { listed }
    }

    fn list_from(
        &self,
        directory: u64,
        mut offset: u64,
        sink: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Failure> {
        while offset < DOT_COUNT {
            // The kernel takes only number and type of these two.
            let (name, inode): (&[u8], u64) = match offset {
                0 => (b".", directory),
                _ => (b"..", self.view.parent(directory)?),
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
            bad_name.is_ok() && sink(Listed { name: entry.name, next_offset: offset, attributes })
        })?;
        Ok(bad_name?)
    }

    /// The value of one extended attribute.
    ///
    /// Where the image has none at all the answer is EOPNOTSUPP: programs that look for labels and
    /// access lists in every file stop asking at the first such answer. ENOSYS would stop the
    /// kernel as well, but also hide the statistics. Otherwise it is [`no_xattr`].
    pub(crate) fn xattr(&self, inode: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if inode == ROOT && name == STATISTICS_XATTR.as_bytes() {
            return Ok(self.statistics.snapshot(self.view.counters()).to_json().into_bytes());
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

    /// Names of extended attributes, each with a zero after it; `trusted.` ones for root only, as
    /// on other file systems. Their values are kept from others by the kernel.
    pub(crate) fn xattr_names(&self, inode: u64, uid: u32) -> Result<Vec<u8>, Errno> {
        if !self.xattr_use.any {
            // The kernel remembers this and never asks again.
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

    /// The next offset of what is sought; ENXIO where there is none.
    pub(crate) fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<u64, Errno> {
        self.answer(format_args!("seek in"), inode, || Ok(self.view.seek(inode, offset, what)?))?
            .ok_or(Errno::NXIO)
    }

    pub(crate) fn totals(&self) -> Totals {
        self.view.totals()
    }

    /// Gives memory back that the view holds only to be faster.
    pub(crate) fn rest(&self) {
        // A panic is a bug, but no reason to end the mount.
        let _ = catch_unwind(AssertUnwindSafe(|| self.view.rest()));
    }

    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.view.counters()
    }

    fn owned(&self, attributes: Attributes) -> Attributes {
        Attributes {
            uid: self.uid.unwrap_or(attributes.uid),
            gid: self.gid.unwrap_or(attributes.gid),
            ..attributes
        }
    }

    /// Runs one question; logs what is the image's or the driver's fault.
    fn answer<T>(
        &self,
        what: fmt::Arguments<'_>,
        inode: u64,
        question: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        let failure = match catch_unwind(AssertUnwindSafe(question)) {
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
                self.log.line(&format!("cannot {what} inode {inode}: {error}"));
                Errno::IO
            }
        })
    }
}

/// Why there is no attribute of this name, as the kernel answers for file systems of its own by
/// their namespaces: of FUSE it knows none, so that all names come here.
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

/// Why a question got no answer: the view's reason, or an error number as it is.
enum Failure {
    View(ViewError),
    Errno(Errno),
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Self {
        Self::View(error)
    }
}

/// The kernel refuses a whole listing for one such name; better to say which it was.
fn check_name(name: &[u8]) -> Result<(), ViewError> {
    let bad = name.is_empty()
        || name.len() > NAME_LEN_MAX
        || matches!(name, b"." | b"..")
        || name.iter().any(|&b| b == b'/' || b == 0);
    if bad {
        return Err(ViewError::Damaged(format!(
            "an entry has the impossible name \"{}\"",
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
