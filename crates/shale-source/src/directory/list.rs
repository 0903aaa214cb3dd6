//! Lists one directory: names, metadata, link targets and extended attributes of its entries.
//!
//! The result is sorted by the bytes of the names, so it does not depend on the order in which the
//! kernel lists. An entry costs two system calls, and one more for a link target or an attribute.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, RawDir, Statx, StatxAttributes, StatxFlags, StatxTimestamp};
use rustix::io::Errno;
use shale_codec::Hasher;
use shale_format::inode::device_number;
use shale_format::limits::{NAME_LEN_MAX, PATH_LEN_MAX};
use shale_format::root::{TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME};
use shale_format::{InodeKind, Timestamp};
use shale_model::{Amend, LinkId, Metadata, Problem, ProblemKind, Select, Xattr};

use crate::directory::xattrs::{XattrReader, XattrSets, hash_xattrs};
use shale_host::Beneath;
use shale_host::beneath::retry;

const _: () = assert!(size_of::<Node>() == 56);

/// No value, in the 32-bit indexes of a [`Node`].
pub(super) const NONE: u32 = u32::MAX;

/// The entries of one directory, by name.
#[derive(Debug, Default)]
pub(super) struct Listing {
    names: Vec<u8>,
    pub(super) nodes: Vec<Node>,
    targets: Vec<Box<[u8]>>,
    links: Vec<LinkId>,
    /// atime, ctime and btime of each node, where they are kept; otherwise empty.
    times: Vec<[Timestamp; 3]>,
}

/// One entry, packed into 56 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    name_start: u32,
    name_len: u16,
    mode: u16,
    uid: u32,
    gid: u32,
    mtime: Timestamp,
    /// Length of a regular file, or number of a device.
    size: u64,
    /// Index into the attribute sets of the walk, or `NONE`.
    xattrs: u32,
    /// Index into `links`, or `NONE`.
    link: u32,
    /// For a directory the number of its listing, for a symbolic link the index into `targets`, or
    /// `NONE`.
    pub(super) body: u32,
}

impl Node {
    /// Returns the kind of the inode.
    pub(super) fn kind(&self) -> InodeKind {
        // Nodes are made only of modes with a known kind.
        InodeKind::from_mode(u32::from(self.mode)).unwrap_or(InodeKind::File)
    }

    /// Returns whether this is a directory with a listing of its own.
    pub(super) fn is_walked_directory(&self) -> bool {
        self.body != NONE && self.kind() == InodeKind::Directory
    }
}

impl Listing {
    pub(super) fn name(&self, node: &Node) -> &[u8] {
        let start = node.name_start as usize;
        &self.names[start..start + usize::from(node.name_len)]
    }

    pub(super) fn metadata(&self, index: usize) -> Metadata {
        let node = &self.nodes[index];
        let [atime, ctime, btime] = self.times.get(index).copied().unwrap_or_default();
        let kind = node.kind();
        Metadata {
            kind,
            permissions: u32::from(node.mode) & 0o7777,
            uid: node.uid,
            gid: node.gid,
            mtime: node.mtime,
            atime,
            ctime,
            btime,
            len: if kind == InodeKind::File { node.size } else { 0 },
            device: match kind {
                InodeKind::BlockDevice | InodeKind::CharDevice => node.size,
                _ => 0,
            },
        }
    }

    pub(super) fn target(&self, node: &Node) -> &[u8] {
        match node.kind() {
            InodeKind::Symlink => self.targets.get(node.body as usize).map_or(&[], |t| t),
            _ => &[],
        }
    }

    /// Returns the bytes of all files in it together.
    pub(super) fn content_bytes(&self) -> u64 {
        let files = self.nodes.iter().filter(|node| node.kind() == InodeKind::File);
        files.fold(0, |sum, node| sum.saturating_add(node.size))
    }

    /// Returns the number of the node's set of attributes.
    pub(super) fn xattrs_of(&self, node: &Node) -> u32 {
        node.xattrs
    }

    pub(super) fn link(&self, node: &Node) -> Option<LinkId> {
        self.links.get(node.link as usize).copied()
    }

    /// Returns a hash of the whole listing. Its order and form depend on nothing else.
    pub(super) fn digest(&self, xattr_sets: &XattrSets, times_kept: u8) -> [u8; 32] {
        let mut hasher = Hasher::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let name = self.name(node);
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name);
            hash_metadata(&mut hasher, &self.metadata(index), times_kept);
            let target = self.target(node);
            hasher.update(&(target.len() as u64).to_le_bytes());
            hasher.update(target);
            hash_xattrs(&mut hasher, &xattr_sets.get(node.xattrs));
        }
        *hasher.finalize().as_bytes()
    }
}

/// Adds the metadata that are kept to a hash.
pub(super) fn hash_metadata(hasher: &mut Hasher, metadata: &Metadata, times_kept: u8) {
    hasher.update(&(metadata.kind.mode_bits() | metadata.permissions).to_le_bytes());
    hasher.update(&metadata.uid.to_le_bytes());
    hasher.update(&metadata.gid.to_le_bytes());
    hasher.update(&metadata.len.to_le_bytes());
    hasher.update(&metadata.device.to_le_bytes());
    let times = [
        (TIME_MTIME, metadata.mtime),
        (TIME_ATIME, metadata.atime),
        (TIME_CTIME, metadata.ctime),
        (TIME_BTIME, metadata.btime),
    ];
    for (bit, time) in times {
        if times_kept & bit != 0 {
            hasher.update(&time.sec.to_le_bytes());
            hasher.update(&time.nsec.to_le_bytes());
        }
    }
}

/// Result of listing a directory.
pub(super) struct Listed {
    pub(super) listing: Listing,
    /// Indexes of the nodes that are directories to walk.
    pub(super) directories: Vec<usize>,
    /// Bytes of content of regular files.
    pub(super) file_bytes: u64,
    pub(super) problems: Vec<Problem>,
}

/// What a lister needs to know.
pub(super) struct ListOptions<'a> {
    pub(super) excluded: &'a [LinkId],
    /// Asked now and then; if true, the listing is cut short.
    pub(super) cancelled: &'a (dyn Fn() -> bool + Sync),
    /// The device to stay on, if only one file system is walked.
    pub(super) device: Option<u64>,
    pub(super) times_kept: u8,
    /// Leave out what is marked as not to be dumped.
    pub(super) no_nodump: bool,
    /// Selects entries.
    pub(super) select: Option<&'a dyn Select>,
    /// Changes metadata.
    pub(super) amend: Option<&'a dyn Amend>,
}

/// Entries between two checks for cancellation.
const CANCEL_STEP: usize = 1024;

/// Lists directories. Each thread has one, with buffers for names and attributes.
pub(super) struct Lister<'a> {
    beneath: &'a Beneath,
    options: ListOptions<'a>,
    directory_buffer: Vec<u8>,
    xattrs: XattrReader<'a>,
}

impl<'a> Lister<'a> {
    pub(super) fn new(beneath: &'a Beneath, options: ListOptions<'a>) -> Self {
        Self {
            beneath,
            options,
            directory_buffer: Vec::with_capacity(64 << 10),
            xattrs: XattrReader::new(beneath),
        }
    }

    /// Returns which times are kept.
    pub(super) fn times_kept(&self) -> u8 {
        self.options.times_kept
    }

    /// Lists the directory at `path`. Fails only if the directory cannot be opened or listed;
    /// faults of single entries are returned as problems. `intern` numbers sets of attributes.
    pub(super) fn list(
        &mut self,
        path: &[u8],
        mut intern: impl FnMut(Vec<Xattr>) -> u32,
    ) -> io::Result<Listed> {
        let directory = self.beneath.directory_for_listing(path)?;
        let names = self.read_names(&directory)?;
        let mut listed = Listed {
            listing: Listing::default(),
            directories: Vec::new(),
            file_bytes: 0,
            problems: Vec::new(),
        };
        listed.listing.nodes.reserve_exact(names.len());
        for (index, name) in names.iter().enumerate() {
            if index % CANCEL_STEP == CANCEL_STEP - 1 && (self.options.cancelled)() {
                break;
            }
            if let Err(kind) = self.add(&directory, path, name, &mut intern, &mut listed) {
                listed.problems.push(Problem { path: join(path, name), kind });
            }
        }
        Ok(listed)
    }

    /// Returns the names in a directory, sorted, each once.
    fn read_names(&mut self, directory: &OwnedFd) -> io::Result<Names> {
        let mut names = Names::default();
        let mut entries = RawDir::new(directory, self.directory_buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                entry => entry?,
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn add(
        &mut self,
        directory: &OwnedFd,
        path: &[u8],
        name: &[u8],
        intern: &mut impl FnMut(Vec<Xattr>) -> u32,
        listed: &mut Listed,
    ) -> Result<(), ProblemKind> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let statx = retry(|| rustix::fs::statx(directory, name, flags, STATX_MASK))
            .map_err(|errno| ProblemKind::of(&errno.into()))?;
        let id = link_id(&statx);
        let mut metadata = metadata(&statx)
            .ok_or_else(|| ProblemKind::Unreadable("is of a kind that is not known".to_owned()))?;
        if self.options.excluded.contains(&id) {
            return Ok(());
        }
        if self.options.no_nodump && statx.stx_attributes.contains(StatxAttributes::NODUMP) {
            return Ok(());
        }
        if let Some(select) = self.options.select {
            let path = join(path, name);
            if !select.takes(&path, metadata.kind) || !select.takes_metadata(&path, &metadata) {
                return Ok(());
            }
        }
        let path_len = path.len() + 1 + name.len();
        if path_len > PATH_LEN_MAX {
            // Entries below are not even listed.
            let what = format!("path of {path_len} bytes, {PATH_LEN_MAX} allowed");
            return Err(ProblemKind::Limit(what));
        }
        let listing = &mut listed.listing;
        let name_end = listing.names.len() + name.len();
        if name.len() > NAME_LEN_MAX || name_end > u32::MAX as usize {
            return Err(ProblemKind::Limit(format!("name of {} bytes, 255 allowed", name.len())));
        }
        let (mut body, mut link) = (NONE, NONE);
        let mut size = metadata.device;
        match metadata.kind {
            InodeKind::Symlink => {
                let target = retry(|| rustix::fs::readlinkat(directory, name, Vec::new()))
                    .map_err(|errno| ProblemKind::of(&errno.into()))?;
                listing.targets.push(target.into_bytes().into());
                body = (listing.targets.len() - 1) as u32;
            }
            InodeKind::File => size = metadata.len,
            _ => {}
        }
        let xattrs = self
            .xattrs
            .of_entry(directory.as_fd(), path, name)
            .map_err(|error| ProblemKind::of(&error))?;
        let mut xattrs = xattrs;
        if let Some(amend) = self.options.amend {
            amend.amend(&mut metadata);
            xattrs.retain(|xattr| amend.keeps_xattr(&xattr.name));
        }
        let xattrs = if xattrs.is_empty() { NONE } else { intern(xattrs) };
        let is_directory = metadata.kind == InodeKind::Directory;
        if statx.stx_nlink > 1 && !is_directory {
            listing.links.push(id);
            link = (listing.links.len() - 1) as u32;
        }
        if is_directory && self.options.device.is_none_or(|device| device == id.device) {
            listed.directories.push(listing.nodes.len());
        }
        listed.file_bytes += metadata.len;
        if self.options.times_kept & (TIME_ATIME | TIME_CTIME | TIME_BTIME) != 0 {
            listing.times.push([metadata.atime, metadata.ctime, metadata.btime]);
        }
        listing.nodes.push(Node {
            name_start: listing.names.len() as u32,
            name_len: name.len() as u16,
            mode: (metadata.kind.mode_bits() | metadata.permissions) as u16,
            uid: metadata.uid,
            gid: metadata.gid,
            mtime: metadata.mtime,
            size,
            xattrs,
            link,
            body,
        });
        listing.names.extend_from_slice(name);
        Ok(())
    }
}

/// Names in one block of memory, because a directory may have millions.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    /// Start and length of each name.
    ranges: Vec<(usize, u16)>,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        self.ranges.push((self.bytes.len(), name.len() as u16));
        self.bytes.extend_from_slice(name);
    }

    /// Sorts by bytes. A name can be listed twice if the directory changes meanwhile.
    fn sort(&mut self) {
        let bytes = &self.bytes;
        let name = |&(start, len): &(usize, u16)| &bytes[start..start + usize::from(len)];
        self.ranges.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        self.ranges.dedup_by(|a, b| name(a) == name(b));
    }

    fn len(&self) -> usize {
        self.ranges.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges.iter().map(|&(start, len)| &self.bytes[start..start + usize::from(len)])
    }
}

/// Fields that `statx` is asked for.
pub(super) const STATX_MASK: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Converts the answer of the kernel; `None` for a kind of inode that Linux does not have.
pub(super) fn metadata(statx: &Statx) -> Option<Metadata> {
    let kind = InodeKind::from_mode(u32::from(statx.stx_mode))?;
    let btime = if statx.stx_mask & StatxFlags::BTIME.bits() != 0 {
        timestamp(&statx.stx_btime)
    } else {
        Timestamp::default()
    };
    Some(Metadata {
        kind,
        permissions: u32::from(statx.stx_mode) & 0o7777,
        uid: statx.stx_uid,
        gid: statx.stx_gid,
        mtime: timestamp(&statx.stx_mtime),
        atime: timestamp(&statx.stx_atime),
        ctime: timestamp(&statx.stx_ctime),
        btime,
        len: if kind == InodeKind::File { statx.stx_size } else { 0 },
        device: match kind {
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                device_number(statx.stx_rdev_major, statx.stx_rdev_minor)
            }
            _ => 0,
        },
    })
}

/// Returns the metadata of a file, or of a link itself. Costs a system call.
///
/// # Errors
/// The file does not exist or cannot be looked at.
pub(crate) fn metadata_of(path: &Path) -> io::Result<Metadata> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let statx = retry(|| rustix::fs::statx(rustix::fs::CWD, path, flags, STATX_MASK))?;
    metadata(&statx).ok_or_else(|| io::Error::other("is of a kind that is not known"))
}

/// Returns the identity of the inode.
pub(super) fn link_id(statx: &Statx) -> LinkId {
    LinkId {
        device: rustix::fs::makedev(statx.stx_dev_major, statx.stx_dev_minor),
        inode: statx.stx_ino,
    }
}

fn timestamp(time: &StatxTimestamp) -> Timestamp {
    // The kernel keeps nanoseconds below 10^9. This is for broken file systems.
    Timestamp { sec: time.tv_sec, nsec: time.tv_nsec.min(999_999_999) }
}

/// Returns the path of an entry.
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(directory);
    if !directory.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Returns the identity of an open file, for [`crate::ScanOptions::excluded`].
///
/// # Errors
/// The attributes of the file cannot be read.
pub fn file_identity(file: &File) -> io::Result<LinkId> {
    let statx = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, STATX_MASK)?;
    Ok(link_id(&statx))
}
