//! An open image and its trees, with the methods of the reader in Python.
//!
//! Paths and names are bytes. Inodes are numbers, and 1 is the root of a tree. Where a path does
//! not lead to anything, a method returns the number of the error, and the package raises the
//! exception with the path as the caller wrote it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use shale::read::{
    Attributes, Identity, InodeKind, Options, PieceKind, ReadError, SnapshotChoice, TIME_ATIME,
    TIME_BTIME, TIME_CTIME, TIME_MTIME, Timestamp, Walk, Workers,
};

use crate::bulk::Bulk;
use crate::bytes::Blank;
use crate::failure::read_failure;
use crate::source::{self, Opened};

/// Smallest bound of the page cache: a few pages of each table.
const PAGE_BYTES_MIN: u64 = 4 << 20;
/// Links that one path may pass, as on Linux.
const LINKS_MAX: usize = 40;
/// Entries that one step of a walk returns.
const STEP_ENTRIES: usize = 1024;

const ENOENT: i32 = 2;
const ENOTDIR: i32 = 20;
const ELOOP: i32 = 40;

/// Times in nanoseconds since 1970; `None` where the image does not keep them.
type Times = (Option<i128>, Option<i128>, Option<i128>, Option<i128>);

/// An open image.
#[pyclass(frozen)]
pub(crate) struct Image {
    pub(crate) image: Arc<shale::read::Image>,
    /// The source needs the interpreter.
    is_python: bool,
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
        let Opened { source, is_python } = source::open(source)?;
        let options = Options::default().expect(expect).cache_bytes_max(cache_bytes);
        // Who wants a small cache of frames opens many images, and wants few pages of each, too.
        let page_bytes = options.page_cache_bytes_max.min(cache_bytes.max(PAGE_BYTES_MIN));
        let mut options = options.page_cache_bytes_max(page_bytes);
        if !is_python {
            // They go on while Python does something else, and there may be no interpreter then.
            options = options.workers(Workers::new(0));
        }
        let opened = py.detach(|| shale::read::Image::open(source, options));
        Ok(Self { image: opened.map_err(|error| read_failure(py, error))?, is_python })
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
        let tree = tree.map_err(|error| read_failure(py, error))?;
        Ok(Tree { tree, is_python: self.is_python, last: Mutex::default() })
    }
}

/// The tree of one snapshot.
#[pyclass(frozen)]
pub(crate) struct Tree {
    pub(crate) tree: shale::read::Tree,
    is_python: bool,
    /// The directory that was found last, as it was written, and its inode. Only if no link and no
    /// `..` lies on the way to it.
    last: Mutex<Option<(Vec<u8>, u64)>>,
}

/// A walk over everything below a directory: an iterator over lists of (path, inode, mode, size),
/// parents first, in the order of names.
#[pyclass(frozen)]
pub(crate) struct Steps {
    walk: Mutex<Walk>,
    /// What paths begin with.
    above: Vec<u8>,
}

/// An entry of a walk: path, inode, mode and size.
type Step<P> = (P, u64, u32, u64);

#[pymethods]
impl Steps {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// The next entries. The size is that of a file or of the target of a link, and 0 for others.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Step<Bound<'py, PyString>>>>> {
        let walked = py.detach(|| self.advance()).map_err(|error| read_failure(py, error))?;
        if walked.is_empty() {
            return Ok(None);
        }
        let entry = |(path, inode, mode, size): Step<Vec<u8>>| {
            // Decoded as Python decodes names of files.
            Ok((OsStr::from_bytes(&path).into_pyobject(py)?, inode, mode, size))
        };
        walked.into_iter().map(entry).collect::<PyResult<Vec<_>>>().map(Some)
    }
}

impl Steps {
    fn advance(&self) -> Result<Vec<Step<Vec<u8>>>, ReadError> {
        let mut walk = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        while found.len() < STEP_ENTRIES
            && let Some(step) = walk.advance()?
        {
            let of = step.attributes;
            if step.depth > 0 {
                let size = match of.kind {
                    InodeKind::File | InodeKind::Symlink => of.size,
                    _ => 0,
                };
                found.push(([&self.above, step.path].concat(), of.inode, of.mode(), size));
            }
        }
        Ok(found)
    }
}

#[pymethods]
impl Tree {
    /// Follows a path from the root: (0, inode, mode, size), or (errno, 0, 0, 0) where it leads to
    /// nothing. Symbolic links are followed inside the image, the last one if `follow` says so;
    /// `..` never leaves the root.
    fn resolve(&self, py: Python<'_>, path: &[u8], follow: bool) -> PyResult<(i32, u64, u32, u64)> {
        let found = py.detach(|| self.find(path, follow));
        match found.map_err(|error| read_failure(py, error))? {
            Target::Inode(found) => Ok((0, found.inode, found.mode(), found.size)),
            Target::Nothing(number) => Ok((number, 0, 0, 0)),
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

    /// Everything below a directory; paths begin with `above`.
    fn steps(&self, py: Python<'_>, inode: u64, above: Vec<u8>) -> PyResult<Steps> {
        if inode == self.tree.root_inode() {
            py.detach(|| self.tree.will_list());
        }
        let walk = py.detach(|| self.tree.walk(inode));
        let walk = Mutex::new(walk.map_err(|error| read_failure(py, error))?);
        Ok(Steps { walk, above })
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
        let of = py.detach(|| self.tree.attributes(inode));
        self.read_range(py, &of.map_err(|error| read_failure(py, error))?, offset, length)
    }

    /// Reads a whole regular file and follows links. Returns `None` if the path leads to no regular
    /// file; `resolve` and `read` say what is wrong then.
    fn read_path<'py>(
        &self,
        py: Python<'py>,
        path: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = py.detach(|| self.find(path, true));
        match found.map_err(|error| read_failure(py, error))? {
            Target::Inode(of) if of.kind == InodeKind::File => {
                self.read_range(py, &of, 0, of.size).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Several ranges, each (inode, offset, length), in the order in which they are stored: an
    /// iterator over lists of (number of the range, bytes or an exception). They are read on
    /// `threads` threads, and ahead of the caller, so that a frame that holds several of them is
    /// decoded about once.
    fn read_stored(
        &self,
        py: Python<'_>,
        ranges: Vec<(u64, u64, u64)>,
        threads: usize,
    ) -> PyResult<Bulk> {
        let bulk = py.detach(|| Bulk::new(&self.tree, &ranges, threads, self.is_python));
        bulk.map_err(|error| read_failure(py, error))
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

    fn read_range<'py>(
        &self,
        py: Python<'py>,
        of: &Attributes,
        offset: u64,
        length: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let failed =
            |error: ReadError| read_failure(py, error.at(format!("file inode {}", of.inode)));
        let Some(content) = of.content() else {
            // The reader says what is wrong with it.
            py.detach(|| self.tree.read(of.inode, offset, &mut [])).map_err(failed)?;
            return Ok(PyBytes::new(py, b""));
        };
        let len = length.min(of.size.saturating_sub(offset));
        let mut blank = Blank::new(py, len)?;
        let mut room = blank.room(len as usize);
        let range = offset..offset.saturating_add(len);
        let read = py.detach(|| {
            self.tree.image().read_content_with(content, range, |bytes| _ = room.append(bytes))
        });
        read.map_err(failed)?;
        blank.finish(py)
    }

    /// Finds a path in the directory that was found last, as most paths follow others of the same
    /// directory. Returns `None` if it takes all of [`Tree::find`].
    fn find_beside(&self, path: &[u8], follow: bool) -> Result<Option<Target>, ReadError> {
        let Some((above, name)) = split(path) else { return Ok(None) };
        let directory = match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((path, inode)) if path == above => *inode,
            _ => return Ok(None),
        };
        Ok(match self.tree.lookup_attributes(directory, name)? {
            None => Some(Target::Nothing(ENOENT)),
            Some(found) if follow && found.kind == InodeKind::Symlink => None,
            Some(found) => Some(Target::Inode(found)),
        })
    }

    /// Follows a path from the root.
    fn find(&self, path: &[u8], follow: bool) -> Result<Target, ReadError> {
        if let Some(found) = self.find_beside(path, follow)? {
            return Ok(found);
        }
        let mut waiting = Vec::new();
        push(&mut waiting, path);
        let mut stack = vec![self.tree.attributes(self.tree.root_inode())?];
        let (mut links, mut is_plain) = (0, true);
        while let Some(name) = waiting.pop() {
            let Some(here) = stack.last() else { break };
            if here.kind != InodeKind::Directory {
                return Ok(Target::Nothing(ENOTDIR));
            }
            if name == b".." {
                is_plain = false;
                if stack.len() > 1 {
                    stack.pop();
                }
                continue;
            }
            let Some(found) = self.tree.lookup_attributes(here.inode, &name)? else {
                return Ok(Target::Nothing(ENOENT));
            };
            if found.kind == InodeKind::Symlink && (follow || !waiting.is_empty()) {
                is_plain = false;
                links += 1;
                if links > LINKS_MAX {
                    return Ok(Target::Nothing(ELOOP));
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
        if is_plain
            && let Some((above, _)) = split(path)
            && let [.., directory, _] = &stack[..]
        {
            let last = Some((above.to_vec(), directory.inode));
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
        }
        // The root is never popped.
        Ok(stack.pop().map_or(Target::Nothing(ENOENT), Target::Inode))
    }
}

/// What a path leads to.
enum Target {
    /// This inode.
    Inode(Attributes),
    /// Nothing; the number of the error that a system call would return.
    Nothing(i32),
}

/// A path as what is above its last name, and that name. `None` if it ends with no name.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let (above, name) = path.split_at(at);
    (!matches!(name, b"" | b"." | b"..")).then_some((above, name))
}

/// Puts the names of a path on a stack, the first one on top.
fn push(waiting: &mut Vec<Vec<u8>>, path: &[u8]) {
    let names = path.split(|&byte| byte == b'/').rev();
    let names = names.filter(|name| !name.is_empty() && *name != b".");
    waiting.extend(names.map(<[u8]>::to_vec));
}
