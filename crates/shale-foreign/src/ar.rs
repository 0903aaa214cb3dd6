//! ar archives, and Debian packages, which are ar archives with the files in a tar archive.
//!
//! GNU's and BSD's long names are read; symbol tables are left out. Of a package, the files that it
//! installs are packed (`data.tar`), not its scripts and description.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use shale_model::{
    Content, EntrySource, InodeKind, Metadata, Problem, ProblemKind, Select, SourceEntry,
    SourceError, Timestamp,
};

use crate::compression::Compression;
use crate::error::ForeignError;
use crate::names;
use crate::selection::Selection;
use crate::stream::Input;
use crate::tar::{TarOptions, TarSource};
use crate::tree::{FileRange, ImageFile, seed_of};

const FORMAT: &str = "ar archive";
const PACKAGE_FORMAT: &str = "Debian package";
/// First bytes of an archive.
pub(crate) const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_LEN: u64 = 60;
/// Members of an archive; their headers are read at once.
const MEMBER_COUNT_MAX: usize = 1 << 24;
/// Bytes of GNU's table of long names.
const LONG_NAMES_LEN_MAX: u64 = 64 << 20;
/// Bytes of a long name of BSD.
const NAME_LEN_MAX: u64 = 64 << 10;
/// First member of a Debian package, and the beginning of the name of the one with its files.
const PACKAGE_FIRST: &[u8] = b"debian-binary";
const PACKAGE_DATA: &[u8] = b"data.tar";

/// One file in an archive.
#[derive(Debug)]
struct Member {
    name: Vec<u8>,
    mode: u32,
    owner: (u32, u32),
    mtime: i64,
    start: u64,
    len: u64,
}

/// An ar archive that is read.
#[derive(Debug)]
pub(crate) struct ArSource {
    file: Arc<ImageFile>,
    seed: [u8; 32],
    members: VecDeque<Member>,
    problems: Vec<Problem>,
}

/// Opens an ar archive or a Debian package. `seed` are bytes that stand for the file.
///
/// # Errors
/// The archive is corrupt, or a package without files.
pub(crate) fn open(
    name: &Path,
    file: ImageFile,
    seed: &[u8],
    select: Option<Arc<dyn Select>>,
) -> Result<Box<dyn EntrySource>, SourceError> {
    use std::os::unix::ffi::OsStrExt;
    let path = name.as_os_str().as_bytes();
    let members = members(&file).map_err(|error| error.into_source(path))?;
    let file = Arc::new(file);
    if members.front().is_some_and(|member| member.name == PACKAGE_FIRST) {
        let fault = |what: String| ForeignError::new(PACKAGE_FORMAT, what).into_source(path);
        let data = members.iter().find(|member| member.name.starts_with(PACKAGE_DATA));
        let data =
            data.ok_or_else(|| fault("it has no data.tar: it was cut or is corrupt".to_owned()))?;
        let head = file.read(data.start, data.len.min(16));
        let compression = Compression::detect(&head.map_err(fault)?);
        let range = FileRange::new(&file, data.start..data.start + data.len);
        let input = Input::open(name, Box::new(range), compression)?;
        let options = TarOptions { seed: seed.to_vec(), select };
        return Ok(Box::new(TarSource::read(input, options)?));
    }
    let mut selection = Selection::new(select);
    let members = members.into_iter().filter(|m| selection.takes(&m.name, InodeKind::File));
    let members = members.collect();
    let seed = seed_of("ar", seed);
    Ok(Box::new(ArSource { file, seed, members, problems: Vec::new() }))
}

fn members(file: &ImageFile) -> Result<VecDeque<Member>, ForeignError> {
    let mut found = VecDeque::new();
    let mut long_names = Vec::new();
    let mut at = MAGIC.len() as u64;
    while at < file.len() {
        let header_at = at;
        let fault = |what: String| ForeignError::new(FORMAT, what).at(header_at);
        let head = file.read(at, HEADER_LEN).map_err(fault)?;
        let corrupt = || fault("corrupt: here should be the header of a member".to_owned());
        if &head[58..60] != b"`\n" {
            return Err(corrupt());
        }
        let field = |start: usize, end: usize| head[start..end].trim_ascii();
        let number = |start, end, radix| match field(start, end) {
            b"" => Ok(0),
            digits => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| u64::from_str_radix(digits, radix).ok())
                .ok_or_else(corrupt),
        };
        let mut len = number(48, 58, 10)?;
        let mut start = at + HEADER_LEN;
        let end = start.checked_add(len).filter(|&end| end <= file.len());
        let end =
            end.ok_or_else(|| fault("a member lies beyond the end: it was cut".to_owned()))?;
        at = end.next_multiple_of(2);
        // Spaces fill it up; those in front belong to the name.
        let given = head[..16].trim_ascii_end();
        let name = if let Some(name_len) = given.strip_prefix(b"#1/") {
            // BSD puts a long name in front of the data.
            let name_len = std::str::from_utf8(name_len).ok().and_then(|len| len.parse().ok());
            let name_len = name_len.filter(|&name_len| name_len <= len.min(NAME_LEN_MAX));
            let name_len = name_len.ok_or_else(corrupt)?;
            let name = file.read(start, name_len).map_err(fault)?;
            (start, len) = (start + name_len, len - name_len);
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            name[..end].to_vec()
        } else if given == b"//" {
            if len > LONG_NAMES_LEN_MAX {
                return Err(fault(format!("a table of names of {len} bytes")));
            }
            long_names = file.read(start, len).map_err(fault)?;
            continue;
        } else if let Some(offset) = given.strip_prefix(b"/").filter(|rest| !rest.is_empty()) {
            if offset == b"SYM64/" {
                continue;
            }
            let offset = std::str::from_utf8(offset).ok().and_then(|offset| offset.parse().ok());
            let name = offset.and_then(|offset: usize| long_names.get(offset..));
            let name = name.ok_or_else(corrupt)?;
            let end = name.iter().position(|&byte| byte == b'\n').unwrap_or(name.len());
            without_slash(&name[..end]).to_vec()
        } else {
            without_slash(given).to_vec()
        };
        // Symbol tables of GNU and BSD.
        if name.is_empty() || name.starts_with(b"__.SYMDEF") {
            continue;
        }
        let id = |id: u64| u32::try_from(id).map_err(|_| corrupt());
        found.push_back(Member {
            name,
            mode: id(number(40, 48, 8)?)?,
            owner: (id(number(28, 34, 10)?)?, id(number(34, 40, 10)?)?),
            mtime: i64::try_from(number(16, 28, 10)?).map_err(|_| corrupt())?,
            start,
            len,
        });
        if found.len() > MEMBER_COUNT_MAX {
            return Err(fault(format!("more than {MEMBER_COUNT_MAX} members")));
        }
    }
    Ok(found)
}

fn without_slash(name: &[u8]) -> &[u8] {
    name.strip_suffix(b"/").unwrap_or(name)
}

impl ArSource {
    fn entry(&self, member: &Member) -> Result<SourceEntry, String> {
        let path = names::relative(&member.name)?;
        if path.is_empty() || path.contains(&b'/') {
            return Err("its name is a path, which ar does not have".to_owned());
        }
        let range = FileRange::new(&self.file, member.start..member.start + member.len);
        let metadata = Metadata {
            kind: InodeKind::File,
            // Archives of a linker may have no modes.
            permissions: if member.mode == 0 { 0o644 } else { member.mode & 0o7777 },
            uid: member.owner.0,
            gid: member.owner.1,
            mtime: Timestamp { sec: member.mtime, nsec: 0 },
            atime: Timestamp::default(),
            ctime: Timestamp::default(),
            btime: Timestamp::default(),
            len: member.len,
            device: 0,
        };
        let content = match member.len {
            0 => Content::None,
            _ => Content::Reader { reader: Box::new(range), holes: Vec::new() },
        };
        let xattrs = Arc::default();
        Ok(SourceEntry { path, metadata, xattrs, link: None, target: Vec::new(), content })
    }
}

impl EntrySource for ArSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        while let Some(member) = self.members.pop_front() {
            match self.entry(&member) {
                Ok(entry) => return Ok(Some(entry)),
                Err(what) => {
                    let path = names::cut(&member.name);
                    self.problems.push(Problem { path, kind: ProblemKind::Unreadable(what) });
                }
            }
        }
        Ok(None)
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}
