//! Importers against the programs that know the formats: an archive of a small tree is changed
//! where its structure is, sums are made right again, and both read it.
//!
//! The rule: what the importer gives without complaint, a program gives too, with the same bytes;
//! and if the importer has nothing to complain about, it gives all that the program gives. Where
//! the importer refuses an archive, nobody gets anything, and a program that refuses it has no
//! opinion. Panics are differences. Memory and time are watched by the caller.

use crate::random::Random;
use crate::tar;
use shale_foreign::OpenOptions;
use shale_model::{Content, InodeKind};
use shale_table::varint;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes of contents that are compared for one archive.
const CONTENT_LEN_MAX: u64 = 32 << 20;
/// Memory that an archive may name for its decompressor.
const DECODER_MEMORY_LEN_MAX: u64 = 192 << 20;
/// Entries taken of one archive.
const ENTRY_COUNT_MAX: usize = 5000;

/// What [`compare`] says of a panic.
pub const PANICKED: &str = "the importer panicked";

/// A format, the programs that make and read it, and its sums.
pub struct Format {
    /// Its name.
    pub name: &'static str,
    made: Made,
    /// Programs that unpack `$IN` into the current directory. Where an archive is damaged they
    /// differ among themselves, so where the importer and the first one differ, another that agrees
    /// is enough.
    pub readers: &'static [&'static str],
    /// Bytes at which structures begin.
    magics: &'static [&'static [u8]],
    mend: fn(&mut [u8]),
}

/// What makes archives of a tree.
enum Made {
    /// Commands of a shell, each of which makes `$OUT` of the tree in the current directory.
    ByPrograms(&'static [&'static str]),
    /// A library, where no program does.
    ByLibrary(fn(&Path) -> Vec<Vec<u8>>),
}

/// All formats that have a program on Debian.
pub const FORMATS: &[Format] = &[
    Format {
        name: "tar",
        made: Made::ByPrograms(&[
            "bsdtar --format=pax -cf $OUT .",
            "bsdtar --format=gnutar -cf $OUT .",
            "bsdtar --format=ustar -cf $OUT .",
        ]),
        readers: &["bsdtar -xf $IN", "tar -xf $IN"],
        magics: &[b"ustar"],
        mend: tar::mend,
    },
    Format {
        name: "cpio",
        made: Made::ByPrograms(&[
            "bsdtar --format=newc -cf $OUT .",
            "bsdtar --format=odc -cf $OUT .",
            "sh -c 'find . | cpio -o --quiet -H crc > $OUT'",
            "sh -c 'find . | cpio -o --quiet -H bin > $OUT'",
        ]),
        readers: &["bsdtar -xf $IN", "sh -c 'cpio -id --quiet --no-absolute-filenames < $IN'"],
        magics: &[b"070701", b"070702", b"070707", b"\xc7\x71"],
        mend: |_| {},
    },
    Format {
        name: "zip",
        made: Made::ByPrograms(&[
            "zip -qry $OUT .",
            "zip -qr0y $OUT .",
            "7zz a -tzip -snl -bd $OUT .",
        ]),
        readers: &["unzip -qq -o $IN", "7zz x -y -bd -snl $IN", "bsdtar -xf $IN"],
        magics: &[b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"],
        mend: |_| {},
    },
    Format {
        name: "iso",
        made: Made::ByPrograms(&[
            "genisoimage -quiet -R -cache-inodes -o $OUT .",
            "genisoimage -quiet -J -o $OUT .",
            "genisoimage -quiet -o $OUT .",
        ]),
        readers: &["bsdtar -xf $IN", "7zz x -y -bd $IN"],
        magics: &[b"CD001", b"RR\x05\x01", b"NM", b"PX", b"\x01\0\0\x01"],
        mend: |_| {},
    },
    Format {
        name: "squashfs",
        made: Made::ByPrograms(&[
            "mksquashfs . $OUT -quiet -no-progress -noI -noD -noF -noX -no-duplicates",
            "mksquashfs . $OUT -quiet -no-progress -b 4096",
        ]),
        readers: &["unsquashfs -n -q -f -d . $IN", "7zz x -y -bd $IN"],
        magics: &[b"hsqs"],
        mend: |_| {},
    },
    Format {
        name: "erofs",
        made: Made::ByPrograms(&[
            "mkfs.erofs --quiet $OUT .",
            "mkfs.erofs --quiet --chunksize=4096 $OUT .",
            "mkfs.erofs --quiet -zlz4hc $OUT .",
            "mkfs.erofs --quiet -zlz4hc -Eztailpacking $OUT .",
            "mkfs.erofs --quiet -zlz4 -Elegacy-compress $OUT .",
        ]),
        readers: &["fsck.erofs --extract=. --overwrite $IN"],
        magics: &[b"\xe2\xe1\xf5\xe0"],
        mend: mend_erofs,
    },
    Format {
        name: "7z",
        made: Made::ByPrograms(&[
            "7zz a -snl -bd -mhc=off $OUT .",
            "7zz a -snl -bd -mhc=off -m0=Copy $OUT .",
            "7zz a -snl -bd -mhc=off -m0=PPMd $OUT .",
        ]),
        readers: &["7zz x -y -bd -snl $IN", "bsdtar -xf $IN"],
        magics: &[b"7z\xbc\xaf", b"\x01\x04\x06"],
        mend: mend_7z,
    },
    Format {
        name: "xar",
        made: Made::ByPrograms(&[
            "bsdtar --format=xar -cf $OUT .",
            "bsdtar --format=xar --options xar:compression=none -cf $OUT .",
            "bsdtar --format=xar --options xar:compression=xz -cf $OUT .",
        ]),
        readers: &["bsdtar -xf $IN", "7zz x -y -bd $IN"],
        magics: &[b"xar!", b"<file", b"<data>", b"<type", b"</file>", b"<offset>"],
        mend: mend_xar,
    },
    Format {
        name: "cab",
        made: Made::ByPrograms(&[
            "gcab -c $OUT a b d/text d/zeroes d/e/empty",
            "gcab -c -z $OUT a b d/text d/zeroes d/e/empty",
        ]),
        readers: &["cabextract -q $IN", "7zz x -y -bd $IN", "bsdtar -xf $IN"],
        magics: &[b"MSCF", b"a\0", b"d/text", b"CK"],
        mend: mend_cab,
    },
    Format {
        name: "rar",
        made: Made::ByLibrary(make_rar),
        readers: &["bsdtar -xf $IN", "7zz x -y -bd -snl $IN"],
        magics: &[b"Rar!", b"a", b"d/text", b"d\\text", b"\x01\x05"],
        mend: mend_rar,
    },
    Format {
        name: "ar",
        made: Made::ByPrograms(&[
            "bsdtar --format=arbsd -cf $OUT a b",
            "bsdtar --format=argnu -cf $OUT a b",
        ]),
        readers: &["bsdtar -xf $IN", "ar x $IN"],
        magics: &[b"!<arch>", b"`\n", b"#1/"],
        mend: |_| {},
    },
    Format {
        name: "deb",
        made: Made::ByPrograms(&[
            "sh -c 'rm -rf ../deb && mkdir -p ../deb/DEBIAN && cp -a . ../deb && \
                   printf \"Package: x\\nVersion: 1\\nArchitecture: all\\nMaintainer: x\\n\
                   Description: x\\n\" > ../deb/DEBIAN/control && \
                   dpkg-deb -Znone --root-owner-group -b ../deb $OUT'",
        ]),
        readers: &["dpkg-deb -x $IN ."],
        magics: &[b"`\n", b"ustar", b"data.tar"],
        mend: mend_tar_anywhere,
    },
    Format {
        name: "rpm",
        made: Made::ByPrograms(&[
            "sh -c '{ printf \"\\355\\253\\356\\333\\003\\000\"; head -c 90 /dev/zero;
                      for header in 1 2; do
                          printf \"\\216\\255\\350\\001\";
                          printf \"\\000\\000\\000\\000\\000\\000\\000\\000\";
                          printf \"\\000\\000\\000\\010eight...\";
                      done; bsdtar --format=newc -cf - . ; } > $OUT'",
        ]),
        readers: &[
            "bsdtar -xf $IN",
            "sh -c '7zz x -y -bd -trpm $IN > /dev/null && cat .*cpio* |
                    cpio -id --quiet --no-absolute-filenames && rm -f .*cpio*'",
        ],
        magics: &[b"070701", b"\xed\xab\xee\xdb", b"\x8e\xad\xe8\x01"],
        mend: |_| {},
    },
    Format {
        name: "lrzip",
        made: Made::ByPrograms(&[
            "sh -c 'bsdtar -cf ../x.tar . && lrzip -qfn -N0 -o $OUT ../x.tar'",
            "sh -c 'bsdtar -cf ../x.tar . && lrzip -qfg -N0 -o $OUT ../x.tar'",
            "sh -c 'bsdtar -cf ../x.tar . && lrzip -qfl -N0 -o $OUT ../x.tar'",
        ]),
        readers: &["sh -c 'lrzip -qdf -N0 -o ../y.tar $IN && bsdtar -xf ../y.tar'"],
        magics: &[b"LRZI"],
        mend: |_| {},
    },
];

/// A format by its name.
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Runs a line of a shell in `folder`; true if it succeeds. Files and time are limited.
pub fn shell(line: &str, folder: &Path, variable: (&str, &Path)) -> bool {
    let line = format!("ulimit -f 131072; exec timeout 20 {line}");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(folder).env(variable.0, variable.1);
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Makes a small tree in `root`.
pub fn tree(root: &Path) {
    let mut random = Random::new(27);
    fs::create_dir_all(root.join("d/e")).expect("it can be made");
    let text = random.text(9000);
    for (name, bytes) in [
        ("a", &b"content"[..]),
        ("b", &random.bytes(6000)),
        ("d/text", &text),
        ("d/zeroes", &[0; 5000]),
        ("d/e/empty", b""),
        ("d/e/longer name.txt", &random.text(300)),
    ] {
        fs::write(root.join(name), bytes).expect("it can be written");
    }
    std::os::unix::fs::symlink("d/text", root.join("link")).expect("it can be made");
    fs::hard_link(root.join("a"), root.join("d/second")).expect("it can be made");
}

/// Archives of this format, one for each program that makes it and is there.
pub fn seeds(format: &Format, folder: &Path) -> Vec<Vec<u8>> {
    let root = folder.join("tree");
    if !root.exists() {
        tree(&root);
    }
    let makers = match format.made {
        Made::ByPrograms(makers) => makers,
        Made::ByLibrary(make) => return make(&root),
    };
    let mut found = Vec::new();
    for maker in makers {
        // Programs add an extension to names without one.
        let out = folder.join(format!("seed.{}", format.name));
        let _ = fs::remove_file(&out);
        if shell(maker, &root, ("OUT", &out)) {
            let bytes = fs::read(&out).expect("it was written");
            found.push(if format.name == "xar" { loosen_xar(&bytes) } else { bytes });
        }
    }
    found
}

/// Changes an archive where its structure is, and makes its sums right.
pub fn change(format: &Format, seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    let places: Vec<usize> = format
        .magics
        .iter()
        .flat_map(|magic| {
            let found = seed.windows(magic.len()).enumerate();
            found.filter(move |(_, window)| window == magic).map(|(at, _)| at)
        })
        .collect();
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let len = bytes.len() as u64;
        // Most changes go near a structure.
        let at = match random.below(4) {
            0 => random.below(len),
            _ if places.is_empty() => random.below(len.min(4096)),
            _ => {
                let place = places[random.below(places.len() as u64) as usize] as u64;
                (place + random.below(160)).saturating_sub(16).min(len - 1)
            }
        } as usize;
        match random.below(9) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'/', b'.', b'9'][random.below(8) as usize],
            3 | 4 => {
                let width = [2, 4, 8][random.below(3) as usize];
                let near = random.below(8).wrapping_sub(4);
                let value = [near, len.wrapping_add(near), u64::MAX >> random.below(64), 4096]
                    [random.below(4) as usize];
                let end = bytes.len().min(at + width);
                let value = match random.below(2) {
                    0 => value.to_le_bytes()[..width].to_vec(),
                    _ => value.to_be_bytes()[8 - width..].to_vec(),
                };
                bytes[at..end].copy_from_slice(&value[..end - at]);
            }
            5 => {
                let from = random.below(len) as usize;
                let count = (random.below(64) as usize).min(bytes.len() - from.max(at));
                bytes.copy_within(from..from + count, at);
            }
            6 => {
                let count = (random.below(600) as usize).min(bytes.len() - at);
                let part = bytes[at..at + count].to_vec();
                bytes.splice(at..at, part);
            }
            7 => {
                let count = (random.below(600) as usize).min(bytes.len() - at);
                bytes.drain(at..at + count);
            }
            _ if random.below(8) == 0 => bytes.truncate(at),
            _ => bytes[at] = random.below(256) as u8,
        }
    }
    (format.mend)(&mut bytes);
    bytes
}

/// What an importer gave: contents of files by path, and whether it had something to say.
#[derive(Debug, Default)]
struct Given {
    files: BTreeMap<Vec<u8>, Vec<u8>>,
    is_whole: bool,
}

fn import(archive: &Path) -> Given {
    let mut given = Given::default();
    let Ok(file) = File::open(archive) else { return given };
    let options = OpenOptions {
        decoder_memory_len_max: Some(DECODER_MEMORY_LEN_MAX),
        ..OpenOptions::default()
    };
    let Ok(Some(mut source)) = shale_foreign::open(archive, file, options) else {
        return given;
    };
    let mut left = CONTENT_LEN_MAX;
    let mut links = BTreeMap::new();
    let mut directories = BTreeSet::new();
    let mut is_whole = true;
    for number in 0.. {
        let entry = match source.next_entry() {
            Ok(Some(entry)) if number < ENTRY_COUNT_MAX => entry,
            Ok(None) => break,
            Ok(Some(_)) => {
                is_whole = false;
                break;
            }
            // It is refused as a whole, and no image is written.
            Err(_) => return Given::default(),
        };
        // A later entry replaces an earlier one, but a file does not replace a directory.
        let is_file = entry.metadata.kind == InodeKind::File;
        if is_file && (entry.path.is_empty() || directories.contains(&entry.path)) {
            is_whole = false;
            continue;
        }
        given.files.remove(&entry.path);
        if !is_file {
            if entry.metadata.kind == InodeKind::Directory {
                directories.insert(entry.path);
            }
            continue;
        }
        let above = (0..entry.path.len()).filter(|&at| entry.path[at] == b'/');
        directories.extend(above.map(|at| entry.path[..at].to_vec()));
        let bytes = match entry.content {
            Content::Bytes(bytes) => Some(bytes),
            Content::None => Some(Vec::new()),
            Content::File(_) | Content::Held(_) => None,
            Content::Reader { reader, holes } => {
                let mut plain = Vec::new();
                let read = reader.take(left + 1).read_to_end(&mut plain);
                let fits = plain.len() as u64 <= left && entry.metadata.len <= CONTENT_LEN_MAX;
                (read.is_ok() && fits).then(|| with_holes(&plain, &holes, entry.metadata.len))
            }
        };
        let Some(mut bytes) = bytes else {
            is_whole = false;
            continue;
        };
        left = left.saturating_sub(bytes.len() as u64);
        // Further names of an inode may come without its content.
        if let Some(link) = entry.link {
            match bytes.is_empty() {
                true => bytes = links.get(&link).cloned().unwrap_or_default(),
                false => drop(links.insert(link, bytes.clone())),
            }
        }
        given.files.insert(entry.path, bytes);
    }
    given.is_whole =
        is_whole && source.take_problems().is_empty() && source.take_warnings().is_empty();
    given
}

fn with_holes(plain: &[u8], holes: &[std::ops::Range<u64>], len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut plain = plain.iter().copied();
    let mut holes = holes.iter().peekable();
    while (bytes.len() as u64) < len {
        if let Some(hole) = holes.next_if(|hole| hole.start == bytes.len() as u64) {
            bytes.resize(hole.end as usize, 0);
            continue;
        }
        match plain.next() {
            Some(byte) => bytes.push(byte),
            None => break,
        }
    }
    bytes
}

/// The contents of regular files below `root`, by path.
fn on_disk(root: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                waiting.push(path);
            } else if metadata.is_file() && metadata.len() <= CONTENT_LEN_MAX {
                let name = path.strip_prefix(root).expect("it is below").as_os_str().as_bytes();
                found.insert(name.to_vec(), fs::read(&path).unwrap_or_default());
            }
        }
    }
    found
}

/// What came of an archive that was read both ways.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The importer gave no file, or the program refused the archive or found nothing in it:
    /// nothing was compared.
    Refused,
    /// Both read the same.
    Same,
    /// The first difference.
    Different(String),
}

/// Reads an archive both ways, in `folder`.
pub fn compare(format: &Format, bytes: &[u8], folder: &Path) -> Verdict {
    let archive = folder.join(format!("case.{}", format.name));
    fs::write(&archive, bytes).expect("it can be written");
    let Ok(given) = catch_unwind(AssertUnwindSafe(|| import(&archive))) else {
        return Verdict::Different(PANICKED.to_owned());
    };
    if given.files.is_empty() {
        return Verdict::Refused;
    }
    let read_by = |program: &&str| {
        let out = folder.join("out");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).expect("it can be made");
        match shell(program, &out, ("IN", &archive)) {
            true => judge(&given, &on_disk(&out)),
            false => Verdict::Refused,
        }
    };
    let [first, others @ ..] = format.readers else { return Verdict::Refused };
    match read_by(first) {
        Verdict::Different(_) if others.iter().any(|other| read_by(other) == Verdict::Same) => {
            Verdict::Same
        }
        verdict => verdict,
    }
}

/// Compares what the importer gave with what a program unpacked.
fn judge(given: &Given, expected: &BTreeMap<Vec<u8>, Vec<u8>>) -> Verdict {
    if expected.is_empty() {
        return Verdict::Refused;
    }
    let different =
        |path: &[u8], what: &str| Verdict::Different(format!("{}: {what}", path.escape_ascii()));
    // Only some programs know the encoding of names that are not ASCII.
    let by_name: BTreeMap<String, &Vec<u8>> =
        expected.iter().map(|(path, bytes)| (in_ascii(path), bytes)).collect();
    for (path, bytes) in &given.files {
        match by_name.get(&in_ascii(path)).copied() {
            None if bytes.len() as u64 > CONTENT_LEN_MAX => {}
            None => return different(path, "only the importer has it"),
            Some(other) if other != bytes => {
                let (ours, theirs) = (bytes.len(), other.len());
                let what = format!("{ours} bytes, and others than those {theirs}");
                return different(path, &what);
            }
            Some(_) => {}
        }
    }
    let names: BTreeSet<String> = given.files.keys().map(|path| in_ascii(path)).collect();
    let missing = expected.keys().find(|path| !names.contains(&in_ascii(path)));
    match missing.filter(|_| given.is_whole) {
        Some(path) => different(path, "the importer lost it"),
        None => Verdict::Same,
    }
}

/// A path with one mark in place of each run of bytes that are not printed in ASCII.
fn in_ascii(path: &[u8]) -> String {
    let mut found = String::new();
    for &byte in path {
        match byte {
            b' '..=b'~' => found.push(char::from(byte)),
            _ if found.ends_with('\x7f') => {}
            _ => found.push('\x7f'),
        }
    }
    found
}

/// Headers of tar archives that are members of others, at any byte.
fn mend_tar_anywhere(bytes: &mut [u8]) {
    let found = bytes.windows(5).enumerate().filter(|(_, window)| window == b"ustar");
    let starts: Vec<usize> = found.filter_map(|(at, _)| at.checked_sub(257)).collect();
    for start in starts {
        if let Some(block) = bytes.get_mut(start..start + 512) {
            tar::mend(block);
        }
    }
}

/// Archives of the tree, of the versions that bsdtar reads.
fn make_rar(root: &Path) -> Vec<Vec<u8>> {
    use rars::{ArchiveVersion, Builder};
    let files = on_disk(root);
    let mut found = Vec::new();
    for version in [ArchiveVersion::Rar29, ArchiveVersion::Rar50] {
        for (is_stored, is_solid) in [(true, false), (false, false), (false, true)] {
            let mut builder = Builder::new(version).store(is_stored).solid(is_solid);
            for (path, bytes) in &files {
                let added = builder.add_bytes(path.clone(), bytes.clone(), None, Some(0o644));
                added.expect("it can be added");
            }
            found.push(builder.to_bytes().expect("it can be made"));
        }
    }
    found
}

fn mend_rar(bytes: &mut [u8]) {
    match bytes.get(6) {
        Some(1) => mend_rar_5(bytes),
        Some(0) => mend_rar_4(bytes),
        _ => {}
    }
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = shale_codec::stream::Crc32::new();
    crc.update(bytes);
    crc.sum()
}

/// Makes the sums of headers right, one after the other, as far as they lead.
fn mend_rar_5(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: &mut usize| {
        let mut rest = bytes.get(*at..)?;
        let value = varint::take(&mut rest)?;
        *at = bytes.len() - rest.len();
        Some(value)
    };
    let mut next = || {
        let mut at = 8usize;
        while let Some(sum_end) = at.checked_add(4) {
            let mut inside = sum_end;
            let len = usize::try_from(number(bytes, &mut inside)?).ok()?;
            let end = inside.checked_add(len)?;
            let sum = crc(bytes.get(sum_end..end)?).to_le_bytes();
            bytes[at..sum_end].copy_from_slice(&sum);
            number(bytes, &mut inside)?;
            let flags = number(bytes, &mut inside)?;
            if flags & 1 != 0 {
                number(bytes, &mut inside)?;
            }
            let data = if flags & 2 != 0 { number(bytes, &mut inside)? } else { 0 };
            at = end.checked_add(usize::try_from(data).ok()?)?;
        }
        Some(())
    };
    let _: Option<()> = next();
}

/// The same before RAR 5.
fn mend_rar_4(bytes: &mut [u8]) {
    const FILE: u8 = 0x74;
    const HAS_DATA: u16 = 0x8000;
    let mut at = 7;
    while let Some(head) = bytes.get(at..at + 11) {
        let flags = u16::from_le_bytes([head[3], head[4]]);
        let len = usize::from(u16::from_le_bytes([head[5], head[6]]));
        let has_data = head[2] == FILE || flags & HAS_DATA != 0;
        let data = u32::from_le_bytes([head[7], head[8], head[9], head[10]]) as usize;
        let Some(header) = bytes.get(at + 2..at + len) else { return };
        if len < 7 {
            return;
        }
        let sum = (crc(header) as u16).to_le_bytes();
        bytes[at..at + 2].copy_from_slice(&sum);
        at += len + if has_data { data } else { 0 };
    }
}

/// Takes away the flag that the superblock has a sum.
fn mend_erofs(bytes: &mut [u8]) {
    if let Some(flags) = bytes.get_mut(1032) {
        *flags &= !1;
    }
}

fn mend_7z(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize| {
        bytes
            .get(at..at + 8)
            .map_or(0, |b| b.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b)))
    };
    let sum = |bytes: &[u8]| {
        let mut crc = shale_codec::stream::Crc32::new();
        crc.update(bytes);
        crc.sum().to_le_bytes()
    };
    let (offset, len) = (number(bytes, 12), number(bytes, 20));
    let start = offset.checked_add(32).and_then(|start| usize::try_from(start).ok());
    let end = start.and_then(|start| start.checked_add(usize::try_from(len).ok()?));
    if let (Some(start), Some(end)) = (start, end)
        && let Some(header) = bytes.get(start..end)
    {
        let header = sum(header);
        bytes[28..32].copy_from_slice(&header);
    }
    if bytes.len() >= 32 {
        let head = sum(&bytes[12..32]);
        bytes[8..12].copy_from_slice(&head);
    }
}

/// Bytes of the header of a xar archive.
const XAR_HEADER_LEN: usize = 28;

/// A number of 8 bytes, the highest first; 0 if it is not there.
fn be_64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| b.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
}

/// A xar archive with its table of contents in zlib data that are not compressed, so that changes
/// go into the table itself.
fn loosen_xar(bytes: &[u8]) -> Vec<u8> {
    let end = XAR_HEADER_LEN + be_64(bytes, 8) as usize;
    let plain_len = be_64(bytes, 16) as usize;
    let table = shale_codec::stream::zlib_block(&bytes[XAR_HEADER_LEN..end], plain_len);
    let table = table.expect("it was written");
    let mut stored = vec![0x78, 0x01];
    let pieces: Vec<&[u8]> = table.chunks(u16::MAX.into()).collect();
    for (number, piece) in pieces.iter().enumerate() {
        let len = piece.len() as u16;
        stored.push(u8::from(number + 1 == pieces.len()));
        stored.extend_from_slice(&len.to_le_bytes());
        stored.extend_from_slice(&(!len).to_le_bytes());
        stored.extend_from_slice(piece);
    }
    stored.extend_from_slice(&[0; 4]);
    let mut out = bytes[..XAR_HEADER_LEN].to_vec();
    out[8..16].copy_from_slice(&(stored.len() as u64).to_be_bytes());
    out.extend_from_slice(&stored);
    out.extend_from_slice(&bytes[end..]);
    mend_xar(&mut out);
    out
}

/// Makes the sums of the table of contents right, where it is as [`loosen_xar`] wrote it. The
/// first block of the table is taken for all of it.
fn mend_xar(bytes: &mut [u8]) {
    let end = usize::try_from(be_64(bytes, 8)).ok();
    let end = end
        .and_then(|len| XAR_HEADER_LEN.checked_add(len))
        .filter(|&end| end <= bytes.len() && end >= XAR_HEADER_LEN + 11);
    let Some(end) = end else { return };
    // Head of zlib, head of the block; the sum of zlib is at the end.
    let text_at = XAR_HEADER_LEN + 7;
    let text_len = (end - 4 - text_at).min(u16::MAX.into()) as u16;
    bytes[text_at - 4..text_at - 2].copy_from_slice(&text_len.to_le_bytes());
    bytes[text_at - 2..text_at].copy_from_slice(&(!text_len).to_le_bytes());
    bytes[16..24].copy_from_slice(&u64::from(text_len).to_be_bytes());
    let (mut low, mut high) = (1u32, 0u32);
    for &byte in &bytes[text_at..end - 4] {
        low = (low + u32::from(byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    bytes[end - 4..end].copy_from_slice(&(high << 16 | low).to_be_bytes());
    let digest = <sha1::Sha1 as sha1::Digest>::digest(&bytes[XAR_HEADER_LEN..end]);
    if let Some(sum) = bytes.get_mut(end..end + 20) {
        sum.copy_from_slice(&digest);
    }
}

/// Says of all blocks that they have no sum.
fn mend_cab(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize, len: usize| {
        let found = bytes.get(at..at + len);
        found.map_or(0, |b| b.iter().rev().fold(0usize, |n, b| n << 8 | usize::from(*b)))
    };
    for folder in 0..number(bytes, 26, 2).min(16) {
        let head = 36 + 8 * folder;
        let (mut at, count) = (number(bytes, head, 4), number(bytes, head + 4, 2));
        for _ in 0..count {
            let Some(sum) = bytes.get_mut(at..at + 4) else { return };
            sum.fill(0);
            at += 8 + number(bytes, at + 4, 2);
        }
    }
}
