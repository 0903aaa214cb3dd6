//! Where the files of a plain tar archive lie, without reading them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::header::{BLOCK_LEN, Block, Header, is_header};
use super::pax::Pax;
use crate::error::ForeignError;
use crate::names;

/// Files that are listed at most; an image has some hundred.
const MEMBERS_MAX: usize = 100_000;
/// Bytes of an extended header: longer ones do not concern paths and lengths.
const HEADER_LEN_MAX: u64 = 1 << 20;
const FORMAT: &str = "tar archive";

/// A file in an archive, or a link to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Member {
    /// Its bytes: where they begin, and how many.
    File { offset: u64, len: u64 },
    /// A symbolic link with this target, or a hard link to this path.
    Link { target: Vec<u8>, is_symbolic: bool },
}

/// Lists the files of an archive by path; of files with the same path the last. Stops with an error
/// at the first thing that is not an archive. Reads headers only.
///
/// # Errors
/// The file cannot be read, or is corrupt.
pub(crate) fn members(file: &File) -> Result<BTreeMap<Vec<u8>, Member>, ForeignError> {
    let fault = |what: &str| ForeignError::new(FORMAT, what);
    let mut found = BTreeMap::new();
    let mut at = 0u64;
    let (mut pax, mut long_name) = (Pax::default(), None);
    loop {
        let mut block: Block = [0; BLOCK_LEN];
        match file.read_exact_at(&mut block, at) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(found),
            Err(error) => return Err(fault(&format!("cannot read on: {error}")).at(at)),
        }
        if block.iter().all(|&byte| byte == 0) {
            return Ok(found);
        }
        if !is_header(&block) {
            return Err(fault("corrupt: here should be a header, but its checksum is wrong").at(at));
        }
        let header = Header::read(&block);
        let of_header = header.stored_len.map_err(|what| fault(what).at(at))?;
        let len = pax.stored_len.or(u64::try_from(of_header).ok());
        let len = len.ok_or_else(|| fault("a length below zero").at(at))?;
        let offset = at + BLOCK_LEN as u64;
        let next = offset.checked_add(len).and_then(|end| end.checked_next_multiple_of(512));
        let next = next.ok_or_else(|| fault("its length leads beyond 64 bits").at(at))?;
        if matches!(header.type_flag, b'x' | b'L') {
            if len > HEADER_LEN_MAX {
                return Err(fault("an extended header that is too long").at(at));
            }
            let mut bytes = vec![0; len as usize];
            let read = file.read_exact_at(&mut bytes, offset);
            read.map_err(|error| fault(&format!("cannot read on: {error}")).at(offset))?;
            if header.type_flag == b'x' {
                pax.add(&bytes).map_err(|what| fault(&what).at(at))?;
            } else {
                bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
                long_name = Some(bytes);
            }
            at = next;
            continue;
        }
        let (pax, long_name) = (std::mem::take(&mut pax), long_name.take());
        let path = pax.path.or(long_name).unwrap_or(header.name);
        let target = pax.link_path.unwrap_or(header.link_name);
        let member = match header.type_flag {
            b'0' | 0 | b'7' => Some(Member::File { offset, len }),
            b'1' => Some(Member::Link { target, is_symbolic: false }),
            b'2' => Some(Member::Link { target, is_symbolic: true }),
            _ => None,
        };
        if let (Some(member), Ok(path)) = (member, names::relative(&path)) {
            found.insert(path, member);
            if found.len() > MEMBERS_MAX {
                return Err(fault("it has too many files for an image of a container").at(at));
            }
        }
        at = next;
    }
}
