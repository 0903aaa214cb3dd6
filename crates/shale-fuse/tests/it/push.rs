//! Small files that the driver puts into the page cache before the kernel asks for them: the
//! requests that this saves, and that no reader ever gets other bytes, waits for ever or hangs.

use crate::common::memory::{Fault, MemoryTree};
use crate::common::{Place, Served, is_root, skip, skip_unless_root, wait_until_unmounted};
use shale_fuse::statistics::Operation;
use shale_fuse::view::{Attributes, Entry, ROOT, Seek, Totals, View, ViewError, XattrUse};
use shale_fuse::{Mounted, Options, mount};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Files of each directory of [`tree`].
const FILE_COUNT: u64 = 30;

/// How long a test waits for a thread that should not hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Held while pushes are counted, and by the test that drops caches, which undoes pushes.
static CACHES: RwLock<()> = RwLock::new(());

fn bytes_of(directory: u64, file: u64) -> Vec<u8> {
    let len = 1 + (directory * 7919 + file * 104_729) % 16_384;
    (0..len).map(|at| ((at + directory * 3 + file * 11) % 251) as u8).collect()
}

fn tree(directory_count: u64) -> MemoryTree {
    let mut tree = MemoryTree::new();
    for d in 0..directory_count {
        let directory = tree.directory(ROOT, format!("d{d:04}"));
        for f in 0..FILE_COUNT {
            tree.file(directory, format!("f{f:02}"), &bytes_of(d, f));
        }
    }
    tree
}

fn options(thread_count: usize) -> Options {
    Options { thread_count, push_len_max: 16 << 10, ..Options::default() }
}

/// Lists each directory to its end and reads its files, as tar does. Compares all bytes.
fn walk(mount: &Path, directories: std::ops::Range<u64>) {
    for d in directories {
        let directory = mount.join(format!("d{d:04}"));
        let names: Vec<_> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names.len() as u64, FILE_COUNT);
        for f in 0..FILE_COUNT {
            let bytes = std::fs::read(directory.join(format!("f{f:02}"))).unwrap();
            assert!(bytes == bytes_of(d, f), "d{d} f{f}");
        }
    }
}

fn reads(mounted: &Mounted) -> u64 {
    mounted.statistics().operation(Operation::Read).count
}

fn counter(mounted: &Mounted, name: &str) -> u64 {
    let statistics = mounted.statistics();
    statistics.view_counters.iter().find(|(found, _)| *found == name).unwrap().1
}

#[test]
fn a_walk_over_small_files_costs_a_read_for_one_file_in_ten() {
    if skip() {
        return;
    }
    let _caches = CACHES.read().unwrap_or_else(PoisonError::into_inner);
    let count = 60 * FILE_COUNT;
    let off = Served::with(tree(60), Options { push_len_max: 0, ..options(2) });
    walk(&off.path(), 0..60);
    assert_eq!(counter(&off.mounted, "files_pushed"), 0);
    assert!(reads(&off.mounted) + 2 >= count);
    let on = Served::with(tree(60), options(2));
    walk(&on.path(), 0..60);
    let pushed = counter(&on.mounted, "files_pushed");
    assert!(pushed >= count * 8 / 10, "{pushed} of {count}");
    assert!(counter(&on.mounted, "bytes_pushed") > pushed);
    let reads = reads(&on.mounted);
    // The machine may drop pages meanwhile, and a second reader may be faster than a push.
    assert!(reads <= count / 5, "{reads} of {count}");
    let text = on.mounted.negotiated().to_string();
    assert!(text.contains("pushing: files up to 16 KiB"), "{text}");
}

#[test]
fn files_listed_and_then_read_in_that_order_are_pushed() {
    if skip() {
        return;
    }
    let _caches = CACHES.read().unwrap_or_else(PoisonError::into_inner);
    let served = Served::with(tree(20), options(2));
    for d in 0..20 {
        assert!(std::fs::read_dir(served.join(&format!("d{d:04}"))).unwrap().count() > 0);
    }
    assert_eq!(counter(&served.mounted, "files_pushed"), 0);
    walk(&served.path(), 0..20);
    let reads = reads(&served.mounted);
    assert!(reads <= 20 * FILE_COUNT / 4, "{reads}");
}

#[test]
fn nothing_is_pushed_that_nobody_reads_or_that_must_be_seen() {
    if skip() {
        return;
    }
    let _caches = CACHES.read().unwrap_or_else(PoisonError::into_inner);
    let served = Served::with(tree(20), options(2));
    for d in 0..20 {
        let entries = std::fs::read_dir(served.join(&format!("d{d:04}"))).unwrap();
        assert!(entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>() > 0);
    }
    assert_eq!(counter(&served.mounted, "files_pushed"), 0);
    // One thread would wait for itself, and a list of reads would miss the pushed files.
    let watched = Options { on_read: Some(Arc::new(|_| ())), ..options(2) };
    for (tree_count, options) in [(10, options(1)), (10, watched)] {
        let served = Served::with(tree(tree_count), options);
        walk(&served.path(), 0..tree_count);
        assert_eq!(counter(&served.mounted, "files_pushed"), 0);
        // A thread counts its last read after the reader has got the answer.
        assert!(reads(&served.mounted) + 2 >= tree_count * FILE_COUNT);
        assert!(served.mounted.negotiated().to_string().contains("pushing:"));
    }
}

#[test]
fn a_damaged_file_is_an_error_and_its_neighbours_are_pushed() {
    if skip() {
        return;
    }
    let _caches = CACHES.read().unwrap_or_else(PoisonError::into_inner);
    let mut tree = tree(10);
    let directory = tree.directory(ROOT, "damaged");
    for f in 0..FILE_COUNT {
        let inode = tree.file(directory, format!("f{f:02}"), &bytes_of(99, f));
        tree.node(inode).fault = match f % 10 {
            4 => Fault::Damaged(0..u64::MAX),
            _ => Fault::None,
        };
    }
    let served = Served::with(tree, options(2));
    walk(&served.path(), 0..10);
    let before = counter(&served.mounted, "files_pushed");
    assert_eq!(std::fs::read_dir(served.join("damaged")).unwrap().count() as u64, FILE_COUNT);
    for f in 0..FILE_COUNT {
        let found = std::fs::read(served.join(&format!("damaged/f{f:02}")));
        match f % 10 {
            4 => assert_eq!(found.unwrap_err().raw_os_error(), Some(5)),
            _ => assert!(found.unwrap() == bytes_of(99, f), "{f}"),
        }
    }
    assert!(counter(&served.mounted, "files_pushed") > before);
}

#[test]
fn readers_get_the_right_bytes_while_caches_are_dropped() {
    if skip_unless_root() {
        return;
    }
    let _caches = CACHES.write().unwrap_or_else(PoisonError::into_inner);
    let served = Served::with(tree(60), options(3));
    let path = served.path();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let dropping = scope.spawn(|| {
            for what in ["1", "2", "3"].iter().cycle() {
                if is_done.load(Relaxed) {
                    break;
                }
                std::fs::write("/proc/sys/vm/drop_caches", what).unwrap();
                std::thread::yield_now();
            }
        });
        let readers = [0, 0, 20, 40].map(|from| {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..3 {
                    walk(path, from..from + 20);
                }
            })
        });
        let results = readers.map(|reader| reader.join());
        is_done.store(true, Relaxed);
        dropping.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
    assert!(counter(&served.mounted, "files_pushed") > 0);
}

#[test]
fn a_mount_ends_while_files_are_pushed() {
    if skip() {
        return;
    }
    let _caches = CACHES.read().unwrap_or_else(PoisonError::into_inner);
    for lazily in [true, false] {
        let mut served = Served::with(tree(200), options(2));
        let path = served.path();
        let (begun, pushing) = sync_channel(0);
        // It meets the end of the mount in any of its steps.
        let reader = std::thread::spawn(move || {
            for d in 0..200u64 {
                let directory = path.join(format!("d{d:04}"));
                let Ok(entries) = std::fs::read_dir(&directory) else { return };
                for entry in entries.flatten() {
                    let Ok(bytes) = std::fs::read(entry.path()) else { return };
                    let name = entry.file_name();
                    let f = name.to_str().unwrap()[1..].parse().unwrap();
                    assert!(bytes == bytes_of(d, f), "d{d} {name:?}");
                }
                if d == 5 {
                    let _ = begun.send(());
                }
            }
        });
        pushing.recv_timeout(PATIENCE).unwrap();
        assert!(counter(&served.mounted, "files_pushed") > 0);
        if lazily {
            served.mounted.unmount(true).unwrap();
        } else {
            // Busy as long as the reader has a file open.
            while served.mounted.unmount(false).is_err() {
                std::thread::yield_now();
            }
        }
        reader.join().unwrap();
        wait_until_unmounted(&served.path());
    }
}

/// A tree in which one file waits at two gates: before its bytes are ready to push, and before a
/// read of it is answered.
struct Gated {
    tree: MemoryTree,
    inode: u64,
    pushing: Gate,
    reading: Gate,
}

/// Tells that a thread came, and lets it go on when it is told to.
struct Gate {
    came: SyncSender<()>,
    go: Mutex<Receiver<()>>,
}

impl Gate {
    fn new() -> (Self, Receiver<()>, SyncSender<()>) {
        let (came, has_come) = sync_channel(8);
        let (open, go) = sync_channel(8);
        (Self { came, go: Mutex::new(go) }, has_come, open)
    }

    fn pass(&self) {
        let _ = self.came.send(());
        let _ = self.go.lock().unwrap().recv();
    }
}

impl View for Gated {
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
        self.tree.attributes(inode)
    }

    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError> {
        self.tree.lookup(directory, name)
    }

    fn parent(&self, directory: u64) -> Result<u64, ViewError> {
        self.tree.parent(directory)
    }

    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError> {
        self.tree.list(directory, first, each)
    }

    fn link_target(&self, inode: u64) -> Result<Vec<u8>, ViewError> {
        self.tree.link_target(inode)
    }

    fn xattr_names(&self, inode: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError> {
        self.tree.xattr_names(inode, each)
    }

    fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        self.tree.xattr(inode, name)
    }

    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        if inode == self.inode {
            self.reading.pass();
        }
        self.tree.read(inode, offset, buf)
    }

    fn read_ready(&self, inode: u64, buf: &mut [u8]) -> Result<bool, ViewError> {
        if inode == self.inode {
            self.pushing.pass();
        }
        self.tree.read_ready(inode, buf)
    }

    fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError> {
        self.tree.seek(inode, offset, what)
    }

    fn totals(&self) -> Totals {
        self.tree.totals()
    }

    fn xattr_use(&self) -> XattrUse {
        self.tree.xattr_use()
    }
}

/// The file is pushed while a read of it, which has locked its page, is not answered. Without a
/// thread that serves meanwhile, both would wait for ever.
#[test]
fn pushing_a_file_that_is_being_read_waits_and_everything_else_is_served() {
    if skip() {
        return;
    }
    let _caches = CACHES.read().unwrap_or_else(PoisonError::into_inner);
    let (pushing, is_pushing, push) = Gate::new();
    let (reading, is_reading, read) = Gate::new();
    let mut tree = MemoryTree::new();
    let directory = tree.directory(ROOT, "d");
    let inodes: Vec<u64> = (0..FILE_COUNT)
        .map(|f| tree.file(directory, format!("f{f:02}"), &bytes_of(0, f)))
        .collect();
    let view = Gated { tree, inode: inodes[5], pushing, reading };
    let served = Served::with(view, options(3));
    let path = served.join("d");
    assert_eq!(std::fs::read_dir(&path).unwrap().count() as u64, FILE_COUNT);
    let (done, finished) = sync_channel(8);
    let reader = |files: &[u64]| {
        let (path, files, done) = (path.clone(), files.to_vec(), done.clone());
        std::thread::spawn(move || {
            for f in files {
                let bytes = std::fs::read(path.join(format!("f{f:02}"))).unwrap();
                assert!(bytes == bytes_of(0, f), "{f}");
            }
            let _ = done.send(());
        })
    };
    // The third read in order makes the driver push the files after it.
    let in_order = reader(&[0, 1, 2]);
    is_pushing.recv_timeout(PATIENCE).unwrap();
    // Its page is locked from here on.
    let of_the_same = reader(&[5]);
    is_reading.recv_timeout(PATIENCE).unwrap();
    push.send(()).unwrap();
    // The third thread answers this, whatever the two others wait for.
    let of_others = reader(&[20, 25, 28]);
    finished.recv_timeout(PATIENCE).unwrap();
    of_others.join().unwrap();
    read.send(()).unwrap();
    finished.recv_timeout(PATIENCE).unwrap();
    finished.recv_timeout(PATIENCE).unwrap();
    in_order.join().unwrap();
    of_the_same.join().unwrap();
    assert!(File::open(path.join("f05")).is_ok() || !is_root());
    assert!(counter(&served.mounted, "files_pushed") >= 4);
}

const DRIVER_PLACE: &str = "SHALE_FUSE_TEST_PUSH_PLACE";

/// One directory whose sixth file waits at the gates.
fn gated(pushing: Gate, reading: Gate) -> Gated {
    let mut tree = MemoryTree::new();
    let directory = tree.directory(ROOT, "d");
    let inodes: Vec<u64> = (0..FILE_COUNT)
        .map(|f| tree.file(directory, format!("f{f:02}"), &bytes_of(0, f)))
        .collect();
    tree.node(inodes[20]).fault = Fault::Hang;
    Gated { tree, inode: inodes[5], pushing, reading }
}

/// Not a test: the body of the process that is killed. Says when a thread comes to a gate. Opens
/// that of pushing when it is told to, and never that of reading.
#[test]
fn driver_process() {
    let Some(place) = std::env::var_os(DRIVER_PLACE) else { return };
    let (pushing, is_pushing, push) = Gate::new();
    let (reading, is_reading, _read) = Gate::new();
    std::thread::spawn(move || {
        while is_reading.recv().is_ok() {
            println!("reading");
        }
    });
    let view = gated(pushing, reading);
    let mounted = mount(Arc::new(view), &PathBuf::from(place), &options(2)).unwrap();
    println!("\nready");
    while is_pushing.recv().is_ok() {
        println!("pushing");
        std::io::stdin().lock().read_line(&mut String::new()).unwrap();
        push.send(()).unwrap();
    }
    drop(mounted);
}

/// Returns whether a thread of a process waits in the kernel for a page.
fn is_waiting(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut places = threads.flatten().map(|thread| thread.path().join("wchan"));
    places.any(|place| std::fs::read_to_string(place).is_ok_and(|name| name.contains("folio")))
}

fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < end, "waited for {what}");
        std::thread::yield_now();
    }
}

/// The driver is killed while it waits for a page, which belongs to a read that a thread has taken
/// and does not answer, or that no thread has taken. All reads end.
#[test]
fn a_driver_that_is_killed_while_it_pushes_hangs_nobody() {
    if skip_unless_root() {
        return;
    }
    let _caches = CACHES.read().unwrap_or_else(PoisonError::into_inner);
    // Two threads of the driver may note two reads in the other order, and then it pushes nothing.
    // That costs a reader nothing; here it is tried again, with a driver of its own.
    for is_taken in [true, false] {
        let is_done = (0..20).any(|_| is_driver_killed_while_it_pushes(is_taken));
        assert!(is_done, "no driver pushed");
    }
}

/// Kills a driver while it pushes. Returns false if it pushed nothing.
fn is_driver_killed_while_it_pushes(is_taken: bool) -> bool {
    let place = Place::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["push::driver_process", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(DRIVER_PLACE, place.path()).stdout(Stdio::piped()).stdin(Stdio::piped());
    let mut driver = command.spawn().unwrap();
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|it| sender.send(it)));
    // Returns whether the driver says a word in time.
    let hears = |word: &str, patience: Duration| {
        std::iter::from_fn(|| receiver.recv_timeout(patience).ok()).any(|line| line == word)
    };
    let said = |word: &str| assert!(hears(word, PATIENCE), "{word}");
    said("ready");
    let path = place.path().join("d");
    assert_eq!(std::fs::read_dir(&path).unwrap().count() as u64, FILE_COUNT);
    let read = |files: &[u64]| {
        let mut cat = Command::new("cat");
        cat.args(files.iter().map(|f| path.join(format!("f{f:02}"))));
        cat.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    // The third read in order makes the driver push the files after it.
    let mut readers = vec![read(&[0, 1, 2])];
    if !hears("pushing", PATIENCE / 12) {
        driver.kill().unwrap();
        driver.wait().unwrap();
        readers.iter_mut().for_each(|reader| drop(reader.wait()));
        return false;
    }
    if !is_taken {
        // The other thread never answers this one.
        readers.push(read(&[20]));
        said("reading 23");
    }
    let of_the_same = read(&[5]);
    match is_taken {
        true => said("reading"),
        false => wait_for("a reader", || is_waiting(of_the_same.id())),
    }
    readers.push(of_the_same);
    driver.stdin.as_ref().unwrap().write_all(b"go\n").unwrap();
    wait_for("the push", || is_waiting(driver.id()));
    driver.kill().unwrap();
    for mut reader in readers {
        // With an error, or with the bytes that the push had left to write.
        wait_for("the end of a reader", || reader.try_wait().unwrap().is_some());
    }
    driver.wait().unwrap();
    true
}
