//! What programs see in a mount: every kind of inode and attribute, listings, links, holes,
//! extended attributes, access lists, file handles, refused changes and faults. The kernel is real,
//! the tree is in memory.

use crate::common::memory::{Fault, MemoryTree, pattern};
use crate::common::{Place, Served, run, skip, skip_unless_root, skip_without};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom, Timespec, XattrFlags};
use rustix::io::Errno;
use shale_fuse::view::{ROOT, Time, Totals};
use shale_fuse::{Options, Subtree};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// The user of the access tests: nobody.
const OTHER_UID: u32 = 65534;

#[test]
fn every_kind_and_attribute_comes_through() {
    if skip_unless_root() {
        return;
    }
    let mut tree = MemoryTree::new();
    let kinds = [
        ("fifo", 0o010640),
        ("char", 0o020604),
        ("dir", 0o041777),
        ("block", 0o060660),
        ("file", 0o104755),
        ("socket", 0o140755),
    ];
    for (name, mode) in kinds {
        let inode = tree.add(ROOT, name, mode);
        let a = &mut tree.node(inode).attributes;
        (a.uid, a.gid) = (4_000_000_001, 4_000_000_002);
        if matches!(name, "char" | "block") {
            a.device = (259, 70_000);
        }
        a.mtime = Time { sec: -5_000_000_000, nsec: 999_999_999 };
        a.atime = Time { sec: 1 << 33, nsec: 1 };
        a.ctime = Time { sec: 0, nsec: 500 };
        a.link_count = 3;
    }
    tree.symlink(ROOT, b"link\xff", b"some\xfewhere/\n");
    let huge = tree.patterned(ROOT, "huge", 1 << 62);
    let served = Served::new(tree);

    for (name, mode) in kinds {
        let meta = served.join(name).symlink_metadata().unwrap();
        assert_eq!(meta.mode(), mode, "{name}");
        assert_eq!((meta.uid(), meta.gid()), (4_000_000_001, 4_000_000_002));
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (-5_000_000_000, 999_999_999));
        assert_eq!((meta.atime(), meta.atime_nsec()), (1 << 33, 1));
        assert_eq!((meta.ctime(), meta.ctime_nsec()), (0, 500));
        assert_eq!(meta.nlink(), 3);
        assert_eq!(meta.blksize(), 4096);
        if matches!(name, "char" | "block") {
            assert_eq!(rustix::fs::major(meta.rdev()), 259);
            assert_eq!(rustix::fs::minor(meta.rdev()), 70_000);
        }
    }
    let target = std::fs::read_link(served.path().join(OsStr::from_bytes(b"link\xff"))).unwrap();
    assert_eq!(target.as_os_str().as_bytes(), b"some\xfewhere/\n");
    let meta = served.join("huge").metadata().unwrap();
    assert_eq!((meta.ino(), meta.len(), meta.blocks()), (huge, 1 << 62, (1 << 62) / 512));
    let file = File::open(served.join("huge")).unwrap();
    let mut bytes = [0u8; 5000];
    let offset = (1 << 62) - 5000;
    file.read_exact_at(&mut bytes, offset).unwrap();
    assert!((offset..).zip(bytes).all(|(at, byte)| byte == pattern(huge, at)));
    assert_eq!(file.read_at(&mut bytes, 1 << 62).unwrap(), 0);
}

#[test]
fn a_large_directory_lists_completely_from_any_position() {
    const COUNT: usize = 30_000;
    if skip() {
        return;
    }
    let mut tree = MemoryTree::new();
    for n in 0..COUNT {
        tree.file(ROOT, format!("entry-{:06}-{}", n, "x".repeat(n % 60)), b"");
    }
    let served = Served::new(tree);
    let read = |fd: &rustix::fd::OwnedFd| -> Vec<(Vec<u8>, u64, u64)> {
        let mut space = vec![MaybeUninit::uninit(); 16 << 10];
        let mut raw = RawDir::new(fd, &mut space);
        let mut lines = Vec::new();
        while let Some(line) = raw.next() {
            let line = line.unwrap();
            lines.push((
                line.file_name().to_bytes().to_vec(),
                line.ino(),
                line.next_entry_cookie(),
            ));
        }
        lines
    };
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(served.path(), flags, Mode::empty()).unwrap()
    };
    let fd = open();
    let all = read(&fd);
    assert_eq!(all.len(), COUNT + 2);
    let names: HashSet<_> = all.iter().map(|(name, ..)| name).collect();
    assert_eq!(names.len(), COUNT + 2);
    assert!(names.contains(&b".".to_vec()) && names.contains(&b"..".to_vec()));
    for at in [0, 1, 2, 179, 4096, 20_000, COUNT, COUNT + 1] {
        // As telldir and seekdir do, on this handle (cached by now) and on a new one.
        for fd in [&fd, &open()] {
            rustix::fs::seek(fd, SeekFrom::Start(all[at].2)).unwrap();
            assert_eq!(read(fd), all[at + 1..], "after entry {at}");
        }
    }
}

#[test]
fn hard_links_share_their_inode_and_data() {
    if skip() {
        return;
    }
    let mut tree = MemoryTree::new();
    let dir = tree.directory(ROOT, "dir");
    let inode = tree.file(ROOT, "one", b"shared");
    tree.hard_link(dir, "two", inode);
    let served = Served::new(tree);
    let (one, two) = (served.join("one"), served.join("dir/two"));
    assert_eq!(one.metadata().unwrap().ino(), two.metadata().unwrap().ino());
    assert_eq!(two.metadata().unwrap().nlink(), 2);
    assert_eq!(std::fs::read(two).unwrap(), b"shared");
    assert_eq!(served.join("dir/..").metadata().unwrap().ino(), ROOT);
}

#[test]
fn holes_are_found_and_read_as_zeroes() {
    if skip() {
        return;
    }
    let mut tree = MemoryTree::new();
    tree.sparse(ROOT, "sparse", 10 << 20, &[(1 << 20, b"abc"), (5 << 20, &[7; 8192])]);
    tree.file(ROOT, "dense", b"data");
    let served = Served::new(tree);
    let fd = File::open(served.join("sparse")).unwrap();
    let seek = |from| rustix::fs::seek(&fd, from);
    assert_eq!(seek(SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(seek(SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 3));
    assert_eq!(seek(SeekFrom::Data((1 << 20) + 3)), Ok(5 << 20));
    assert_eq!(seek(SeekFrom::Hole(0)), Ok(0));
    assert_eq!(seek(SeekFrom::Data((5 << 20) + 8192)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::Hole(10 << 20)), Err(Errno::NXIO));
    // As on file systems of the kernel; the system call gets -1.
    for sought in [SeekFrom::Data(u64::MAX), SeekFrom::Hole(u64::MAX)] {
        assert_eq!(seek(sought), Err(Errno::NXIO));
    }
    assert_eq!(fd.metadata().unwrap().blocks(), 17);
    let dense = File::open(served.join("dense")).unwrap();
    assert_eq!(rustix::fs::seek(&dense, SeekFrom::Hole(0)), Ok(4));
    let bytes = std::fs::read(served.join("sparse")).unwrap();
    assert_eq!(bytes.len(), 10 << 20);
    assert_eq!(&bytes[1 << 20..(1 << 20) + 4], b"abc\0");
    assert_eq!(bytes.iter().filter(|&&b| b != 0).count(), 3 + 8192);
    // cp finds the holes because there are fewer blocks than bytes.
    let copy = served.place.beside("copy");
    run(Command::new("cp").arg(served.join("sparse")).arg(&copy));
    assert!(copy.metadata().unwrap().blocks() < 200);
    assert_eq!(std::fs::read(copy).unwrap(), bytes);
}

#[test]
fn memory_maps_and_concurrent_readers_see_the_same_bytes() {
    const LEN: u64 = 9 << 20;
    if skip() || skip_without(&["cmp", "python3"]) {
        return;
    }
    let mut tree = MemoryTree::new();
    let inode = tree.patterned(ROOT, "file", LEN);
    let served = Served::new(tree);
    let expected: Vec<u8> = (0..LEN).map(|at| pattern(inode, at)).collect();
    let copy = served.place.beside("copy");
    std::fs::write(&copy, &expected).unwrap();
    let script = "import mmap, sys
a = open(sys.argv[1], 'rb'); b = open(sys.argv[2], 'rb').read()
m = mmap.mmap(a.fileno(), 0, prot=mmap.PROT_READ)
assert len(m) == len(b)
for i in list(range(len(b) - 1, 0, -99991)) + [0]: assert m[i] == b[i], i
assert m[:] == b";
    run(Command::new("python3").arg("-c").arg(script).arg(served.join("file")).arg(&copy));
    run(Command::new("cmp").arg(served.join("file")).arg(&copy));
    std::thread::scope(|scope| {
        for seed in 0..8u64 {
            let (path, expected) = (served.join("file"), &expected);
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                if seed % 2 == 0 {
                    // Past the page cache, on half of the threads.
                    rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).unwrap();
                }
                let mut state = seed;
                for _ in 0..200 {
                    state =
                        state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let offset = ((state >> 33) % LEN) & !4095;
                    let mut bytes = vec![0u8; 65536.min((LEN - offset) as usize)];
                    file.read_exact_at(&mut bytes, offset).unwrap();
                    assert!(bytes == expected[offset as usize..offset as usize + bytes.len()]);
                }
            });
        }
    });
}

#[test]
fn extended_attributes_come_through_and_statistics_stay_hidden() {
    if skip() {
        return;
    }
    let mut tree = MemoryTree::new();
    let file = tree.file(ROOT, "file", b"x");
    tree.file(ROOT, "plain", b"");
    tree.xattr(file, "user.binary", b"a\0b\xff");
    tree.xattr(file, "user.empty", b"");
    tree.xattr(file, "user.large", &[9; 65536]);
    tree.xattr(file, "trusted.secret", b"s");
    let served = Served::new(tree);
    let path = served.join("file");
    let get = |path: &std::path::Path, name: &str| {
        let mut value = vec![0; 70_000];
        rustix::fs::getxattr(path, name, value.as_mut_slice()).map(|len| value[..len].to_vec())
    };
    let list = |path: &std::path::Path| {
        let mut names = vec![0; 70_000];
        let len = rustix::fs::listxattr(path, names.as_mut_slice()).unwrap();
        String::from_utf8(names[..len].to_vec()).unwrap()
    };
    assert_eq!(get(&path, "user.binary").unwrap(), b"a\0b\xff");
    assert_eq!(get(&path, "user.empty").unwrap(), b"");
    assert_eq!(get(&path, "user.large").unwrap(), [9; 65536]);
    assert_eq!(get(&path, "user.absent"), Err(Errno::NODATA));
    assert_eq!(get(&served.join("plain"), "user.binary"), Err(Errno::NODATA));
    // The error depends on the namespace, as on ext4, SquashFS and EROFS.
    for path in [&path, &served.path()] {
        for (name, errno) in [
            ("trusted.absent", Errno::NODATA),
            ("security.selinux", Errno::NODATA),
            ("system.posix_acl_access", Errno::NODATA),
            ("user.", Errno::INVAL),
            ("security.", Errno::INVAL),
            ("system.absent", Errno::OPNOTSUPP),
            ("user", Errno::OPNOTSUPP),
            ("nobody.knows", Errno::OPNOTSUPP),
        ] {
            assert_eq!(get(path, name), Err(errno), "{name}");
        }
    }
    let mut short = [0; 2];
    assert_eq!(rustix::fs::getxattr(&path, "user.binary", &mut short), Err(Errno::RANGE));
    assert_eq!(rustix::fs::getxattr_query(&path, "user.binary"), Ok(4));
    let names = list(&path);
    assert!(names.starts_with("trusted.secret\0") == crate::common::is_root(), "{names}");
    assert!(names.ends_with("user.binary\0user.empty\0user.large\0"), "{names}");
    assert_eq!(list(&served.join("plain")), "");
    assert_eq!(list(&served.path()), "");
    // With idmap the kernel would not tell who asks, and only root may see all names.
    assert!(!served.mounted.negotiated().has("idmap"));
    assert_eq!(get(&path, "user.shale.layout").unwrap(), format!("inode {file}").as_bytes());
    let statistics = shale_fuse::read_statistics(&served.path()).unwrap();
    assert!(statistics.contains("\"getxattr\":{\"count\":"), "{statistics}");
    assert!(statistics.contains("\"image\":{\"inodes\":3,"), "{statistics}");
    assert!(shale_fuse::read_statistics(&path).is_err());
}

/// A POSIX access list as Linux stores it, from tags, rights and numbers.
fn access_list(lines: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in lines {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

fn may_read(path: &std::path::Path, uid: u32) -> bool {
    let output = Command::new("cat").arg(path).uid(uid).gid(uid).output().unwrap();
    output.status.success()
}

#[test]
fn permissions_and_access_lists_are_enforced_by_the_kernel() {
    const NONE: u32 = u32::MAX;
    if skip_unless_root() {
        return;
    }
    let allows = access_list(&[
        (1, 6, NONE),
        (2, 4, OTHER_UID),
        (4, 0, NONE),
        (0x10, 4, NONE),
        (0x20, 0, NONE),
    ]);
    let denies = access_list(&[
        (1, 6, NONE),
        (2, 0, OTHER_UID),
        (4, 4, NONE),
        (0x10, 4, NONE),
        (0x20, 4, NONE),
    ]);
    let mut tree = MemoryTree::new();
    let private = tree.file(ROOT, "private", b"p");
    tree.node(private).attributes.mode = 0o100600;
    tree.file(ROOT, "public", b"p");
    let allowed = tree.file(ROOT, "allowed", b"p");
    tree.node(allowed).attributes.mode = 0o100640;
    tree.xattr(allowed, "system.posix_acl_access", &allows);
    let denied = tree.file(ROOT, "denied", b"p");
    tree.node(denied).attributes.mode = 0o100644;
    tree.xattr(denied, "system.posix_acl_access", &denies);
    let served = Served::with(tree, Options { allow_other: true, ..Options::default() });
    assert!(served.mounted.negotiated().has("posix-acl"));
    assert!(!may_read(&served.join("private"), OTHER_UID));
    assert!(may_read(&served.join("public"), OTHER_UID));
    assert!(may_read(&served.join("allowed"), OTHER_UID));
    assert!(!may_read(&served.join("allowed"), OTHER_UID - 1));
    assert!(!may_read(&served.join("denied"), OTHER_UID));
    assert!(may_read(&served.join("denied"), OTHER_UID - 1));
    if !skip_without(&["getfacl"]) {
        let shown = run(Command::new("getfacl").args(["-cnp"]).arg(served.join("allowed")));
        assert!(shown.contains(&format!("user:{OTHER_UID}:r--")), "{shown}");
    }

    // Without allow_other no other user gets access, whatever the modes are.
    let mut tree = MemoryTree::new();
    tree.file(ROOT, "public", b"p");
    let served = Served::new(tree);
    assert!(!served.mounted.negotiated().has("posix-acl"));
    assert!(!may_read(&served.join("public"), OTHER_UID));
}

#[test]
fn owners_can_be_overridden() {
    if skip() {
        return;
    }
    let mut tree = MemoryTree::new();
    tree.file(ROOT, "file", b"");
    let options = Options { uid: Some(12), gid: Some(34), ..Options::default() };
    let served = Served::with(tree, options);
    // Once through a listing, once through a lookup, once for the root.
    let listed = std::fs::read_dir(served.path()).unwrap().next().unwrap().unwrap();
    for meta in [
        listed.metadata().unwrap(),
        served.join("file").metadata().unwrap(),
        served.path().metadata().unwrap(),
    ] {
        assert_eq!((meta.uid(), meta.gid()), (12, 34));
    }
}

/// Makes every call that would change something, and returns the results.
fn mutations(root: &std::path::Path) -> Vec<(&'static str, Result<(), Errno>)> {
    let at = |name: &str| root.join(name);
    let open = |name: &str, flags| rustix::fs::open(at(name), flags, Mode::from(0o644)).map(drop);
    let now = rustix::fs::Timestamps {
        last_access: Timespec { tv_sec: 1, tv_nsec: 0 },
        last_modification: Timespec { tv_sec: 1, tv_nsec: 0 },
    };
    let own = Some(rustix::process::getuid());
    vec![
        ("mkdir", rustix::fs::mkdir(at("new"), Mode::from(0o755))),
        ("mknod", rustix::fs::mknodat(CWD, at("new"), FileType::Fifo, Mode::from(0o644), 0)),
        ("symlink", rustix::fs::symlink("x", at("new"))),
        ("link", rustix::fs::link(at("file"), at("new"))),
        ("unlink", rustix::fs::unlink(at("file"))),
        ("rmdir", rustix::fs::rmdir(at("dir"))),
        ("rename", rustix::fs::rename(at("file"), at("new"))),
        ("create", open("new", OFlags::CREATE | OFlags::WRONLY)),
        ("truncating open", open("file", OFlags::TRUNC | OFlags::WRONLY)),
        ("chmod", rustix::fs::chmod(at("file"), Mode::from(0o600))),
        ("chown", rustix::fs::chown(at("file"), own, None)),
        ("utimens", rustix::fs::utimensat(CWD, at("file"), &now, AtFlags::empty())),
        ("setxattr", rustix::fs::setxattr(at("file"), "user.new", b"1", XattrFlags::empty())),
        ("removexattr", rustix::fs::removexattr(at("file"), "user.old")),
    ]
}

fn mutable_tree() -> MemoryTree {
    let mut tree = MemoryTree::new();
    let file = tree.file(ROOT, "file", b"content");
    tree.directory(ROOT, "dir");
    tree.xattr(file, "user.old", b"1");
    tree
}

#[test]
fn every_change_is_refused_as_read_only() {
    if skip() {
        return;
    }
    let served = Served::new(mutable_tree());
    for (call, result) in mutations(&served.path()) {
        assert_eq!(result, Err(Errno::ROFS), "{call}");
    }
    let open = rustix::fs::open(served.join("file"), OFlags::RDWR, Mode::empty());
    assert_eq!(open.map(drop), Err(Errno::ROFS));
    assert_eq!(
        rustix::fs::access(served.join("file"), rustix::fs::Access::WRITE_OK),
        Err(Errno::ROFS)
    );
    assert_eq!(std::fs::read(served.join("file")).unwrap(), b"content");
}

#[test]
fn changes_are_refused_by_the_driver_even_if_the_kernel_lets_them_through() {
    if skip_unless_root() {
        return;
    }
    let served = Served::new(mutable_tree());
    // Root can make any mount writable as far as the kernel is concerned.
    rustix::mount::mount_remount(served.path(), rustix::mount::MountFlags::empty(), c"").unwrap();
    for (call, result) in mutations(&served.path()) {
        assert_eq!(result, Err(Errno::ROFS), "{call}");
    }
    let file = File::options().write(true).open(served.join("file")).unwrap();
    assert_eq!(rustix::io::write(&file, b"x"), Err(Errno::ROFS));
    let flags = rustix::fs::FallocateFlags::empty();
    assert_eq!(rustix::fs::fallocate(&file, flags, 0, 100), Err(Errno::ROFS));
    assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::ROFS));
    let source = File::open(served.join("file")).unwrap();
    assert!(rustix::fs::copy_file_range(&source, None, &file, None, 3).is_err());
    drop(file);
    assert_eq!(std::fs::read(served.join("file")).unwrap(), b"content");
}

#[test]
fn totals_beyond_32_bits_are_shown() {
    if skip() {
        return;
    }
    let mut tree = MemoryTree::new();
    tree.totals = Some(Totals { len: (1 << 52) + 1, inode_count: (1 << 33) + 7 });
    let served = Served::new(tree);
    let stat = rustix::fs::statvfs(served.path()).unwrap();
    assert_eq!(stat.f_blocks * stat.f_frsize, (1 << 52) + 4096);
    assert_eq!((stat.f_files, stat.f_ffree, stat.f_bfree), ((1 << 33) + 7, 0, 0));
    assert_eq!(stat.f_namemax, 255);
}

#[test]
fn names_that_are_too_long_differ_from_absent_names() {
    if skip() {
        return;
    }
    let mut tree = MemoryTree::new();
    let longest = "n".repeat(255);
    tree.file(ROOT, &longest, b"here");
    let served = Served::new(tree);
    let read = |name: &str| std::fs::read(served.join(name)).map_err(|e| Errno::from_io_error(&e));
    assert_eq!(read(&longest).unwrap(), b"here");
    assert_eq!(read(&"n".repeat(254)).unwrap_err(), Some(Errno::NOENT));
    assert_eq!(read(&"n".repeat(256)).unwrap_err(), Some(Errno::NAMETOOLONG));
}

#[test]
fn damage_fails_only_the_reads_that_it_affects_and_is_logged() {
    if skip() {
        return;
    }
    const LEN: u64 = 4 << 20;
    let mut tree = MemoryTree::new();
    let inode = tree.patterned(ROOT, "file", LEN);
    tree.node(inode).fault = Fault::Damaged((2 << 20)..(2 << 20) + 4096);
    let broken = tree.patterned(ROOT, "bug", LEN);
    tree.node(broken).fault = Fault::Panic;
    tree.add(ROOT, "bad/name", 0o100644);
    let served = Served::new(tree);
    let file = File::open(served.join("file")).unwrap();
    let mut page = [0u8; 4096];
    // Read sequentially, so that read-ahead meets the damage too.
    let mut failed = Vec::new();
    for offset in (0..LEN).step_by(4096) {
        match file.read_exact_at(&mut page, offset) {
            Ok(()) => assert!((offset..).zip(page).all(|(at, byte)| byte == pattern(inode, at))),
            Err(error) => failed.push((offset, Errno::from_io_error(&error))),
        }
    }
    assert_eq!(failed, [(2 << 20, Some(Errno::IO))]);
    {
        let lines = served.lines.lock().unwrap();
        assert!(
            lines.iter().any(|line| line.ends_with("frame 7 at 2097152: bad checksum")
                && line.contains("of file:")),
            "{lines:?}"
        );
    }
    let bug = File::open(served.join("bug")).unwrap();
    let error = bug.read_exact_at(&mut page, 0).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    // The driver goes on, and an invalid name is an error and no way out of the tree.
    assert!(file.read_exact_at(&mut page, 0).is_ok());
    let listed: Result<Vec<_>, _> = std::fs::read_dir(served.path()).unwrap().collect();
    assert_eq!(Errno::from_io_error(&listed.unwrap_err()), Some(Errno::IO));
}

/// Makes a file handle, mounts again, and opens by the handle, as an NFS server does.
const HANDLES: &str = "
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [('len', ctypes.c_uint), ('type', ctypes.c_int), ('bytes', ctypes.c_ubyte * 128)]
def make(path):
    h, m = Handle(len=128), ctypes.c_int()
    if libc.name_to_handle_at(-100, path.encode(), ctypes.byref(h), ctypes.byref(m), 0):
        raise OSError(ctypes.get_errno(), 'name_to_handle_at')
    return bytes(h)[:8 + h.len]
def get(mount, raw):
    h = Handle.from_buffer_copy(raw.ljust(ctypes.sizeof(Handle), b'\\0'))
    fd = os.open(mount, os.O_RDONLY)
    got = libc.open_by_handle_at(fd, ctypes.byref(h), os.O_RDONLY)
    if got < 0: raise OSError(ctypes.get_errno(), 'open_by_handle_at')
    return got
mode, mount, store = sys.argv[1:]
if mode == 'make':
    open(store, 'wb').write(make(mount + '/a/b/file') + b'----' + make(mount + '/a/b'))
else:
    file, directory = open(store, 'rb').read().split(b'----')
    if mode == 'refuse':
        try: get(mount, file)
        except OSError as e: sys.exit(0 if e.errno == 116 else 1)
        sys.exit(1)
    assert os.read(get(mount, file), 100) == b'found'
    d = get(mount, directory)
    assert os.listdir(d) == ['file']
    assert os.readlink('/proc/self/fd/%d' % d).endswith('/a/b')
";

#[test]
fn file_handles_survive_a_remount_but_not_another_image() {
    if skip_unless_root() || skip_without(&["python3"]) {
        return;
    }
    let tree = |generation| {
        let mut tree = MemoryTree::new();
        tree.generation = generation;
        let a = tree.directory(ROOT, "a");
        let b = tree.directory(a, "b");
        tree.file(b, "file", b"found");
        tree
    };
    let place = Place::new();
    let store = place.beside("handles");
    let python = |mode: &str, mount: &std::path::Path| {
        let mut command = Command::new("python3");
        run(command.args(["-c", HANDLES, mode]).arg(mount).arg(&store));
    };
    let served = Served::new(tree(77));
    assert!(served.mounted.negotiated().has("export"));
    python("make", &served.path());
    python("open", &served.path());
    drop(served);
    python("open", &Served::new(tree(77)).path());
    python("refuse", &Served::new(tree(78)).path());
}

/// Binds a mount to another directory, with owner 0 shown as owner 1000.
const MAPPED: &str = "
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    got = libc.syscall(number, *args)
    if got < 0: raise OSError(ctypes.get_errno(), 'syscall %d' % number)
    return got
source, target = sys.argv[1:]
sleeper = subprocess.Popen(['unshare', '--user', 'sh', '-c', 'echo; read x'],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
sleeper.stdout.readline()
for kind in 'uid', 'gid':
    open('/proc/%d/%s_map' % (sleeper.pid, kind), 'w').write('0 1000 1')
space = os.open('/proc/%d/ns/user' % sleeper.pid, os.O_RDONLY)
sleeper.communicate(b'\\n')
tree = call(428, -100, source.encode(), 1)
attributes = (ctypes.c_uint64 * 4)(0x100000, 0, 0, space)
call(442, tree, b'', 0x1000, ctypes.byref(attributes), 32)
call(429, tree, b'', -100, target.encode(), 4)
";

#[test]
fn owners_can_be_mapped_by_the_kernel() {
    if skip_unless_root() || skip_without(&["python3", "unshare"]) {
        return;
    }
    let mut tree = MemoryTree::new();
    tree.file(ROOT, "file", b"mapped");
    let served = Served::new(tree);
    if !served.mounted.negotiated().has("idmap") {
        println!("SKIPPED: this kernel cannot map owners of FUSE mounts");
        return;
    }
    let target = Place::new();
    let mut command = Command::new("python3");
    run(command.args(["-c", MAPPED]).arg(served.path()).arg(target.path()));
    let meta = target.path().join("file").metadata().unwrap();
    assert_eq!((meta.uid(), meta.gid()), (1000, 1000));
    assert_eq!(std::fs::read(target.path().join("file")).unwrap(), b"mapped");
    assert_eq!(served.join("file").metadata().unwrap().uid(), 0);
}

#[test]
fn a_subdirectory_can_be_the_root() {
    if skip() {
        return;
    }
    let mut tree = MemoryTree::new();
    let outer = tree.directory(ROOT, "outer");
    let inner = tree.directory(outer, "inner");
    let deep = tree.directory(inner, "deep");
    tree.file(deep, "file", b"deep");
    tree.symlink(inner, "link", b"deep/file");
    // The number of the old root must not be that of the new root.
    let tree = Arc::new(tree);
    let subtree = Subtree::open(tree.clone(), b"/outer/./inner/").unwrap();
    let served = Served::new(subtree);
    assert_eq!(served.path().metadata().unwrap().ino(), ROOT);
    assert_eq!(std::fs::read(served.join("link")).unwrap(), b"deep");
    assert_eq!(served.join("deep").metadata().unwrap().ino(), deep);
    assert_eq!(served.join("deep/..").metadata().unwrap().ino(), ROOT);
    assert!(Subtree::open(tree.clone(), b"outer/missing").is_err());
    assert!(Subtree::open(tree, b"outer/inner/deep/file").is_err());
}

#[test]
fn devices_work_only_with_the_option() {
    if skip_unless_root() {
        return;
    }
    let tree = || {
        let mut tree = MemoryTree::new();
        let zero = tree.add(ROOT, "zero", 0o020666);
        tree.node(zero).attributes.device = (1, 5);
        tree
    };
    let served = Served::new(tree());
    let error = File::open(served.join("zero")).map(drop).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::ACCESS));
    let options = Options { allow_devices: true, ..Options::default() };
    let served = Served::with(tree(), options);
    let mut bytes = [1u8; 16];
    let device = File::open(served.join("zero")).unwrap();
    device.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [0; 16]);
}

#[test]
fn an_overlay_makes_it_writable() {
    if skip_unless_root() {
        return;
    }
    let mut tree = MemoryTree::new();
    let dir = tree.directory(ROOT, "dir");
    tree.file(dir, "old", b"from the image");
    tree.file(dir, "doomed", b"x");
    let served = Served::new(tree);
    let top = Place::new();
    // The upper layer of an overlay cannot lie on an overlay, as temporary directories of
    // containers often do.
    let tmpfs = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", top.path(), "tmpfs", tmpfs, None).unwrap();
    let [upper, work, merged] = ["upper", "work", "merged"].map(|name| top.path().join(name));
    for directory in [&upper, &work, &merged] {
        std::fs::create_dir(directory).unwrap();
    }
    let data = format!(
        "lowerdir={},upperdir={},workdir={}",
        served.path().display(),
        upper.display(),
        work.display()
    );
    let data = std::ffi::CString::new(data).unwrap();
    let mounted = rustix::mount::mount("overlay", &merged, "overlay", tmpfs, data.as_c_str());
    let result = mounted.map(|()| {
        std::panic::catch_unwind(|| {
            use std::io::Write;
            let mut file = File::options().append(true).open(merged.join("dir/old")).unwrap();
            file.write_all(b", then more").unwrap();
            drop(file);
            std::fs::remove_file(merged.join("dir/doomed")).unwrap();
            std::fs::write(merged.join("dir/new"), b"new").unwrap();
            std::fs::rename(merged.join("dir/new"), merged.join("dir/newer")).unwrap();
            let read = std::fs::read(merged.join("dir/old")).unwrap();
            assert_eq!(read, b"from the image, then more");
            let mut names: Vec<_> = std::fs::read_dir(merged.join("dir"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            assert_eq!(names, ["newer", "old"]);
        })
    });
    let _ = rustix::mount::unmount(&merged, rustix::mount::UnmountFlags::DETACH);
    let _ = rustix::mount::unmount(top.path(), rustix::mount::UnmountFlags::DETACH);
    match result {
        Err(errno) => println!("SKIPPED: no overlay file system here: {errno}"),
        Ok(outcome) => outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
    assert_eq!(std::fs::read(served.join("dir/old")).unwrap(), b"from the image");
}

#[test]
fn programs_run_from_the_mount() {
    if skip() {
        return;
    }
    let program = std::fs::read("/bin/true").unwrap();
    let mut tree = MemoryTree::new();
    let inode = tree.file(ROOT, "true", &program);
    tree.node(inode).attributes.mode = 0o100755;
    let served = Served::new(tree);
    run(&mut Command::new(served.join("true")));
}
