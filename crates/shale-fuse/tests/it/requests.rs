//! The number of requests that the kernel sends, which is the cost of a FUSE file system: each of
//! these promises is one of speed.

use crate::common::memory::MemoryTree;
use crate::common::{Served, is_root, run, skip, skip_without};
use shale_fuse::Options;
use shale_fuse::statistics::Operation;
use shale_fuse::view::ROOT;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

fn walk(path: &Path, depth: usize) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        count += 1;
        if entry.metadata().unwrap().is_dir() && depth > 0 {
            count += walk(&entry.path(), depth - 1);
        }
    }
    count
}

/// Asserts that an action costs no request. Other processes may drop the kernel's caches or look at
/// all mounts meanwhile, so the action is repeated a few times and has to be free once.
fn assert_free(served: &Served, mut what: impl FnMut()) {
    let mut before = served.requests();
    for _ in 0..5 {
        what();
        let after = served.requests();
        if after == before {
            return;
        }
        before = after;
    }
    panic!("never free: {}", served.mounted.statistics().to_json());
}

/// Mounts a tree with one thread, as [`Served::requests`] needs it.
fn serve(tree: MemoryTree) -> Served {
    Served::with(tree, Options { thread_count: 1, ..Options::default() })
}

fn tree() -> MemoryTree {
    let mut tree = MemoryTree::new();
    for d in 0..20 {
        let dir = tree.directory(ROOT, format!("dir{d}"));
        for f in 0..100 {
            tree.file(dir, format!("file{f}"), b"twelve bytes");
        }
        tree.symlink(dir, "link", b"file0");
    }
    tree
}

#[test]
fn repeated_accesses_cost_no_request() {
    if skip() {
        return;
    }
    let served = serve(tree());
    let path = served.join("dir3/file4");
    let touch = || {
        path.metadata().unwrap();
        assert_eq!(std::fs::read(&path).unwrap().len(), 12);
        assert_eq!(std::fs::read_link(served.join("dir3/link")).unwrap(), Path::new("file0"));
        assert!(served.join("dir3/absent").metadata().is_err());
        assert!(served.join("absent/deeper").metadata().is_err());
    };
    touch();
    assert_free(&served, || (0..100).for_each(|_| touch()));
}

#[test]
fn opening_costs_one_request_for_the_whole_mount() {
    if skip() {
        return;
    }
    let served = serve(tree());
    if !served.mounted.negotiated().has("no-open") {
        println!("SKIPPED: this kernel always asks");
        return;
    }
    for d in 0..20 {
        for f in 0..100 {
            let mut bytes = Vec::new();
            let path = served.join(&format!("dir{d}/file{f}"));
            File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
        }
    }
    served.requests();
    let statistics = served.mounted.statistics();
    assert_eq!(statistics.operation(Operation::Open).count, 1);
    // The kernel gives up some kinds of requests after the first answer.
    assert!(statistics.operation(Operation::Other).count <= 3);
    assert_eq!(statistics.operation(Operation::Read).count, 2000);
}

#[test]
fn a_walk_costs_a_listing_per_directory_and_the_second_costs_nothing() {
    if skip() {
        return;
    }
    let served = serve(tree());
    assert!(served.mounted.negotiated().has("readdirplus"));
    assert_eq!(walk(&served.path(), 1), 20 * 102);
    let first = served.requests();
    let statistics = served.mounted.statistics();
    assert_eq!(statistics.operation(Operation::Lookup).count, 0);
    // Two for each directory: the entries and the end; a large directory takes a few more.
    assert!(statistics.operation(Operation::ReadDirPlus).count <= 21 * 3, "{first}");
    assert!(statistics.operation(Operation::GetAttr).count <= 1);
    assert_eq!(statistics.operation(Operation::OpenDir).count, 1);
    if served.mounted.negotiated().has("no-opendir") {
        assert_free(&served, || assert_eq!(walk(&served.path(), 1), 20 * 102));
    }
}

#[test]
fn each_directory_of_a_deep_tree_costs_the_same_requests() {
    use rustix::fs::{Mode, OFlags, openat};
    if skip() {
        return;
    }
    let requests = [2000, 4000, 8000].map(|depth| {
        let mut tree = MemoryTree::new();
        let mut at = ROOT;
        for _ in 0..depth {
            at = tree.directory(at, "d");
        }
        tree.file(at, "f", b"deep");
        let served = serve(tree);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at = openat(rustix::fs::CWD, served.path(), flags, Mode::empty()).unwrap();
        // No path of the kernel is so long.
        for _ in 0..depth {
            let names = rustix::fs::Dir::read_from(&at)
                .unwrap()
                .filter(|entry| !entry.as_ref().unwrap().file_name().to_bytes().starts_with(b"."));
            assert_eq!(names.count(), 1);
            at = openat(&at, "d", flags, Mode::empty()).unwrap();
        }
        let mut bytes = String::new();
        let file = openat(&at, "f", OFlags::RDONLY, Mode::empty()).unwrap();
        File::from(file).read_to_string(&mut bytes).unwrap();
        assert_eq!(bytes, "deep");
        served.requests()
    });
    let [small, middle, large] = requests;
    assert!(large - middle <= 2 * (middle - small) + (middle - small) / 4, "{requests:?}");
}

#[test]
fn an_image_without_extended_attributes_gets_few_requests_for_them() {
    if skip() || skip_without(&["ls", "rsync"]) {
        return;
    }
    let served = serve(tree());
    let before = served.requests();
    for name in ["dir1", "dir2"] {
        run(Command::new("ls").arg("-l").arg(served.join(name)));
        let copy = served.place.beside(name);
        run(Command::new("rsync").args(["-aX", "--dry-run"]).arg(served.join(name)).arg(copy));
    }
    served.requests();
    let statistics = served.mounted.statistics();
    assert!(statistics.operation(Operation::ListXattr).count <= 1);
    // ls stops asking a file system that answers "not supported".
    assert!(statistics.operation(Operation::GetXattr).count <= 8, "{}", statistics.to_json());
    assert!(statistics.request_count() > before);
}

#[test]
fn a_file_read_sequentially_is_read_in_long_requests() {
    const LEN: u64 = 64 << 20;
    if skip() {
        return;
    }
    let mut tree = MemoryTree::new();
    tree.patterned(ROOT, "file", LEN);
    let served = serve(tree);
    let mut file = File::open(served.join("file")).unwrap();
    let mut bytes = vec![0; 256 << 10];
    while file.read(&mut bytes).unwrap() > 0 {}
    served.requests();
    let reads = served.mounted.statistics().operation(Operation::Read).count;
    let negotiated = served.mounted.negotiated();
    assert_eq!(negotiated.read_len_max, 1 << 20);
    let raised = negotiated.read_ahead_len == 1 << 20;
    assert!(raised || !is_root(), "{negotiated}");
    assert!(reads <= if raised { 80 } else { 600 }, "{reads} reads");
}

#[test]
fn statistics_count_what_happened() {
    if skip() {
        return;
    }
    let served = serve(tree());
    std::fs::read(served.join("dir0/file0")).unwrap();
    served.requests();
    let statistics = served.mounted.statistics();
    let read = statistics.operation(Operation::Read);
    assert_eq!((read.count, read.error_count, read.reply_len), (1, 0, 12));
    assert!(read.total_ns > 0 && read.latency_ns(500) >= read.latency_ns(1));
    assert_eq!(statistics.operation(Operation::Lookup).count, 2);
    let json = shale_fuse::read_statistics(&served.path()).unwrap();
    assert!(json.contains("\"read\":{\"count\":1,\"errors\":0,\"bytes\":12,"), "{json}");
    let text = served.mounted.negotiated().to_string();
    assert!(text.contains("readdirplus: on") && text.contains("threads: "), "{text}");
}
