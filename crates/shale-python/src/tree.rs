//! An open image and its trees, with the methods of the reader in Python.
//!
//! Paths and names are bytes. Inodes are numbers, and 1 is the root of a tree. Where a path does
//! not lead to anything, a method returns the number of the error, and the package raises the
//! exception with the path as the caller wrote it.

use std::sync::Arc;
use std::thread;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shale::read::{
    Attributes, Fault, Identity, InodeKind, Options, PieceKind, ReadError, SnapshotChoice,
    TIME_ATIME, TIME_BTIME, TIME_CTIME, TIME_MTIME, Timestamp,
};

use crate::failure::{named, read_failure};
use crate::source;

/// Smallest bound of the page cache: a few pages of each table.
const PAGE_BYTES_MIN: u64 = 4 << 20;
/// Links that one path may pass, as on Linux.
const LINKS_MAX: usize = 40;
/// Longest range that one call returns: what a list of bytes can hold on any system.
const READ_LEN_MAX: u64 = isize::MAX as u64;

const ENOENT: i32 = 2;
const ENOTDIR: i32 = 20;
const ELOOP: i32 = 40;

/// Times in nanoseconds since 1970; `None` where the image does not keep them.
type Times = (Option<i128>, Option<i128>, Option<i128>, Option<i128>);

/// An open image.
#[pyclass(frozen)]
pub(crate) struct Image {
    pub(crate) image: Arc<shale::read::Image>,
}

#[pymethods]
impl Image {
    /// Opens the image in a file, in bytes, or behind an object with `size` and `read_at`.
    #[new]
    #[pyo3(signature = (source, expect=None, cache_bytes=64 << 20))]
    fn new(source: &Bound<'_, PyAny>, expect: Option<&str>, cache_bytes: u64) -> PyResult<Self> {
        let py = source.py();
        let expect = match expect {
            None => None,
            Some(text) => Some(text.parse::<Identity>().map_err(|error| {
                pyo3::exceptions::PyValueError::new_err(format!("expect: {error}"))
            })?),
        };
        let source = source::open(source)?;
        let options = Options::default().expect(expect).cache_bytes_max(cache_bytes);
        // Who wants a small cache of frames opens many images, and wants few pages of each, too.
        let page_bytes = options.page_cache_bytes_max.min(cache_bytes.max(PAGE_BYTES_MIN));
        let options = options.page_cache_bytes_max(page_bytes);
        let opened = py.detach(|| shale::read::Image::open(source, options));
        Ok(Self { image: opened.map_err(|error| read_failure(py, error))? })
    }

    /// The identity in hexadecimal; `None` in images of format 0.1.
    #[getter]
    fn identity(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let found = py.detach(|| self.image.identity());
        let found = found.map_err(|error| read_failure(py, error))?;
        Ok(found.map(|(_, identity)| identity.to_string()))
    }

    /// Names of all snapshots, oldest first.
    #[getter]
    fn snapshots<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.image.snapshots().iter().map(|snapshot| PyBytes::new(py, &snapshot.name)).collect()
    }

    /// Frames in the image.
    #[getter]
    fn frame_count(&self) -> u64 {
        self.image.frame_count()
    }

    /// Frames that were decoded since the image was opened, those that others refer to included.
    #[getter]
    fn frames_decoded(&self) -> u64 {
        self.image.counters().snapshot().frames_decoded
    }

    /// The tree of a snapshot.
    fn tree(&self, py: Python<'_>, index: usize) -> PyResult<Tree> {
        let tree = self.image.tree(&SnapshotChoice::Index(index));
        Ok(Tree { tree: tree.map_err(|error| read_failure(py, error))? })
    }
}

/// The tree of one snapshot.
#[pyclass(frozen)]
pub(crate) struct Tree {
    pub(crate) tree: shale::read::Tree,
}

#[pymethods]
impl Tree {
    /// Follows a path from the root: (0, inode, mode, size), or (errno, 0, 0, 0) where it leads to
    /// nothing. Symbolic links are followed inside the image, the last one if `follow` says so;
    /// `..` never leaves the root.
    fn resolve(&self, py: Python<'_>, path: &[u8], follow: bool) -> PyResult<(i32, u64, u32, u64)> {
        let found = py.detach(|| self.find(path, follow));
        match found.map_err(|error| read_failure(py, error))? {
            Ok(found) => Ok((0, found.inode, found.mode(), found.size)),
            Err(number) => Ok((number, 0, 0, 0)),
        }
    }

    /// (mode, links, owner, group, size, device, mtime, atime, ctime, btime) of an inode. The
    /// device is (major, minor).
    #[allow(clippy::type_complexity)] // A record of Python.
    fn stat(
        &self,
        py: Python<'_>,
        inode: u64,
    ) -> PyResult<(u32, u64, u32, u32, u64, (u32, u32), Times)> {
        let found = py.detach(|| self.tree.attributes(inode));
        Ok(self.facts(&found.map_err(|error| read_failure(py, error))?))
    }

    /// Names of a directory with inodes and modes, in the order of their bytes.
    fn entries<'py>(
        &self,
        py: Python<'py>,
        inode: u64,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, u64, u32)>> {
        let list = || {
            let mut found = Vec::new();
            self.tree.list_attributes(inode, 0, |entry, attributes| {
                found.push((entry.name.to_vec(), attributes.inode, attributes.mode()));
                true
            })?;
            Ok(found)
        };
        let found: Vec<(Vec<u8>, u64, u32)> =
            py.detach(list).map_err(|error| read_failure(py, error))?;
        let found = found.into_iter();
        Ok(found.map(|(name, inode, mode)| (PyBytes::new(py, &name), inode, mode)).collect())
    }

    /// Everything below a directory, parents first, by path: (path, inode, mode, size).
    #[allow(clippy::type_complexity)] // A record of Python.
    fn below<'py>(
        &self,
        py: Python<'py>,
        inode: u64,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, u64, u32, u64)>> {
        let walk = || {
            let mut found = Vec::new();
            let mut walk = self.tree.walk(inode)?;
            while let Some(step) = walk.advance()? {
                let of = step.attributes;
                found.push((step.path.to_vec(), of.inode, of.mode(), of.size));
            }
            Ok(found)
        };
        let found: Vec<(Vec<u8>, u64, u32, u64)> =
            py.detach(walk).map_err(|error| read_failure(py, error))?;
        let found = found.into_iter();
        Ok(found
            .map(|(path, inode, mode, size)| (PyBytes::new(py, &path), inode, mode, size))
            .collect())
    }

    /// Target of a symbolic link.
    fn link_target<'py>(&self, py: Python<'py>, inode: u64) -> PyResult<Bound<'py, PyBytes>> {
        let target = py.detach(|| self.tree.link_target(inode));
        Ok(PyBytes::new(py, &target.map_err(|error| read_failure(py, error))?))
    }

    /// Extended attributes as (name, value).
    #[allow(clippy::type_complexity)] // A record of Python.
    fn xattrs<'py>(
        &self,
        py: Python<'py>,
        inode: u64,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let found = py.detach(|| self.tree.xattrs(inode));
        let found = found.map_err(|error| read_failure(py, error))?;
        let pair = |xattr: &shale::read::Xattr| {
            (PyBytes::new(py, &xattr.name), PyBytes::new(py, &xattr.value))
        };
        Ok(found.iter().map(pair).collect())
    }

    /// Bytes of a regular file, fewer at its end.
    fn read<'py>(
        &self,
        py: Python<'py>,
        inode: u64,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let failed = |error| read_failure(py, error);
        let of = py.detach(|| self.tree.attributes(inode)).map_err(failed)?;
        let Some(content) = of.content() else {
            // The reader says what is wrong with it.
            let none = py.detach(|| self.tree.read(inode, offset, &mut [])).map_err(failed)?;
            return Ok(PyBytes::new(py, &vec![0; none]));
        };
        let len = length.min(of.size.saturating_sub(offset));
        if len > READ_LEN_MAX {
            return Err(pyo3::exceptions::PyMemoryError::new_err("a range that no memory holds"));
        }
        PyBytes::new_with(py, len as usize, |buf| {
            let image = self.tree.image();
            let read = py.detach(|| image.read_content(content, offset, buf));
            let read = read.map_err(|error| failed(error.at(format!("file inode {inode}"))))?;
            match read == len as usize {
                true => Ok(()),
                false => Err(named(py, "DamagedError", "a file is shorter than it says".into())),
            }
        })
    }

    /// Several ranges, each (inode, offset, length), in the order of the list. They are read in
    /// the order of contents, side by side on `threads` threads, so that a frame that holds several
    /// of them is decoded about once.
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(u64, u64, u64)>,
        threads: usize,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let read = py.detach(|| self.read_sorted(&ranges, threads.clamp(1, 64)));
        let read = read.map_err(|error| read_failure(py, error))?;
        Ok(read.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }

    /// Where regular files are stored: (content, first frame, last frame), `None` for files without
    /// frames. Files of one content are equal. Of what is rebuilt, the frames are not known.
    #[allow(clippy::type_complexity)] // A record of Python.
    fn places(&self, py: Python<'_>, inodes: Vec<u64>) -> PyResult<Vec<(u64, Option<(u64, u64)>)>> {
        let find = || inodes.iter().map(|&inode| self.place(inode)).collect::<Result<_, _>>();
        py.detach(find).map_err(|error| read_failure(py, error))
    }

    /// Parts of a regular file that are data, as (start, end).
    fn data_ranges(&self, py: Python<'_>, inode: u64) -> PyResult<Vec<(u64, u64)>> {
        let find = || {
            let (mut found, mut at) = (Vec::new(), 0);
            while let Some(start) = self.tree.seek_data(inode, at)? {
                let Some(end) = self.tree.seek_hole(inode, start)? else { break };
                found.push((start, end));
                at = end;
            }
            Ok(found)
        };
        py.detach(find).map_err(|error| read_failure(py, error))
    }
}

impl Tree {
    fn facts(&self, of: &Attributes) -> (u32, u64, u32, u32, u64, (u32, u32), Times) {
        let kept = self.tree.snapshot().times_kept;
        let when = |bit: u8, time: Timestamp| {
            let ns = i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec);
            (kept & bit != 0).then_some(ns)
        };
        let times = (
            when(TIME_MTIME, of.mtime),
            when(TIME_ATIME, of.atime),
            when(TIME_CTIME, of.ctime),
            when(TIME_BTIME, of.btime),
        );
        (of.mode(), of.link_count, of.uid, of.gid, of.size, of.device(), times)
    }

    fn place(&self, inode: u64) -> Result<(u64, Option<(u64, u64)>), ReadError> {
        let mut frames: Option<(u64, u64)> = None;
        for piece in self.tree.pieces(inode, 0..u64::MAX)? {
            if let PieceKind::Frame { frame, .. } = piece?.kind {
                let (first, last) = frames.unwrap_or((frame, frame));
                frames = Some((first.min(frame), last.max(frame)));
            }
        }
        Ok((self.tree.attributes(inode)?.content().unwrap_or(0), frames))
    }

    /// The inner error is what a system call would return.
    fn find(&self, path: &[u8], follow: bool) -> Result<Result<Attributes, i32>, ReadError> {
        let mut waiting = Vec::new();
        push(&mut waiting, path);
        let mut stack = vec![self.tree.attributes(self.tree.root_inode())?];
        let mut links = 0;
        while let Some(name) = waiting.pop() {
            let Some(here) = stack.last() else { break };
            if here.kind != InodeKind::Directory {
                return Ok(Err(ENOTDIR));
            }
            if name == b".." {
                if stack.len() > 1 {
                    stack.pop();
                }
                continue;
            }
            let Some(found) = self.tree.lookup_attributes(here.inode, &name)? else {
                return Ok(Err(ENOENT));
            };
            if found.kind == InodeKind::Symlink && (follow || !waiting.is_empty()) {
                links += 1;
                if links > LINKS_MAX {
                    return Ok(Err(ELOOP));
                }
                let target = self.tree.link_target(found.inode)?;
                if target.starts_with(b"/") {
                    stack.truncate(1);
                }
                push(&mut waiting, &target);
                continue;
            }
            stack.push(found);
        }
        // The root is never popped.
        Ok(stack.pop().ok_or(ENOENT))
    }

    fn read_sorted(
        &self,
        ranges: &[(u64, u64, u64)],
        threads: usize,
    ) -> Result<Vec<Vec<u8>>, ReadError> {
        let image = self.tree.image();
        let mut order = Vec::with_capacity(ranges.len());
        for (index, &(inode, offset, len)) in ranges.iter().enumerate() {
            let of = self.tree.attributes(inode)?;
            let len = len.min(of.size.saturating_sub(offset));
            let Some(content) = of.content() else {
                self.tree.read(inode, offset, &mut [])?; // Says what is wrong with it.
                continue;
            };
            order.push((content, offset, len, index));
        }
        order.sort_unstable();
        let one = |part: &[(u64, u64, u64, usize)]| {
            let mut read = Vec::with_capacity(part.len());
            for &(content, offset, len, index) in part {
                let mut bytes = room_for(len)?;
                // Appended and not read into: nothing has to be zeroed first.
                let append = |part: &[u8]| {
                    bytes.extend_from_slice(part);
                    true
                };
                image
                    .visit_content(content, offset..offset.saturating_add(len), append)
                    .map_err(|error| error.at(format!("file inode {}", ranges[index].0)))?;
                read.push((index, bytes));
            }
            Ok::<_, ReadError>(read)
        };
        let part_len = order.len().div_ceil(threads).max(1);
        let parts: Vec<Result<_, ReadError>> = thread::scope(|scope| {
            let started: Vec<_> =
                order.chunks(part_len).map(|part| scope.spawn(move || one(part))).collect();
            let join = |one: thread::ScopedJoinHandle<'_, _>| match one.join() {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            started.into_iter().map(join).collect()
        });
        let mut all = vec![Vec::new(); ranges.len()];
        for part in parts {
            for (index, bytes) in part? {
                all[index] = bytes;
            }
        }
        Ok(all)
    }
}

/// Returns an empty list with room. A hostile image may claim files of any size, so the memory may
/// not be there.
fn room_for(len: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    match usize::try_from(len).ok().filter(|&len| bytes.try_reserve_exact(len).is_ok()) {
        Some(_) => Ok(bytes),
        None => Err(Fault::TooLong { len, len_max: READ_LEN_MAX }.into()),
    }
}

/// Puts the names of a path on a stack, the first one on top.
fn push(waiting: &mut Vec<Vec<u8>>, path: &[u8]) {
    let names = path.split(|&byte| byte == b'/').rev();
    let names = names.filter(|name| !name.is_empty() && *name != b".");
    waiting.extend(names.map(<[u8]>::to_vec));
}
