//! cpio, out: the "new ASCII" format (newc), which every cpio reads and Linux boots from.
//!
//! All numbers are 32 bits in hexadecimal digits, so a file of 4 GiB and more is left out, and a
//! time outside of 1970 to 2106 becomes the nearest one that can be said; both are reported. There
//! are no attributes and no fractions of seconds, and holes are zeroes. The first name of an inode
//! brings the data, further ones have its number and none.

use std::collections::HashMap;
use std::io::{self, Write};

use shale_format::inode::device_parts;
use shale_format::{InodeKind, Timestamp};

use crate::archive::{Archive, ArchiveEntry, Keeps, Taken};

const MAGIC: &[u8; 6] = b"070701";
/// Name of the entry that ends an archive.
const TRAILER: &[u8] = b"TRAILER!!!";
/// Archives end at a multiple of this, as old tools read whole blocks.
const RECORD_LEN: u64 = 512;

/// Writes a cpio archive.
#[derive(Debug)]
pub struct CpioWriter<W> {
    out: W,
    written: u64,
    /// Data of the entry that is still to come.
    left: u64,
    /// Inode numbers given so far: those of the tree may be too large.
    inode_count: u32,
    /// Numbers of inodes that have names still to come, and how many.
    links: HashMap<u64, (u32, u64)>,
}

impl<W: Write> CpioWriter<W> {
    /// Writes an archive to `out`.
    pub fn new(out: W) -> Self {
        Self { out, written: 0, left: 0, inode_count: 0, links: HashMap::new() }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn pad(&mut self, unit: u64) -> io::Result<()> {
        let len = self.written.next_multiple_of(unit) - self.written;
        self.write(&[0; RECORD_LEN as usize][..len as usize])
    }

    fn header(&mut self, fields: [u32; 13], name: &[u8]) -> io::Result<()> {
        let mut header = MAGIC.to_vec();
        for field in fields {
            header.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        header.extend_from_slice(name);
        header.push(0);
        self.write(&header)?;
        self.pad(4)
    }

    fn inode_number(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<u32> {
        if let Some((number, left)) = self.links.get_mut(&entry.inode) {
            let number = *number;
            *left -= 1;
            if *left == 0 {
                self.links.remove(&entry.inode);
            }
            return Ok(number);
        }
        let next = self.inode_count.checked_add(1);
        let next = next.ok_or_else(|| io::Error::other("cpio holds 4294967295 inodes at most"))?;
        self.inode_count = next;
        if entry.metadata.kind != InodeKind::Directory && entry.link_count > 1 {
            self.links.insert(entry.inode, (next, entry.link_count - 1));
        }
        Ok(next)
    }
}

/// The seconds as 32 bits without sign; says if they were others.
pub(crate) fn seconds(time: Timestamp, taken: &mut Taken) -> u32 {
    taken.is_rounded = time.nsec != 0;
    let nearest = time.sec.clamp(0, i64::from(u32::MAX)) as u32;
    if i64::from(nearest) != time.sec {
        taken.lost.push(format!("its time {} became {nearest}", time.sec));
    }
    nearest
}

impl<W: Write> Archive for CpioWriter<W> {
    fn keeps(&self) -> Keeps {
        Keeps { holes: false, hard_links: true, shared_contents: false }
    }

    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken> {
        let metadata = entry.metadata;
        let (Ok(len), Ok(target_len)) =
            (u32::try_from(metadata.len), u32::try_from(entry.target.len()))
        else {
            return Ok(Taken::not(format!(
                "it has {} bytes, cpio holds less than 4 GiB",
                metadata.len
            )));
        };
        let mut taken = Taken::whole();
        taken.lose_xattrs(entry.xattrs, |_| false);
        let is_device = matches!(metadata.kind, InodeKind::BlockDevice | InodeKind::CharDevice);
        let (major, minor) = if is_device { device_parts(metadata.device) } else { (0, 0) };
        let name = match entry.path {
            b"" => b".".to_vec(),
            TRAILER => [b"./", TRAILER].concat(),
            path => path.to_vec(),
        };
        let len = match (metadata.kind, entry.hard_link) {
            (InodeKind::File, None) => len,
            (InodeKind::Symlink, _) => target_len,
            _ => 0,
        };
        let fields = [
            self.inode_number(entry)?,
            metadata.kind.mode_bits() | metadata.permissions,
            metadata.uid,
            metadata.gid,
            u32::try_from(entry.link_count).unwrap_or(u32::MAX),
            seconds(metadata.mtime, &mut taken),
            len,
            0,
            0,
            major,
            minor,
            u32::try_from(name.len() + 1).map_err(io::Error::other)?,
            0,
        ];
        self.header(fields, &name)?;
        self.write(entry.target)?;
        self.left = if metadata.kind == InodeKind::File { u64::from(len) } else { 0 };
        Ok(taken)
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| io::Error::other("more data than the entry has"))?;
        self.write(bytes)
    }

    fn end_entry(&mut self) -> io::Result<()> {
        match self.left {
            0 => self.pad(4),
            _ => Err(io::Error::other("less data than the entry has")),
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.header([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, TRAILER.len() as u32 + 1, 0], TRAILER)?;
        self.pad(RECORD_LEN)?;
        self.out.flush()
    }
}
