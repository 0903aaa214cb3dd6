//! Promise: a RAR archive of any version from 1.5 on comes as the tree that it holds, or says what
//! of it does not.
//!
//! The archives are made here, by the library that also reads them; bsdtar reads them, too, where
//! it is there, so that the library does not only understand itself.

use crate::common::{Taken, crc32, name};
use rars::{ArchiveVersion, Builder};
use shale_foreign::OpenOptions;
use shale_model::InodeKind;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

const VERSIONS: [ArchiveVersion; 6] = [
    ArchiveVersion::Rar15,
    ArchiveVersion::Rar20,
    ArchiveVersion::Rar29,
    ArchiveVersion::Rar40,
    ArchiveVersion::Rar50,
    ArchiveVersion::Rar70,
];

fn open(bytes: &[u8], password: Option<&str>) -> Taken {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let password = password.map(|password| Arc::from(password.as_bytes()));
    let options = OpenOptions { password, ..OpenOptions::default() };
    match shale_foreign::open(name(), file, options) {
        Ok(None) => Taken { error: Some("unknown".to_owned()), ..Taken::default() },
        Ok(Some(source)) => Taken::of(Ok(source)),
        Err(error) => Taken { error: Some(error.to_string()), ..Taken::default() },
    }
}

/// Files that are text, noise, empty and long.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let text: String = (0..2000).map(|n| format!("line {n} of {}\n", n % 97)).collect();
    let noise = (0..60_000u64).map(|n| (n.wrapping_mul(n).wrapping_mul(0x9e37_79b9) >> 13) as u8);
    vec![
        ("d/text", text.clone().into_bytes()),
        ("d/noise", noise.collect()),
        ("empty", Vec::new()),
        ("d/e/short", b"short".to_vec()),
        ("d/again", text.repeat(2).into_bytes()),
    ]
}

fn builder(version: ArchiveVersion) -> Builder {
    let mut builder = Builder::new(version).compression_level(Some(3));
    for (path, content) in files() {
        let mode = Some(if path == "empty" { 0o600 } else { 0o640 });
        builder.add_bytes(path.into(), content, None, mode).unwrap();
    }
    builder
}

#[track_caller]
fn expect_files(taken: &Taken) {
    taken.expect_whole();
    let expected = files();
    assert_eq!(taken.entries.len(), expected.len(), "{:?}", taken.paths());
    for (path, content) in expected {
        assert!(taken.entry(path).content == content, "{path}");
        assert_eq!(taken.kind(path), InodeKind::File);
    }
}

/// What bsdtar unpacks of an archive; `None`, and said so, without it.
fn by_bsdtar(bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.rar"), bytes).unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let mut command = Command::new("bsdtar");
    command.current_dir(&out).args(["-xf", "../x.rar"]).stdin(Stdio::null());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: bsdtar: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = files().into_iter().map(|(path, _)| {
        (
            path.to_owned(),
            fs::read(out.join(path)).unwrap_or_else(|error| panic!("{path}: {error}")),
        )
    });
    Some(found.collect())
}

#[test]
fn every_version_comes_stored_compressed_and_solid() {
    for version in VERSIONS {
        for (case, made) in [
            ("compressed", builder(version)),
            ("stored", builder(version).store(true)),
            ("solid", builder(version).solid(true)),
        ] {
            println!("{version:?}, {case}");
            let bytes = made.to_bytes().unwrap();
            let taken = open(&bytes, None);
            expect_files(&taken);
            if matches!(version, ArchiveVersion::Rar50 | ArchiveVersion::Rar70) {
                assert_eq!(taken.warnings, [""; 0]);
            }
            // Of old versions bsdtar reads what is stored, and before RAR 5 nothing solid.
            let is_known = match version {
                ArchiveVersion::Rar50 | ArchiveVersion::Rar70 => true,
                ArchiveVersion::Rar29 | ArchiveVersion::Rar40 => case != "solid",
                _ => case == "stored",
            };
            if is_known && let Some(found) = by_bsdtar(&bytes) {
                for (path, content) in found {
                    assert!(taken.entry(&path).content == content, "{path}");
                }
            }
        }
    }
}

#[test]
fn metadata_and_links_come() {
    let mut made = Builder::new(ArchiveVersion::Rar50);
    made.add_directory(b"d".to_vec(), Some(1_600_000_000), Some(0o750)).unwrap();
    made.add_bytes(b"d/file".to_vec(), b"x".to_vec(), Some(1_700_000_000), Some(0o4755)).unwrap();
    made.add_unix_symlink(b"d/link".to_vec(), b"../file".to_vec(), false, None, None).unwrap();
    made.add_bytes("größe 語".into(), b"y".to_vec(), None, Some(0o644)).unwrap();
    let taken = open(&made.to_bytes().unwrap(), None);
    taken.expect_whole();
    assert_eq!(taken.kind("d"), InodeKind::Directory);
    assert_eq!(taken.entry("d").metadata.permissions, 0o750);
    let file = &taken.entry("d/file").metadata;
    assert_eq!((file.permissions, file.mtime.sec), (0o4755, 1_700_000_000));
    assert_eq!(taken.kind("d/link"), InodeKind::Symlink);
    assert_eq!(taken.entry("d/link").target, b"../file");
    assert_eq!(taken.entry("größe 語").content, b"y");
}

#[test]
fn encrypted_archives_need_the_password() {
    for version in [ArchiveVersion::Rar29, ArchiveVersion::Rar40, ArchiveVersion::Rar50] {
        for hides_names in [false, true] {
            if hides_names && version == ArchiveVersion::Rar29 {
                // The library does not write them.
                continue;
            }
            let made = builder(version).password(Some(b"sesame".to_vec()));
            let bytes = made.header_encryption(hides_names).to_bytes().unwrap();
            expect_files(&open(&bytes, Some("sesame")));
            for wrong in [None, Some("open")] {
                let taken = open(&bytes, wrong);
                let first = taken.problems.first().cloned().unwrap_or_default();
                let said = [first, taken.error.clone().unwrap_or_default()].concat();
                let case = format!("{version:?}, names {hides_names}, {wrong:?}: {said}");
                let words =
                    if wrong.is_some() { "password is wrong" } else { "no password for it" };
                // A wrong password makes headers of RAR 4 that cannot be read.
                assert!(said.contains(words) || (hides_names && wrong.is_some()), "{case}");
                assert!(!taken.entries.contains_key("d/text"), "{case}");
            }
        }
    }
}

#[test]
fn an_archive_behind_a_program_comes_and_a_program_that_knows_rar_is_none() {
    let bytes = builder(ArchiveVersion::Rar50).to_bytes().unwrap();
    let program = [b"MZ".to_vec(), vec![7; 300_000], b"Rar!\x1a\x07\x01\0 is its magic".to_vec()];
    let program = program.concat();
    expect_files(&open(&[&program[..], &bytes].concat(), None));
    assert_eq!(open(&program, None).error.as_deref(), Some("unknown"));
}

#[test]
fn volumes_and_old_archives_are_refused_by_name() {
    for version in [ArchiveVersion::Rar40, ArchiveVersion::Rar50] {
        let mut volumes = Builder::new(version).store(true).volume_size(Some(20_000));
        volumes.add_bytes(b"noise".to_vec(), files()[1].1.clone(), None, None).unwrap();
        for volume in volumes.build_volumes(None).unwrap() {
            open(&volume, None).expect_error(&["RAR archive", "one volume of several", "unrar"]);
        }
    }
    open(b"RE~^\x07\0\0\0\0\0\0\0\0\0\0\0", None).expect_error(&["before version 1.5", "unrar"]);
}

/// A header of RAR 5 with its sum and length.
fn header(body: &[u8]) -> Vec<u8> {
    let body = [&[body.len() as u8], body].concat();
    [&crc32(&body).to_le_bytes(), &body[..]].concat()
}

/// An entry of RAR 5: stored, of Unix. `extra` are its records.
fn entry(name: &str, content: &[u8], extra: &[u8]) -> Vec<u8> {
    let sum = crc32(content).to_le_bytes();
    let len = content.len() as u8;
    let flags = 2 | u8::from(!extra.is_empty());
    let mut body = vec![2, flags];
    body.extend((!extra.is_empty()).then_some(extra.len() as u8));
    // Lengths of the data, flags, the plain length, mode 0100644, a sum, stored, Unix.
    body.extend_from_slice(&[len, 4, len, 0xa4, 0x83, 0x02]);
    body.extend_from_slice(&sum);
    body.extend_from_slice(&[0, 1, name.len() as u8]);
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(extra);
    [&header(&body), content].concat()
}

fn archive(entries: &[Vec<u8>], has_end: bool) -> Vec<u8> {
    let mut out = [&b"Rar!\x1a\x07\x01\0"[..], &header(&[1, 0, 0])].concat();
    out.extend(entries.concat());
    if has_end {
        out.extend(header(&[5, 0, 0]));
    }
    out
}

/// A record of a link: its kind and its target.
fn link(kind: u8, target: &str) -> Vec<u8> {
    let mut record = vec![5, kind, 0, target.len() as u8];
    record.extend_from_slice(target.as_bytes());
    record.insert(0, record.len() as u8);
    record
}

#[test]
fn links_copies_and_owners_are_what_their_records_say() {
    let owner = [6, 6, 12, 0xe8, 7, 100, 0];
    let taken = open(
        &archive(
            &[
                entry("file", b"content", &owner),
                entry("hard", b"", &link(4, "file")),
                entry("copy", b"", &link(5, "file")),
                entry("windows", b"", &link(2, "d\\file")),
                entry("drive", b"", &link(3, "C:\\x")),
                entry("lost", b"", &link(4, "nothing")),
            ],
            true,
        ),
        None,
    );
    assert_eq!(taken.error, None);
    let file = taken.entry("file");
    assert_eq!(
        (file.metadata.uid, file.metadata.gid, file.metadata.permissions),
        (1000, 100, 0o644)
    );
    assert!(file.link.is_some() && file.link == taken.entry("hard").link);
    let copy = taken.entry("copy");
    assert_eq!((&copy.content[..], copy.link == file.link), (&b"content"[..], false));
    assert_eq!(taken.entry("windows").target, b"d/file");
    assert_eq!(taken.problems.len(), 2, "{:?}", taken.problems);
    assert!(taken.problems.iter().any(|p| p.contains("drive") && p.contains("Windows")));
    assert!(taken.problems.iter().any(|p| p.contains("lost") && p.contains("nothing")));
}

#[test]
fn a_later_entry_replaces_an_earlier_one_whatever_has_content() {
    let entries = |a: &[u8], b: &[u8]| archive(&[entry("f", a, &[]), entry("f", b, &[])], true);
    for (first, second) in [(&b"one"[..], &b"two"[..]), (b"", b"two"), (b"one", b"")] {
        let taken = open(&entries(first, second), None);
        taken.expect_whole();
        assert_eq!(taken.entry("f").content, second);
    }
}

#[test]
fn an_archive_without_its_end_is_said() {
    let entries = [entry("f", b"content", &[])];
    let whole = open(&archive(&entries, true), None);
    whole.expect_whole();
    assert_eq!(whole.warnings, [""; 0]);
    let cut = open(&archive(&entries, false), None);
    cut.expect_whole();
    assert!(cut.warnings.concat().contains("may have been cut"), "{:?}", cut.warnings);
    open(&archive(&[], true), None).expect_whole();
}

/// Everything that the changed archive gives, and whether it complained.
fn expect_nothing_wrong(bytes: &[u8], case: &str) {
    let taken = open(bytes, None);
    let complains = taken.error.is_some() || !taken.problems.is_empty();
    for (path, content) in files() {
        match taken.entries.get(path) {
            Some(found) => assert!(found.content == content, "{case}: {path} has other bytes"),
            None => assert!(complains, "{case}: {path} is lost without a word"),
        }
    }
}

#[test]
fn damage_is_said_and_never_gives_other_bytes() {
    for version in [ArchiveVersion::Rar29, ArchiveVersion::Rar50] {
        let bytes = builder(version).to_bytes().unwrap();
        let step = bytes.len() / 60;
        for at in (0..bytes.len()).step_by(step.max(1)).chain(0..60) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            expect_nothing_wrong(&changed, &format!("{version:?}, byte {at}"));
        }
        for len in (8..bytes.len()).step_by(step.max(1)) {
            let taken = open(&bytes[..len], None);
            let said =
                taken.error.is_some() || !taken.problems.is_empty() || !taken.warnings.is_empty();
            assert!(said, "{version:?}: cut to {len}");
        }
    }
}

#[test]
fn names_that_lead_out_of_the_tree_are_problems() {
    let taken = open(&archive(&[entry("../x", b"x", &[]), entry("y", b"y", &[])], true), None);
    taken.expect_problem(&["../x", "out of the tree"]);
    assert_eq!(taken.entry("y").content, b"y");
}
