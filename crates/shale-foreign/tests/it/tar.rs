//! Promise: what is no tar archive is not taken for an empty one, nothing lies below a link or a
//! file, and what holds for all entries costs no more than it says.

use crate::common::{Taken, name, pax_record, tar_entry};
use shale_foreign::{TarOptions, TarSource};
use std::io::Cursor;

fn take(bytes: Vec<u8>) -> Taken {
    let stream = Box::new(Cursor::new(bytes));
    Taken::of(TarSource::new(name(), stream, None, TarOptions::default()).map(Box::new))
}

const END: [u8; 1024] = [0; 1024];

#[test]
fn zeroes_are_an_empty_archive_only_if_nothing_follows() {
    for len in [1024, 10_240, 1 << 20] {
        assert!(take(vec![0; len]).expect_whole().entries.is_empty());
    }
    take(vec![0; (1 << 20) + 512])
        .expect_error(&["tar archive", "bytes of zeroes, not an archive"]);
    for zeroes in [1024, 1 << 20, 3 << 20] {
        let mut bytes = vec![0; zeroes];
        bytes.extend_from_slice(&[7; 2048]);
        take(bytes).expect_error(&[
            "tar archive",
            &format!("at byte {zeroes}"),
            "not a tar header",
        ]);
        // One that begins late is still an archive.
        let bytes = [&vec![0; zeroes][..], &tar_entry(b"late", b'0', b"x", b""), &END].concat();
        assert_eq!(take(bytes).expect_whole().paths(), ["late"]);
    }
}

#[test]
fn a_header_whose_checksum_is_wrong_is_named_with_its_offset() {
    let mut bytes =
        [tar_entry(b"a", b'0', b"content", b""), tar_entry(b"b", b'0', b"", b"")].concat();
    bytes[1024] ^= 1;
    bytes.extend_from_slice(&END);
    take(bytes).expect_error(&["at byte 1024", "corrupt", "checksum"]);
}

#[test]
fn nothing_lies_below_a_file_or_a_link() {
    let bytes = [
        tar_entry(b"file", b'0', b"content", b""),
        tar_entry(b"file/below", b'0', b"x", b""),
        tar_entry(b"link", b'2', b"", b"/etc"),
        tar_entry(b"link/below", b'0', b"x", b""),
        // A directory replaces the file.
        tar_entry(b"file", b'5', b"", b""),
        tar_entry(b"file/below", b'0', b"y", b""),
        END.to_vec(),
    ];
    let taken = take(bytes.concat());
    assert_eq!(taken.problems.len(), 2, "{:?}", taken.problems);
    assert_eq!(taken.paths(), ["file", "file/below", "link"]);
    assert_eq!(taken.entry("file/below").content, b"y");
}

#[test]
fn global_headers_hold_for_what_follows_and_are_bounded() {
    let global = |records: &[(&str, &[u8])]| {
        let records = records.iter().map(|(name, value)| pax_record(name, value));
        tar_entry(b"g", b'g', &records.collect::<Vec<_>>().concat(), b"")
    };
    let local = tar_entry(b"x", b'x', &pax_record("SCHILY.xattr.user.b", b"2"), b"");
    let bytes = [
        local.clone(),
        // Between a header of an entry and the entry.
        global(&[("SCHILY.xattr.user.a", b"1"), ("gid", b"7")]),
        tar_entry(b"one", b'0', b"", b""),
        tar_entry(b"two", b'0', b"", b""),
        local,
        tar_entry(b"three", b'0', b"", b""),
        END.to_vec(),
    ];
    let taken = take(bytes.concat());
    taken.expect_whole();
    let of = |path: &str| {
        let entry = taken.entry(path);
        let names = entry.xattrs.iter().map(|(name, _)| &name[..]).collect::<Vec<_>>().join(" ");
        (names, entry.metadata.gid)
    };
    assert_eq!(of("one"), ("user.b".to_owned(), 0));
    assert_eq!(of("two"), ("user.a".to_owned(), 7));
    assert_eq!(of("three"), ("user.a user.b".to_owned(), 7));

    // Each costs a constant, and together they may not grow without end.
    let mut many = Vec::new();
    for n in 0..20_000 {
        many.extend(global(&[("comment", format!("{n}").as_bytes())]));
    }
    many.extend(tar_entry(b"x", b'0', b"", b""));
    many.extend(END);
    assert_eq!(take(many).expect_whole().paths(), ["x"]);
    let mut many = Vec::new();
    for n in 0..300 {
        many.extend(global(&[(&format!("SCHILY.xattr.user.{n}"), b"x")]));
    }
    take(many).expect_error(&["tar archive", "global headers set more than 256 attributes"]);
    take(global(&[("SCHILY.xattr.user.x", &[b'x'; 70_000])])).expect_error(&["global headers"]);
}

#[test]
fn an_archive_without_the_mark_of_its_end_comes_with_a_warning() {
    let whole = tar_entry(b"a", b'0', b"content", b"");
    let taken = take(whole.clone());
    assert_eq!(taken.expect_whole().paths(), ["a"]);
    let [warning] = &taken.warnings[..] else { panic!("{:?}", taken.warnings) };
    assert!(warning.starts_with("archive: tar archive: it ends without"), "{warning}");
    // One block of zeroes is enough of a mark.
    for zeroes in [512, 1024] {
        let taken = take([&whole[..], &vec![0; zeroes]].concat());
        assert!(taken.expect_whole().warnings.is_empty());
    }
    take(whole[..whole.len() - 1].to_vec()).expect_error(&["was cut"]);
    take(tar_entry(b"x", b'x', &pax_record("path", b"b"), b"")).expect_error(&["was cut"]);
}

#[test]
fn deep_paths_are_refused_by_name_and_the_rest_comes() {
    let deep = vec!["d"; 100_000].join("/");
    let bytes = [
        tar_entry(b"x", b'x', &pax_record("path", deep.as_bytes()), b""),
        tar_entry(b"d", b'0', b"lost", b""),
        tar_entry(b"kept", b'0', b"", b""),
        END.to_vec(),
    ];
    let taken = take(bytes.concat());
    taken.expect_problem(&["... (199999 bytes): its path is longer than 16384 bytes"]);
    assert_eq!(taken.paths(), ["kept"]);
}

#[test]
fn a_cut_archive_says_where_and_in_which_entry() {
    let whole =
        [tar_entry(b"small", b'0', b"content", b""), tar_entry(b"large", b'0', &[7; 2 << 20], b"")];
    let bytes = whole.concat();
    take(bytes[..600].to_vec()).expect_error(&["tar archive, entry small", "was cut"]);
    let taken = take(bytes[..1 << 20].to_vec());
    assert!(taken.problems[0].contains("entry large: it ends too early: it was cut"), "{taken:?}");
    take(whole[0][..700].to_vec()).expect_error(&["was cut"]);
}

#[test]
fn corrupt_compression_is_called_corrupt_by_its_name() {
    use shale_codec::stream::StreamFormat;
    use std::io::Write;
    let noise = (0..100_000u64).map(|n| n.wrapping_mul(n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let noise: Vec<u8> = noise.map(|n| (n >> 40) as u8).collect();
    let plain = [tar_entry(b"a", b'0', &noise, b""), END.to_vec()].concat();
    for format in StreamFormat::ALL {
        let mut packed = Vec::new();
        let mut encoder = format.encoder(&mut packed, None, 1).unwrap();
        encoder.write_all(&plain).unwrap();
        encoder.finish().unwrap();
        let open = |bytes: Vec<u8>| {
            let stream = Box::new(Cursor::new(bytes));
            let source = TarSource::new(name(), stream, Some(format), TarOptions::default());
            Taken::of(source.map(Box::new))
        };
        open(packed.clone()).expect_whole();
        let taken = open(packed[..packed.len() / 2].to_vec());
        taken.expect_error(&["archive", "too early", format.name()]);
        let mut corrupt = packed.clone();
        let middle = corrupt.len() / 2;
        corrupt[middle..middle + 8].iter_mut().for_each(|byte| *byte ^= 0xa5);
        let error = open(corrupt).error.unwrap_or_default();
        let is_known = error.contains(&format!("corrupt {} data", format.name()))
            || error.contains("too early");
        assert!(is_known, "{format:?}: {error}");
    }
}

#[test]
fn lists_of_solaris_are_kept() {
    let posix = b"1000006\0user::rwx,user:lp:r-x:71,group::r--,mask:r-x,other:---\0";
    let nfs = b"3000001\0owner@:rwx:allow\0";
    let archive = [
        tar_entry(b"acl", b'A', posix, b""),
        tar_entry(b"x", b'0', b"content", b""),
        tar_entry(b"acl", b'A', nfs, b""),
        tar_entry(b"y", b'0', b"", b""),
        vec![0; 1024],
    ]
    .concat();
    let taken = open_plain(&archive);
    let list = &taken.entry("x").xattrs;
    assert_eq!(list[0].0, "system.posix_acl_access");
    // Five entries of eight bytes after the version.
    assert_eq!(list[0].1.len(), 4 + 5 * 8);
    assert_eq!(taken.entry("x").metadata.permissions, 0o750);
    assert!(taken.problems.concat().contains("NFSv4"), "{:?}", taken.problems);
    let broken = [tar_entry(b"acl", b'A', b"acl", b""), vec![0; 1024]].concat();
    open_plain(&broken).expect_error(&["access control list of Solaris"]);
}

fn open_plain(bytes: &[u8]) -> Taken {
    let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let options = shale_foreign::TarOptions::default();
    Taken::of(shale_foreign::TarSource::new(name(), stream, None, options).map(Box::new))
}
