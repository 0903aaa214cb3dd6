//! A cabinet as a source: its files, folder by folder, as plain bytes are decompressed once.
//!
//! There are no directories but those in the paths, no owners and no links. Times have no zone and
//! are read as UTC. Files that overlap in their folder are refused, as such cabinets unpack to more
//! than they store.

use std::path::Path;
use std::sync::Arc;

use shale_model::{
    Content, EntrySource, InodeKind, Metadata, Problem, ProblemKind, Select, SourceEntry,
    SourceError, Timestamp,
};

use super::folder::FolderReader;
use super::headers::{self, FORMAT, File, Folder};
use crate::error::ForeignError;
use crate::identity::Identities;
use crate::names;
use crate::selection::Selection;
use crate::stream::{Input, SharedStream, unreadable};
use crate::tree::{ImageFile, seed_of};
use crate::zip::{from_code_page_437, from_dos};

const ATTRIBUTE_READ_ONLY: u64 = 1;
const ATTRIBUTE_EXECUTABLE: u64 = 0x40;
const ATTRIBUTE_UTF_8: u64 = 0x80;

/// A cabinet that is read.
pub(crate) struct CabSource {
    name: Vec<u8>,
    file: Arc<ImageFile>,
    seed: [u8; 32],
    folders: Vec<Folder>,
    /// The next one last.
    files: Vec<File>,
    /// The folder at hand, its bytes, and where the file before ends in it.
    stream: Option<(usize, SharedStream)>,
    end: u64,
    content_bytes: u64,
    selection: Selection,
    identities: Identities,
    problems: Vec<Problem>,
}

impl std::fmt::Debug for CabSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CabSource").field("left", &self.files.len()).finish_non_exhaustive()
    }
}

/// Opens a cabinet. `seed` are bytes that stand for the file.
///
/// # Errors
/// Its headers are corrupt, or it uses what is not supported.
pub(crate) fn open(
    name: &Path,
    file: ImageFile,
    seed: &[u8],
    select: Option<Arc<dyn Select>>,
) -> Result<CabSource, SourceError> {
    use std::os::unix::ffi::OsStrExt;
    let name = name.as_os_str().as_bytes().to_vec();
    let headers = headers::read(&file).map_err(|error| error.into_source(&name))?;
    let mut files = headers.files;
    files.reverse();
    Ok(CabSource {
        name,
        file: Arc::new(file),
        seed: seed_of("cab", seed),
        folders: headers.folders,
        content_bytes: files.iter().map(|file| file.len).sum(),
        files,
        stream: None,
        end: 0,
        selection: Selection::new(select),
        identities: Identities::default(),
        problems: Vec::new(),
    })
}

impl CabSource {
    /// The bytes of the folder of `file`, at the beginning of the file.
    fn stream_of(&mut self, file: &File) -> Result<SharedStream, ForeignError> {
        let folder = self.folders[file.folder];
        let stream = match self.stream.take() {
            Some((number, stream)) if number == file.folder => stream,
            _ => {
                let reader = FolderReader::new(&self.file, &folder)?;
                self.end = 0;
                let opened = Input::open(Path::new(""), Box::new(reader), None);
                let input = opened.map_err(|error| match error {
                    SourceError::Unreadable { error, .. } => ForeignError::of_read(FORMAT, error),
                    other => ForeignError::new(FORMAT, other.to_string()),
                })?;
                input.into_stream()
            }
        };
        let skipped = stream.lock().skip_to(file.start);
        skipped.map_err(|error| unreadable(FORMAT, &error))?;
        self.end = file.start + file.len;
        self.stream = Some((file.folder, stream.clone()));
        Ok(stream)
    }

    fn path(&mut self, file: &File) -> Result<Vec<u8>, String> {
        let is_known =
            file.attributes & ATTRIBUTE_UTF_8 != 0 || std::str::from_utf8(&file.name).is_ok();
        let mut name = match is_known {
            true => file.name.clone(),
            false => from_code_page_437(&file.name),
        };
        name.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
        let path = names::relative(&name)?;
        if path.is_empty() {
            return Err("it has no name: corrupt".to_owned());
        }
        self.identities.check_above(&path)?;
        match self.identities.find(&path) {
            Some(_) => Err("its path comes twice: corrupt".to_owned()),
            None => Ok(path),
        }
    }

    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        while let Some(file) = self.files.pop() {
            let path = match self.path(&file) {
                Ok(path) => path,
                Err(what) => {
                    let path = names::cut(&file.name);
                    self.problems.push(Problem { path, kind: ProblemKind::Unreadable(what) });
                    continue;
                }
            };
            self.identities.add(&path, InodeKind::File);
            if !self.selection.takes(&path, InodeKind::File) {
                continue;
            }
            let is_same = self.stream.as_ref().is_some_and(|(number, _)| *number == file.folder);
            if is_same && file.len > 0 && file.start < self.end {
                let what = "it overlaps the file before: corrupt, or made to unpack to far more \
                            than it stores";
                let kind = ProblemKind::Unreadable(what.to_owned());
                self.problems.push(Problem { path: names::cut(&path), kind });
                continue;
            }
            let content = match file.len {
                0 => Content::None,
                len => {
                    let stream = self.stream_of(&file).map_err(|error| error.of(&path))?;
                    let reader = stream.content(FORMAT, &path, file.start, len);
                    Content::Reader { reader, holes: Vec::new() }
                }
            };
            let permissions =
                match file.attributes {
                    it if it & ATTRIBUTE_READ_ONLY != 0 => 0o444,
                    _ => 0o644,
                } | if file.attributes & ATTRIBUTE_EXECUTABLE != 0 { 0o111 } else { 0 };
            let metadata = Metadata {
                kind: InodeKind::File,
                permissions,
                uid: 0,
                gid: 0,
                mtime: from_dos(file.date, file.time),
                atime: Timestamp::default(),
                ctime: Timestamp::default(),
                btime: Timestamp::default(),
                len: file.len,
                device: 0,
            };
            return Ok(Some(SourceEntry {
                path,
                metadata,
                xattrs: Arc::default(),
                link: None,
                target: Vec::new(),
                content,
            }));
        }
        Ok(None)
    }
}

impl EntrySource for CabSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn content_bytes_max(&self) -> Option<u64> {
        Some(self.content_bytes)
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        self.advance().map_err(|error| error.into_source(&self.name))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}
