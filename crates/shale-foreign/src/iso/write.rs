//! A tree as an ISO 9660 image with Rock Ridge, which has everything of Unix, and Joliet, which
//! Windows reads.
//!
//! The data of a file follows that of the file before, in sectors. Directories come last, as they
//! name what was written before them; the descriptors at the beginning are known last, so the
//! output must be one that can be gone back in.
//!
//! Kept are owners, permissions, hard links, devices, pipes and sockets, and times in seconds from
//! 1900 to 2155. Attributes and what else is lost are reported. Joliet has no links and no special
//! files, and cuts names after 64 units of UTF-16; this is not reported, since Rock Ridge has them
//! all. The bytes depend on the entries alone.
//!
//! Memory: 150 bytes and the name an entry.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Seek, SeekFrom, Write};

use shale_format::InodeKind;
use shale_format::inode::device_parts;
use shale_format::limits::NAME_LEN_MAX;

use super::encode::{self, FLAG_CONTINUES, FLAG_DIRECTORY, Identifiers, PathTableEntry, Record};
use super::encode::{Records, Volume};
use super::volume::SECTOR_LEN;
use crate::archive::{Archive, ArchiveEntry, Keeps, Taken};
use crate::way::Way;

/// The first sector of the descriptors: both trees and the end.
const FIRST_DESCRIPTOR: u64 = 16;
const DESCRIPTOR_COUNT: u64 = 3;
/// Bytes of a file that one record says: whole sectors below 4 GiB.
const PIECE_LEN_MAX: u64 = (1 << 32) - SECTOR_LEN;
/// Sectors of an image: 8 TiB.
const SECTOR_COUNT_MAX: u64 = u32::MAX as u64;
/// Directories, as path tables number parents with 16 bits.
const DIRECTORY_COUNT_MAX: usize = 65_535;
/// A target of a symbolic link that Linux can follow.
const TARGET_LEN_MAX: usize = 4095;

/// Writes an ISO 9660 image.
pub struct IsoWriter<W> {
    out: W,
    /// Where the next byte goes.
    at: u64,
    nodes: Vec<Node>,
    directories: Vec<Directory>,
    /// Paths of the directories that the entry before lies in, and their numbers.
    on_the_way: Way<usize>,
    /// Inodes with several names.
    links: HashMap<u64, u32>,
    /// Bytes of the current entry that are still to come.
    left: u64,
}

impl<W> std::fmt::Debug for IsoWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IsoWriter").field("at", &self.at).finish_non_exhaustive()
    }
}

/// An inode.
#[derive(Debug)]
struct Node {
    mode: u32,
    owner: (u32, u32),
    link_count: u32,
    mtime: i64,
    /// The first sector and the bytes of a file.
    start: u32,
    len: u64,
    body: Body,
}

#[derive(Debug)]
enum Body {
    File,
    Directory(u32),
    Symlink(Box<[u8]>),
    Device(u32, u32),
    Other,
}

#[derive(Debug)]
struct Directory {
    node: u32,
    parent: usize,
    names: Vec<(Box<[u8]>, u32)>,
}

/// One of the two trees that an image has.
struct Plan {
    is_joliet: bool,
    /// Directories in the order of the path table: by depth, then parent, then name.
    order: Vec<usize>,
    names: Vec<Vec<u8>>,
    /// By the number of the directory: its number in that order, where it begins, sectors of its
    /// records.
    numbers: Vec<u32>,
    starts: Vec<u32>,
    sector_counts: Vec<u32>,
}

fn too_long() -> io::Error {
    io::Error::other("an ISO 9660 image has up to 8 TiB; tar holds more")
}

impl<W: Write + Seek> IsoWriter<W> {
    /// Writes an image to `out`, which is empty.
    ///
    /// # Errors
    /// The output fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        let at = (FIRST_DESCRIPTOR + DESCRIPTOR_COUNT) * SECTOR_LEN;
        out.seek(SeekFrom::Start(at))?;
        Ok(Self {
            out,
            at,
            nodes: Vec::new(),
            directories: Vec::new(),
            on_the_way: Way::new(),
            links: HashMap::new(),
            left: 0,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        if self.at / SECTOR_LEN > SECTOR_COUNT_MAX { Err(too_long()) } else { Ok(()) }
    }

    fn add(&mut self, name: &[u8], node: u32) -> io::Result<()> {
        let parent = self.on_the_way.last().and_then(|parent| self.directories.get_mut(*parent));
        let parent = parent.ok_or_else(|| io::Error::other("an entry without a directory"))?;
        parent.names.push((name.into(), node));
        Ok(())
    }

    /// The entries of a directory with their names in one of the trees, in the order of these.
    fn listed(&self, directory: usize, is_joliet: bool) -> Vec<(Vec<u8>, &[u8], u32)> {
        let mut identifiers = Identifiers::default();
        let mut found = Vec::new();
        for (name, node) in &self.directories[directory].names {
            let body = &self.nodes[*node as usize].body;
            let is_directory = matches!(body, Body::Directory(_));
            let identifier = match is_joliet {
                false => identifiers.plain(name, is_directory),
                true if is_directory || matches!(body, Body::File) => {
                    identifiers.joliet(name, is_directory)
                }
                true => continue,
            };
            found.push((identifier, &name[..], *node));
        }
        found.sort_unstable_by(|a, b| {
            encode::order(&a.0, is_joliet).cmp(&encode::order(&b.0, is_joliet))
        });
        found
    }

    /// The fields of Rock Ridge of an inode.
    fn fields(&self, number: u32, name: Option<&[u8]>) -> Vec<Vec<u8>> {
        let node = &self.nodes[number as usize];
        let mut fields =
            vec![encode::posix(node.mode, node.link_count, node.owner, number.saturating_add(1))];
        fields.push(encode::times(encode::date(node.mtime)));
        match &node.body {
            Body::Symlink(target) => fields.extend(encode::target(target)),
            Body::Device(major, minor) => fields.push(encode::device((*major, *minor))),
            _ => {}
        }
        if let Some(name) = name {
            fields.extend(encode::name(name));
        }
        fields
    }

    /// Encodes a directory. Without a plan that is complete, its length is right.
    fn records(&self, plan: &Plan, directory: usize, listed: &[(Vec<u8>, &[u8], u32)]) -> Records {
        let mut records = Records::default();
        let of_directory = |number: usize| {
            let node = &self.nodes[self.directories[number].node as usize];
            Record {
                start: plan.starts[number],
                len: plan.sector_counts[number].saturating_mul(SECTOR_LEN as u32),
                date: encode::date(node.mtime),
                flags: FLAG_DIRECTORY,
            }
        };
        let parent = self.directories[directory].parent;
        for (name, number) in [(0, directory), (1, parent)] {
            let mut fields = Vec::new();
            if !plan.is_joliet {
                if (name, directory) == (0, 0) {
                    let [announcement, reference] = encode::announcement();
                    fields.push(announcement);
                    fields.extend(self.fields(self.directories[number].node, None));
                    fields.push(reference);
                } else {
                    fields.extend(self.fields(self.directories[number].node, None));
                }
            }
            records.add(of_directory(number), &[name], &fields);
        }
        for (identifier, name, number) in listed {
            let node = &self.nodes[*number as usize];
            let fields = match plan.is_joliet {
                true => Vec::new(),
                false => self.fields(*number, Some(name)),
            };
            if let Body::Directory(directory) = node.body {
                records.add(of_directory(directory as usize), identifier, &fields);
                continue;
            }
            let (mut start, mut left) = (node.start, node.len);
            loop {
                let len = left.min(PIECE_LEN_MAX);
                left -= len;
                let flags = if left > 0 { FLAG_CONTINUES } else { 0 };
                let date = encode::date(node.mtime);
                records.add(Record { start, len: len as u32, date, flags }, identifier, &fields);
                if left == 0 {
                    break;
                }
                start += (len / SECTOR_LEN) as u32;
            }
        }
        records
    }

    /// Finds the place of each directory of a tree, from the end of what was written on.
    fn plan(&self, is_joliet: bool) -> io::Result<Plan> {
        let count = self.directories.len();
        let mut plan = Plan {
            is_joliet,
            order: Vec::with_capacity(count),
            names: Vec::with_capacity(count),
            numbers: vec![0; count],
            starts: vec![0; count],
            sector_counts: vec![0; count],
        };
        let mut sector = self.at / SECTOR_LEN;
        let mut waiting = VecDeque::from([(0, vec![0])]);
        while let Some((directory, name)) = waiting.pop_front() {
            plan.numbers[directory] = plan.order.len() as u32 + 1;
            plan.order.push(directory);
            plan.names.push(name);
            let listed = self.listed(directory, is_joliet);
            let (record_count, continued_count) =
                self.records(&plan, directory, &listed).sector_counts();
            plan.starts[directory] = u32::try_from(sector).map_err(|_| too_long())?;
            // The length of a directory has 32 bits.
            if u64::from(record_count) * SECTOR_LEN > u64::from(u32::MAX) {
                return Err(io::Error::other("a directory of more than 4 GiB"));
            }
            plan.sector_counts[directory] = record_count;
            sector += u64::from(record_count) + u64::from(continued_count);
            for (name, _, node) in listed {
                if let Body::Directory(child) = self.nodes[node as usize].body {
                    waiting.push_back((child as usize, name));
                }
            }
        }
        Ok(plan)
    }

    /// Writes one of the trees, and returns what its descriptor says.
    fn write_tree(&mut self, is_joliet: bool) -> io::Result<(u32, (u32, u32), Vec<u8>)> {
        let plan = self.plan(is_joliet)?;
        for &directory in &plan.order {
            let listed = self.listed(directory, is_joliet);
            let bytes = self.records(&plan, directory, &listed).finish(plan.starts[directory]);
            self.write(&bytes)?;
        }
        let entry = |(directory, name): (&usize, &Vec<u8>)| PathTableEntry {
            name: name.clone(),
            start: plan.starts[*directory],
            parent: plan.numbers[self.directories[*directory].parent] as u16,
        };
        let entries: Vec<PathTableEntry> = plan.order.iter().zip(&plan.names).map(entry).collect();
        let mut tables = (0, 0);
        let mut len = 0;
        for (is_big_endian, place) in [(false, &mut tables.0), (true, &mut tables.1)] {
            *place = (self.at / SECTOR_LEN) as u32;
            let mut bytes = encode::path_table(&entries, is_big_endian);
            len = bytes.len() as u32;
            bytes.resize(bytes.len().next_multiple_of(SECTOR_LEN as usize), 0);
            self.write(&bytes)?;
        }
        let root = Record {
            start: plan.starts[0],
            len: plan.sector_counts[0] * SECTOR_LEN as u32,
            date: encode::date(self.nodes[0].mtime),
            flags: FLAG_DIRECTORY,
        };
        Ok((len, tables, root.encode(&[0])))
    }

    fn finish_image(&mut self) -> io::Result<()> {
        if self.directories.is_empty() {
            return Err(io::Error::other("there is nothing in it"));
        }
        for directory in 0..self.directories.len() {
            let names = &self.directories[directory].names;
            let is_directory = |(_, node): &&(Box<[u8]>, u32)| {
                matches!(self.nodes[*node as usize].body, Body::Directory(_))
            };
            let below = names.iter().filter(is_directory).count();
            let node = self.directories[directory].node as usize;
            self.nodes[node].link_count = u32::try_from(below + 2).unwrap_or(u32::MAX);
        }
        let trees = [self.write_tree(false)?, self.write_tree(true)?];
        let sector_count = (self.at / SECTOR_LEN) as u32;
        self.out.seek(SeekFrom::Start(FIRST_DESCRIPTOR * SECTOR_LEN))?;
        for (is_joliet, (path_table_len, path_tables, root)) in [false, true].iter().zip(&trees) {
            let volume = Volume {
                is_joliet: *is_joliet,
                sector_count,
                path_table_len: *path_table_len,
                path_tables: *path_tables,
                root,
            };
            self.out.write_all(&volume.encode())?;
        }
        self.out.write_all(&encode::terminator())?;
        self.out.flush()
    }
}

impl<W: Write + Seek> Archive for IsoWriter<W> {
    fn keeps(&self) -> Keeps {
        // Files that share bytes are hard links, as far as readers can tell.
        Keeps { holes: false, hard_links: true, shared_contents: false }
    }

    fn entry(&mut self, entry: &ArchiveEntry<'_>) -> io::Result<Taken> {
        self.on_the_way.climb(entry.path);
        let name = entry.path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if entry.hard_link.is_some() {
            let node = self.links.get(&entry.inode).copied();
            let node = node.ok_or_else(|| io::Error::other("a link to what was not written"))?;
            self.add(name, node)?;
            return Ok(Taken::whole());
        }
        let metadata = entry.metadata;
        let mut taken = Taken::whole();
        taken.lose_xattrs(entry.xattrs, |_| false);
        taken.is_rounded = metadata.mtime.nsec != 0;
        let mtime = encode::nearest(metadata.mtime);
        if mtime != metadata.mtime.sec {
            taken.lost.push(format!("its time {} became {mtime}", metadata.mtime.sec));
        }
        let number = u32::try_from(self.nodes.len()).ok().filter(|number| *number < u32::MAX);
        let number = number.ok_or_else(|| io::Error::other("more than 4294967294 inodes"))?;
        let mut start = 0;
        let body = match metadata.kind {
            InodeKind::File => {
                let end = self.at.saturating_add(metadata.len);
                if end / SECTOR_LEN > SECTOR_COUNT_MAX {
                    return Ok(Taken::not(format!(
                        "left out: with its {} bytes the image has more than 8 TiB",
                        metadata.len
                    )));
                }
                if metadata.len > 0 {
                    start = (self.at / SECTOR_LEN) as u32;
                }
                Body::File
            }
            InodeKind::Directory => {
                let directory = self.directories.len();
                if directory >= DIRECTORY_COUNT_MAX {
                    return Err(io::Error::other(format!(
                        "there are more directories than the {DIRECTORY_COUNT_MAX} that ISO 9660 \
                         holds; tar holds them"
                    )));
                }
                Body::Directory(directory as u32)
            }
            InodeKind::Symlink => {
                let target = encode::plain_target(entry.target);
                if target.len() > TARGET_LEN_MAX || target.is_empty() {
                    let len = target.len();
                    return Ok(Taken::not(format!("left out: its target has {len} bytes")));
                }
                let longest = target.split(|&byte| byte == b'/').map(<[u8]>::len).max();
                if longest.is_some_and(|len| len > NAME_LEN_MAX) {
                    return Ok(Taken::not(format!(
                        "left out: a component of its target has more than {NAME_LEN_MAX} bytes"
                    )));
                }
                if target != entry.target {
                    taken.lost.push("its target lost slashes that say nothing".to_owned());
                }
                Body::Symlink(target.into())
            }
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                let (major, minor) = device_parts(metadata.device);
                if major == 0 && minor > 0xff {
                    return Ok(Taken::not(format!(
                        "left out: there is no device {major}:{minor} in ISO 9660"
                    )));
                }
                Body::Device(major, minor)
            }
            InodeKind::Fifo | InodeKind::Socket => Body::Other,
        };
        let is_file = matches!(body, Body::File);
        let directory = match body {
            Body::Directory(directory) => Some(directory as usize),
            _ => None,
        };
        self.nodes.push(Node {
            mode: metadata.kind.mode_bits() | metadata.permissions,
            owner: (metadata.uid, metadata.gid),
            link_count: u32::try_from(entry.link_count).unwrap_or(u32::MAX),
            mtime,
            start,
            len: if is_file { metadata.len } else { 0 },
            body,
        });
        if directory != Some(0) {
            self.add(name, number)?;
        }
        if let Some(directory) = directory {
            let parent = self.on_the_way.last().copied().unwrap_or(directory);
            self.directories.push(Directory { node: number, parent, names: Vec::new() });
            self.on_the_way.enter(entry.path, directory);
        } else if entry.link_count > 1 {
            self.links.insert(entry.inode, number);
        }
        self.left = if is_file { metadata.len } else { 0 };
        Ok(taken)
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| io::Error::other("more data than the entry has"))?;
        self.write(bytes)
    }

    fn end_entry(&mut self) -> io::Result<()> {
        if self.left > 0 {
            return Err(io::Error::other("less data than the entry has"));
        }
        let padding = self.at.next_multiple_of(SECTOR_LEN) - self.at;
        if padding > 0 { self.write(&[0; SECTOR_LEN as usize][..padding as usize]) } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.finish_image()
    }
}
