//! Requests over `/dev/fuse`, read, parsed and answered by the crate `fuser`.
//!
//! Each thread reads a request and answers it before it reads the next. The features agreed on at
//! the start decide the cost of everything after: see [`FEATURES`]. Mounting and unmounting happen
//! elsewhere.

use super::convert::{absent, file_attr, file_type, sought, to_errno};
use super::negotiated::{Feature, FeatureState, Negotiated};
use super::threads::{reserve, startable};
use crate::driver::Driver;
use crate::push::Sink;
use crate::statistics::Operation;
use crate::view::ROOT;
use fuser::{
    AccessFlags, BsdFileFlags, Config, CopyFileRangeFlags, Errno, FileHandle, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, Notifier, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    SessionACL, TimeOrNow, WriteFlags,
};
use rustix::io::Errno as SysErrno;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long the kernel may cache an answer: for ever, since an image never changes.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);
/// Longest read to ask the kernel for, which is the longest that it grants by default.
const READ_LEN_MAX: u32 = 1 << 20;
/// Read-ahead requests that the kernel may have in flight, enough for read-ahead in many files at
/// once.
const BACKGROUND_MAX: u16 = 64;
/// Block size of `statfs`.
const STATFS_BLOCK_LEN: u32 = 4096;
/// Longest name.
const NAME_LEN_MAX: u32 = 255;

/// Optional features to ask the kernel for: flag, name, effect.
const FEATURES: [(InitFlags, &str, &str); 12] = [
    (InitFlags::FUSE_DO_READDIRPLUS, "readdirplus", "listings bring all attributes, always"),
    (InitFlags::FUSE_NO_OPEN_SUPPORT, "no-open", "files are opened without a request"),
    (
        InitFlags::FUSE_NO_OPENDIR_SUPPORT,
        "no-opendir",
        "directories are opened without a request and their listings cached",
    ),
    (InitFlags::FUSE_CACHE_SYMLINKS, "cache-symlinks", "a link is read once"),
    (InitFlags::FUSE_PARALLEL_DIROPS, "parallel-dirops", "one directory serves several at once"),
    (InitFlags::FUSE_ASYNC_READ, "async-read", "several reads of one file at once"),
    (InitFlags::FUSE_ASYNC_DIO, "async-direct-io", "several direct reads of one file at once"),
    (InitFlags::FUSE_MAX_PAGES, "max-pages", "reads of more than 128 KiB"),
    (InitFlags::FUSE_EXPLICIT_INVAL_DATA, "explicit-inval", "cached pages are never dropped"),
    (InitFlags::FUSE_EXPORT_SUPPORT, "export", "file handles work over NFS and remounts"),
    (InitFlags::FUSE_ALLOW_IDMAP, "idmap", "the mount can be given mapped owners"),
    (InitFlags::FUSE_POSIX_ACL, "posix-acl", "the kernel enforces access control lists"),
];

/// A conversation with the kernel about one mount, begun but not yet served.
pub(crate) struct Session {
    session: fuser::Session<Endpoint>,
    driver: Arc<Driver>,
    /// Requests being answered.
    answering: Arc<AtomicUsize>,
    negotiated: Negotiated,
    /// Holds the file handles that the threads will need until they open their own, so that
    /// nothing else takes the last handles that this process may have.
    reserved: Vec<OwnedFd>,
}

impl Session {
    /// Answers the kernel's first request on `device`, the handle of a new mount. Returns when the
    /// kernel has accepted the answer. `can_clone` is false for a handle that was opened in another
    /// user namespace: the kernel does not clone those, and the threads share it.
    ///
    /// # Errors
    /// The kernel's first request is missing or not acceptable; a system call failed.
    pub(crate) fn begin(
        driver: Arc<Driver>,
        device: OwnedFd,
        can_clone: bool,
        thread_count: usize,
    ) -> io::Result<Self> {
        let thread_count = startable(thread_count);
        let reserved = if can_clone { reserve(thread_count) } else { Vec::new() };
        let device_per_thread = !reserved.is_empty();
        let mut config = Config::default();
        config.n_threads = Some(thread_count);
        config.clone_fd = device_per_thread;
        let agreed = Arc::new(Mutex::new(None));
        let answering = Arc::new(AtomicUsize::new(0));
        let endpoint = Endpoint {
            driver: Arc::clone(&driver),
            answering: Arc::clone(&answering),
            agreed: Arc::clone(&agreed),
            no_open: false,
            no_opendir: false,
        };
        // The kernel keeps other users out by itself, unless `allow_other` is set.
        let session = fuser::Session::from_fd(endpoint, device, SessionACL::All, config)?;
        let agreed = agreed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(agreed) = agreed else {
            return Err(io::Error::other("the kernel did not begin with an INIT request"));
        };
        let negotiated = Negotiated {
            kernel_version: agreed.kernel_version,
            thread_count,
            device_per_thread,
            read_len_max: agreed.read_len_max,
            read_ahead_len: u64::from(agreed.read_ahead_len),
            push_len_max: if thread_count > 1 { driver.push_len_max() } else { 0 },
            features: agreed.features,
            kernel_view: None,
        };
        Ok(Self { session, driver, answering, negotiated, reserved })
    }

    pub(crate) fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// Gives up pushing files.
    pub(crate) fn push_nothing(&mut self) {
        self.negotiated.push_len_max = 0;
    }

    /// Serves until the mount is gone or the connection to the kernel breaks.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn run(self) -> io::Result<()> {
        drop(self.reserved);
        if self.negotiated.push_len_max > 0 {
            self.driver.push_into(Some(Box::new(PageCache {
                notifier: self.session.notifier(),
                answering: self.answering,
                thread_count: self.negotiated.thread_count,
            })));
        }
        let served = self.session.run();
        // It holds a handle of the device, which must be closed for the kernel to give up the
        // mount if the connection broke.
        self.driver.push_into(None);
        served
    }
}

/// The page cache of the kernel.
struct PageCache {
    notifier: Notifier,
    answering: Arc<AtomicUsize>,
    thread_count: usize,
}

impl Sink for PageCache {
    fn store(&self, inode: u64, bytes: &[u8]) -> io::Result<()> {
        self.notifier.store(INodeNo(inode), 0, bytes)
    }

    fn is_served_meanwhile(&self) -> bool {
        self.answering.load(Relaxed) < self.thread_count
    }
}

/// What the first request settled.
struct Agreed {
    kernel_version: (u32, u32),
    read_len_max: u32,
    read_ahead_len: u32,
    features: Vec<Feature>,
}

struct Endpoint {
    driver: Arc<Driver>,
    answering: Arc<AtomicUsize>,
    agreed: Arc<Mutex<Option<Agreed>>>,
    no_open: bool,
    no_opendir: bool,
}

thread_local! {
    /// The reply buffer of a thread; grows to the longest read that the thread has answered.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One request being answered. Its end is counted in the statistics.
struct Pending<'a> {
    driver: &'a Driver,
    answering: &'a AtomicUsize,
    operation: Operation,
    start: Instant,
}

impl Pending<'_> {
    fn done(self, len: usize) {
        self.driver.statistics.record(self.operation, self.start, len, false);
    }

    fn failed(self) {
        self.driver.statistics.record(self.operation, self.start, 0, true);
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.answering.fetch_sub(1, Relaxed);
    }
}

impl Endpoint {
    /// Returns how long the kernel may cache what is said of `inode`, or of names in it.
    fn lifetime(&self, inode: INodeNo) -> Duration {
        match inode.0 == ROOT && self.driver.root_changes() {
            true => Duration::ZERO,
            false => FOR_EVER,
        }
    }

    fn begin(&self, operation: Operation) -> Pending<'_> {
        self.answering.fetch_add(1, Relaxed);
        let (driver, answering) = (&self.driver, &*self.answering);
        Pending { driver, answering, operation, start: Instant::now() }
    }

    /// Refuses a request that would change the tree.
    fn refuse(&self, reply: impl FnOnce(Errno)) {
        let pending = self.begin(Operation::Refused);
        reply(Errno::EROFS);
        pending.failed();
    }

    /// Answers a request that the driver does not implement, so that the kernel does not repeat it.
    fn decline(&self, reply: impl FnOnce(Errno)) {
        let pending = self.begin(Operation::Other);
        reply(Errno::ENOSYS);
        pending.done(0);
    }

    fn open_any(&self, operation: Operation, unneeded: bool, cache: FopenFlags, reply: ReplyOpen) {
        let pending = self.begin(operation);
        if unneeded {
            reply.error(Errno::ENOSYS);
        } else {
            reply.opened(FileHandle(0), cache);
        }
        pending.done(0);
    }

    fn send_xattr(
        &self,
        pending: Pending<'_>,
        value: Result<Vec<u8>, SysErrno>,
        size: u32,
        reply: ReplyXattr,
    ) {
        match value {
            Ok(value) if size == 0 => {
                // The format's limits keep this far below 4 GiB.
                reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX));
                pending.done(0);
            }
            Ok(value) if value.len() > size as usize => {
                reply.error(Errno::ERANGE);
                pending.done(0);
            }
            Ok(value) => {
                reply.data(&value);
                pending.done(value.len());
            }
            Err(errno) => {
                reply.error(to_errno(errno));
                // "There is none" is an answer, not a failure.
                if matches!(errno, SysErrno::NODATA | SysErrno::OPNOTSUPP | SysErrno::NOSYS) {
                    pending.done(0);
                } else {
                    pending.failed();
                }
            }
        }
    }
}

impl fuser::Filesystem for Endpoint {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let xattr_use = self.driver.xattr_use();
        let mut features = Vec::with_capacity(FEATURES.len());
        for (flag, name, effect) in FEATURES {
            let state = if flag == InitFlags::FUSE_POSIX_ACL && !xattr_use.acl {
                // With it every permission check of group or others asks for an access list.
                FeatureState::NotNeeded
            } else if flag == InitFlags::FUSE_ALLOW_IDMAP && xattr_use.trusted {
                // With it the kernel does not tell who asks, and only root may list `trusted.`
                // names.
                FeatureState::NotWithImage
            } else if flag == InitFlags::FUSE_NO_OPENDIR_SUPPORT && self.driver.root_changes() {
                // It would have the kernel cache the listing of the root.
                FeatureState::NotWithImage
            } else if config.add_capabilities(flag).is_ok() {
                FeatureState::On
            } else {
                FeatureState::NotInKernel
            };
            features.push(Feature { name, effect, state });
        }
        let capabilities = config.capabilities();
        self.no_open = capabilities.contains(InitFlags::FUSE_NO_OPEN_SUPPORT);
        self.no_opendir = capabilities.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        // The kernel derives the longest read from the longest write, which never happens here.
        let too_long = |nearest| io::Error::other(format!("at most {nearest} is allowed"));
        config.set_max_write(READ_LEN_MAX).map_err(too_long)?;
        config.set_max_background(BACKGROUND_MAX).map_err(|n| too_long(u32::from(n)))?;
        // The kernel offers what it reads ahead by default and takes no more.
        let read_ahead_len = match config.set_max_readahead(READ_LEN_MAX) {
            Ok(_) => READ_LEN_MAX,
            Err(nearest) => {
                config.set_max_readahead(nearest).map_err(too_long)?;
                nearest
            }
        };
        let long_reads = capabilities.contains(InitFlags::FUSE_MAX_PAGES);
        let version = config.kernel_abi();
        let agreed = Agreed {
            kernel_version: (version.0, version.1),
            read_len_max: if long_reads { READ_LEN_MAX } else { 128 << 10 },
            read_ahead_len,
            features,
        };
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner) = Some(agreed);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let pending = self.begin(Operation::Lookup);
        match self.driver.lookup(parent.0, name.as_bytes()) {
            Ok(Some(attributes)) => {
                let generation = u64::from(self.driver.generation(attributes.inode));
                reply.entry(
                    &self.lifetime(parent),
                    &file_attr(&attributes),
                    Generation(generation),
                );
                pending.done(0);
            }
            Ok(None) => {
                reply.entry(&self.lifetime(parent), &absent(), Generation(0));
                pending.done(0);
            }
            Err(errno) => {
                reply.error(to_errno(errno));
                pending.failed();
            }
        }
    }

    fn forget(&self, _req: &Request, inode: INodeNo, _lookup_count: u64) {
        self.driver.forget(inode.0);
        self.driver.statistics.count(Operation::Forget, 1);
    }

    fn getattr(
        &self,
        _req: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let pending = self.begin(Operation::GetAttr);
        match self.driver.attributes(inode.0) {
            Ok(attributes) => {
                reply.attr(&self.lifetime(inode), &file_attr(&attributes));
                pending.done(0);
            }
            Err(errno) => {
                reply.error(to_errno(errno));
                pending.failed();
            }
        }
    }

    fn readlink(&self, _req: &Request, inode: INodeNo, reply: ReplyData) {
        let pending = self.begin(Operation::ReadLink);
        match self.driver.link_target(inode.0) {
            Ok(target) => {
                reply.data(&target);
                pending.done(target.len());
            }
            Err(errno) => {
                reply.error(to_errno(errno));
                pending.failed();
            }
        }
    }

    fn open(&self, _req: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let cache = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        self.open_any(Operation::Open, self.no_open, cache, reply);
    }

    fn read(
        &self,
        _req: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let pending = self.begin(Operation::Read);
        if size > READ_LEN_MAX {
            // More than what was agreed on.
            reply.error(Errno::EINVAL);
            return pending.failed();
        }
        READ_BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.driver.read(inode.0, offset, &mut buffer[..size]) {
                Ok(len) => {
                    reply.data(&buffer[..len]);
                    pending.done(len);
                }
                Err(errno) => {
                    reply.error(to_errno(errno));
                    pending.failed();
                }
            }
        });
    }

    fn flush(
        &self,
        _req: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.decline(|errno| reply.error(errno));
    }

    fn fsync(
        &self,
        _req: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        // The kernel takes ENOSYS as success and does not ask again.
        self.decline(|errno| reply.error(errno));
    }

    fn opendir(&self, _req: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let cache = match self.lifetime(inode).is_zero() {
            true => FopenFlags::empty(),
            false => FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR,
        };
        self.open_any(Operation::OpenDir, self.no_opendir, cache, reply);
    }

    fn readdir(
        &self,
        _req: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let pending = self.begin(Operation::ReadDir);
        let listed = self.driver.list(inode.0, offset, false, &mut |line| {
            !reply.add(
                INodeNo(line.attributes.inode),
                line.next_offset,
                file_type(line.attributes.mode),
                OsStr::from_bytes(line.name),
            )
        });
        match listed {
            Ok(()) => {
                reply.ok();
                pending.done(0);
            }
            Err(errno) => {
                reply.error(to_errno(errno));
                pending.failed();
            }
        }
    }

    fn readdirplus(
        &self,
        _req: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let pending = self.begin(Operation::ReadDirPlus);
        let lifetime = self.lifetime(inode);
        let listed = self.driver.list(inode.0, offset, true, &mut |line| {
            let generation = u64::from(self.driver.generation(line.attributes.inode));
            !reply.add(
                INodeNo(line.attributes.inode),
                line.next_offset,
                OsStr::from_bytes(line.name),
                &lifetime,
                &file_attr(&line.attributes),
                Generation(generation),
            )
        });
        match listed {
            Ok(()) => {
                reply.ok();
                pending.done(0);
            }
            Err(errno) => {
                reply.error(to_errno(errno));
                pending.failed();
            }
        }
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.decline(|errno| reply.error(errno));
    }

    fn statfs(&self, _req: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let pending = self.begin(Operation::StatFs);
        let totals = self.driver.totals();
        let blocks = totals.len.div_ceil(u64::from(STATFS_BLOCK_LEN));
        // No free blocks: an image is always full.
        reply.statfs(
            blocks,
            0,
            0,
            totals.inode_count,
            0,
            STATFS_BLOCK_LEN,
            NAME_LEN_MAX,
            STATFS_BLOCK_LEN,
        );
        pending.done(0);
    }

    fn getxattr(&self, _req: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let pending = self.begin(Operation::GetXattr);
        let value = self.driver.xattr(inode.0, name.as_bytes());
        self.send_xattr(pending, value, size, reply);
    }

    fn listxattr(&self, req: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let pending = self.begin(Operation::ListXattr);
        let names = self.driver.xattr_names(inode.0, req.uid());
        self.send_xattr(pending, names, size, reply);
    }

    fn lseek(
        &self,
        _req: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let pending = self.begin(Operation::Seek);
        let found = match (sought(whence), u64::try_from(offset)) {
            (Some(what), Ok(offset)) => self.driver.seek(inode.0, offset, what),
            // An offset before the file is answered like one after it, as on ext4.
            (Some(_), Err(_)) => Err(SysErrno::NXIO),
            (None, _) => Err(SysErrno::INVAL),
        };
        match found.and_then(|at| i64::try_from(at).map_err(|_| SysErrno::OVERFLOW)) {
            Ok(at) => {
                reply.offset(at);
                pending.done(0);
            }
            Err(errno) => {
                reply.error(to_errno(errno));
                // "Nothing follows" is an answer, not a failure.
                if errno == SysErrno::NXIO { pending.done(0) } else { pending.failed() }
            }
        }
    }

    fn access(&self, _req: &Request, _inode: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        self.decline(|errno| reply.error(errno));
    }

    fn ioctl(
        &self,
        _req: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _input: &[u8],
        _output_len: u32,
        reply: ReplyIoctl,
    ) {
        let pending = self.begin(Operation::Other);
        reply.error(Errno::ENOTTY);
        pending.done(0);
    }

    // Requests that would change the tree. The kernel refuses most of them itself, because the
    // mount is read-only; those that come through (after a remount) are refused here.

    fn setattr(
        &self,
        _req: &Request,
        _inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn mknod(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn mkdir(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn unlink(&self, _req: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        self.refuse(|errno| reply.error(errno));
    }

    fn rmdir(&self, _req: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        self.refuse(|errno| reply.error(errno));
    }

    fn symlink(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _target: &Path,
        reply: ReplyEntry,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn rename(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _new_parent: INodeNo,
        _new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn link(
        &self,
        _req: &Request,
        _inode: INodeNo,
        _new_parent: INodeNo,
        _new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn write(
        &self,
        _req: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _offset: u64,
        _data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn setxattr(
        &self,
        _req: &Request,
        _inode: INodeNo,
        _name: &OsStr,
        _value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn removexattr(&self, _req: &Request, _inode: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        self.refuse(|errno| reply.error(errno));
    }

    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn fallocate(
        &self,
        _req: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _offset: u64,
        _len: u64,
        _mode: i32,
        reply: ReplyEmpty,
    ) {
        self.refuse(|errno| reply.error(errno));
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        _from: INodeNo,
        _from_handle: FileHandle,
        _from_offset: u64,
        _to: INodeNo,
        _to_handle: FileHandle,
        _to_offset: u64,
        _len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.refuse(|errno| reply.error(errno));
    }
}
