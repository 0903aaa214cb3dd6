//! The nasty tree: everything a Linux tree can hold that is hard to keep.
//!
//! Each part is one promise or one known disease of archives: odd names, odd times, odd owners,
//! holes, hard links, attributes, devices, sizes around the frame. Built from a seed as a model, so
//! the same seed is the same tree. What root alone can make, [`crate::model::make`] leaves out for
//! others.

use crate::manifest::Manifest;
use crate::model::{Data, Item, Kind};
use crate::random::Random;

/// Which parts a tree has beyond those that it always has.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Everything that is chosen by chance depends on this.
    pub seed: u64,
    /// Entries of the one large directory.
    pub large_directory: usize,
    /// A sparse file of more than 4 GiB.
    pub huge_file: bool,
    /// Paths longer than PATH_MAX, which many programs cannot open.
    pub beyond_path_max: bool,
    /// Folders and files that their owner may not read; only root can then.
    pub unreadable: bool,
}

impl Options {
    /// Everything, for a caller that may be root or not.
    pub fn everything(seed: u64) -> Self {
        Self {
            seed,
            large_directory: 3000,
            huge_file: true,
            beyond_path_max: true,
            unreadable: rustix::process::geteuid().is_root(),
        }
    }

    /// What programs with fixed path lengths can read as well, in a minute.
    pub fn for_other_programs(seed: u64) -> Self {
        Self { huge_file: false, beyond_path_max: false, ..Self::everything(seed) }
    }
}

/// The model of the nasty tree.
pub fn tree(options: Options) -> Vec<Item> {
    let mut tree = NastyTree { items: Vec::new(), random: Random::new(options.seed) };
    tree.add("", Kind::Directory).mtime = (1_234_567_890, 123_456_789);
    contents(&mut tree);
    holes(&mut tree, options.huge_file);
    links(&mut tree);
    times(&mut tree);
    modes_and_owners(&mut tree, options.unreadable);
    names(&mut tree);
    attributes(&mut tree);
    special(&mut tree);
    folders(&mut tree, options);
    tree.items
}

/// Makes the nasty tree that other programs can read in the new folder `source`, and tells what it
/// is.
pub fn make_for_others(source: &std::path::Path, seed: u64, large_directory: usize) -> Manifest {
    std::fs::create_dir(source).expect("the folder can be made");
    let options = Options { large_directory, ..Options::for_other_programs(seed) };
    crate::model::make(&tree(options), source, seed).expect("the tree can be made");
    Manifest::of(source).expect("the tree can be read")
}

/// Makes the nasty tree in `folder/source`, and the image `folder/x.shale` of it; tells what it is.
pub fn make_with_image(folder: &std::path::Path) -> Manifest {
    let expected = make_for_others(&folder.join("source"), 11, 700);
    crate::command::create(&folder.join("source"), &folder.join("x.shale"), &["-1"]);
    expected
}

/// A small tree that still has every kind of inode, for images of a few KiB.
pub fn tiny_tree(seed: u64) -> Vec<Item> {
    let mut tree = NastyTree { items: Vec::new(), random: Random::new(seed) };
    tree.add("", Kind::Directory);
    tree.folder("d");
    tree.folder("d/empty");
    tree.file("d/text", Data::Text(seed, 3000));
    tree.file("d/random", Data::Random(seed, 700));
    tree.file("d/copy", Data::Text(seed, 3000));
    tree.file("empty", Data::Zero(0));
    tree.add(
        "holes",
        Kind::File {
            len: 200_000,
            pieces: vec![(65_536, Data::Text(seed + 1, 500)), (131_072, Data::Zero(4096))],
        },
    );
    tree.add("d/link", Kind::HardLink(b"d/text".to_vec()));
    tree.add("symlink", Kind::Symlink(b"d/text".to_vec()));
    tree.add("fifo", Kind::Fifo);
    tree.add("socket", Kind::Socket);
    tree.add("null", Kind::Char(1, 3));
    tree.add("loop", Kind::Block(7, 300));
    tree.file("attributes", Data::Text(seed + 2, 100)).xattrs =
        vec![(b"user.a".to_vec(), b"one".to_vec()), (b"user.b".to_vec(), vec![0, 255, 10])];
    tree.items
}

/// What is far beyond the usual; made where the file system takes most of it, which is memory.
/// `large` and `depth` are entries of its long directory and levels of its deep one.
pub fn extreme_tree(seed: u64, large: usize, depth: usize) -> Vec<Item> {
    let mut tree = NastyTree { items: Vec::new(), random: Random::new(seed) };
    tree.add("", Kind::Directory);
    let value = tree.random.bytes(65_536);
    let many = (0..400).map(|n| (format!("user.number-{n}").into_bytes(), vec![n as u8; n % 7]));
    let many: Vec<_> = many.collect();
    tree.small_file("many-attributes").xattrs = many.clone();
    tree.folder("many-attributes-folder").xattrs = many;
    tree.small_file("long-attribute").xattrs = vec![(b"user.long".to_vec(), value.clone())];
    tree.folder("long-attribute-folder").xattrs = vec![(b"trusted.long".to_vec(), value)];
    for (index, sec) in [-(1 << 40), -1, 1 << 33, 1 << 40].into_iter().enumerate() {
        tree.small_file(format!("time-{index}")).mtime = (sec, 999_999_999);
    }
    tree.folder("names");
    for _ in 0..200 {
        let mut name = tree.random.bytes(255);
        for byte in name.iter_mut().filter(|byte| matches!(byte, 0 | b'/')) {
            *byte = b'\n';
        }
        tree.small_file([b"names/", &name[..]].concat());
    }
    tree.folder("many");
    for index in 0..large {
        tree.file(format!("many/{:x}-{index}", index * 2_654_435_761 % 65_536), Data::Zero(0));
    }
    let mut deep = String::from("deep");
    tree.folder(&deep);
    for _ in 0..depth {
        deep.push_str("/d");
        tree.folder(&deep);
    }
    tree.file(format!("{deep}/bottom"), Data::Text(1, 5000));
    tree.add("link-to-bottom", Kind::HardLink(format!("{deep}/bottom").into_bytes()));
    tree.add("names/link-to-bottom", Kind::HardLink(format!("{deep}/bottom").into_bytes()));
    const T: u64 = 1 << 40;
    let islands = |at: &[u64]| at.iter().map(|at| (*at, Data::Text(*at, 5000))).collect();
    let pieces = islands(&[0, T + 12_345, 8 * T, 16 * T - 5000]);
    tree.add("sixteen-tebibytes", Kind::File { len: 16 * T, pieces });
    let pieces = islands(&[T]);
    tree.add("hole-at-both-ends", Kind::File { len: 2 * T, pieces });
    tree.add("one-hole", Kind::File { len: 15 * T, pieces: Vec::new() });
    tree.items
}

/// A tree whose tables make use of every way to store a column of byte strings.
fn columns_tree() -> Vec<Item> {
    let mut tree = NastyTree { items: Vec::new(), random: Random::new(85) };
    tree.add("", Kind::Directory);
    tree.folder("numbered");
    for number in 1..=40 {
        tree.file(format!("numbered/part-{number}"), Data::Zero(0));
    }
    for number in 0..30 {
        tree.file(format!("numbered/scan{number:03}.png"), Data::Zero(0));
    }
    tree.folder("links");
    for number in 0..24 {
        // Targets that share much with the one before, and words that share nothing.
        let word: String = (0..5).map(|_| (b'a' + tree.random.below(26) as u8) as char).collect();
        let target = format!("/usr/share/doc/a-package-with-a-long-name/{word}");
        let name = format!("links/{number:02}");
        tree.add(name, Kind::Symlink(target.into_bytes()));
    }
    for number in 0..20u64 {
        let value = Random::new(number).bytes(3 + number as usize % 5);
        let xattrs = ["user.author", "user.comment", "user.rating"];
        let xattrs = xattrs.iter().map(|name| (name.as_bytes().to_vec(), value.clone()));
        tree.file(format!("with-attributes-{number}"), Data::Zero(0)).xattrs = xattrs.collect();
    }
    tree.items
}

/// Trees of golden images by name. Never changed once an image is made of them; needs root.
pub fn golden_tree(name: &str) -> Option<Vec<Item>> {
    match name {
        "tiny" => Some(tiny_tree(1)),
        "metadata" => {
            // All that is not content: names, times, owners, attributes, links, special files.
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(77) };
            tree.add("", Kind::Directory);
            links(&mut tree);
            times(&mut tree);
            modes_and_owners(&mut tree, true);
            names(&mut tree);
            attributes(&mut tree);
            special(&mut tree);
            Some(tree.items)
        }
        "contents" => {
            // Content that dedupes, has holes and similar pieces; much of it compresses well.
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(78) };
            tree.add("", Kind::Directory);
            holes(&mut tree, true);
            tree.folder("texts");
            for index in 0..40 {
                tree.file(format!("texts/{index:02}"), Data::Text(index % 7, 40_000));
            }
            Some(tree.items)
        }
        "lines" => {
            // Logs, of which frames of lines are made, and prose that gets into one of them.
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(79) };
            tree.add("", Kind::Directory);
            tree.folder("logs");
            for index in 0..6 {
                tree.file(format!("logs/{index}"), Data::Log(index, 150_000));
            }
            tree.file("prose", Data::Text(1, 300_000));
            Some(tree.items)
        }
        "hello" => {
            // The example of the specification.
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(80) };
            tree.add("", Kind::Directory).mtime = (1_700_000_000, 0);
            let file = Kind::File { len: 6, pieces: vec![(0, Data::Bytes(b"hello\n"))] };
            tree.add("hello", file).mtime = (1_700_000_000, 500_000_000);
            Some(tree.items)
        }
        "code" => {
            // A frame for each file, in the order of names; see `handmade::golden`.
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(81) };
            tree.add("", Kind::Directory);
            for index in 0..10 {
                let data = if index < 6 { Data::Code } else { Data::Log };
                tree.file(format!("{index}"), data(index, crate::handmade::FILTERED_LEN));
            }
            Some(tree.items)
        }
        "texts" => {
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(82) };
            tree.add("", Kind::Directory);
            for index in 0..12 {
                let data = Data::Text(index, crate::handmade::CHAINED_LEN);
                tree.file(format!("{index:02}"), data);
            }
            Some(tree.items)
        }
        "window" => {
            // A frame beyond the windows that brotli has by itself, texts, and noise.
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(83) };
            tree.add("", Kind::Directory);
            tree.file("again", Data::Again(1, 17 << 20));
            for index in 0..6 {
                tree.file(format!("text-{index}"), Data::Text(index, 9000));
            }
            tree.file("noise", Data::Random(1, 5000));
            Some(tree.items)
        }
        "log" => {
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(84) };
            tree.add("", Kind::Directory);
            tree.file("log", Data::Log(1, 150_000));
            Some(tree.items)
        }
        "before" | "bases" => {
            // Enough rows for several pages of each table. What `bases` has more stands in front.
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(86) };
            tree.add("", Kind::Directory);
            if name == "bases" {
                tree.folder("a");
                tree.file("a/file", Data::Text(5, 100));
                tree.add("a/link", Kind::Symlink(b"file".to_vec()));
            }
            for folder in 0..600 {
                tree.folder(format!("m{folder:03}"));
                tree.file(format!("m{folder:03}/file"), Data::Text(folder % 4, 100));
                tree.add(format!("m{folder:03}/link"), Kind::Symlink(b"file".to_vec()));
            }
            Some(tree.items)
        }
        "arrays" => {
            // A frame for each file.
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(85) };
            tree.add("", Kind::Directory);
            for index in 0..12 {
                tree.file(format!("{index:02}"), Data::Array(index, 32 << 10));
            }
            Some(tree.items)
        }
        "samples" => {
            // Each in frames of its own.
            let mut tree = NastyTree { items: Vec::new(), random: Random::new(86) };
            tree.add("", Kind::Directory);
            for kind in 0..6 {
                tree.file(format!("{kind}"), Data::Samples(kind, 70_000));
            }
            Some(tree.items)
        }
        "names" => Some(columns_tree()),
        "later" => Some(tiny_tree(3)),
        _ => None,
    }
}

struct NastyTree {
    items: Vec<Item>,
    random: Random,
}

impl NastyTree {
    fn add(&mut self, path: impl AsRef<[u8]>, kind: Kind) -> &mut Item {
        let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
        let mtime = (self.random.below(2_000_000_000) as i64, self.random.below(1 << 29) as u32);
        let path = path.as_ref().to_vec();
        self.items.push(Item { path, kind, mode, owner: None, mtime, xattrs: Vec::new() });
        let last = self.items.len() - 1;
        &mut self.items[last]
    }

    fn folder(&mut self, path: impl AsRef<[u8]>) -> &mut Item {
        self.add(path, Kind::Directory)
    }

    fn file(&mut self, path: impl AsRef<[u8]>, data: Data) -> &mut Item {
        let len = match data {
            Data::Random(_, len)
            | Data::Text(_, len)
            | Data::Log(_, len)
            | Data::Array(_, len)
            | Data::Samples(_, len)
            | Data::Code(_, len)
            | Data::Again(_, len)
            | Data::Zero(len) => len as u64,
            Data::Bytes(bytes) => bytes.len() as u64,
        };
        let pieces = if len == 0 { Vec::new() } else { vec![(0, data)] };
        self.add(path, Kind::File { len, pieces })
    }

    fn small_file(&mut self, path: impl AsRef<[u8]>) -> &mut Item {
        let (seed, len) = (self.random.number(), self.random.below(400) as usize);
        self.file(path, Data::Text(seed, len))
    }
}

/// A tree of a few hundred entries whose image is some MiB: many leaves, many frames, tables of
/// more than a page's few rows, and read in a moment.
pub fn medium_tree(seed: u64) -> Vec<Item> {
    let mut tree = NastyTree { items: tiny_tree(seed), random: Random::new(seed + 1000) };
    tree.folder("many");
    for index in 0..300 {
        tree.small_file(format!("many/{index:04}"));
    }
    tree.folder("large");
    for index in 0..20 {
        let (seed, len) = (tree.random.number(), 20_000 + tree.random.below(120_000) as usize);
        tree.file(format!("large/noise-{index}"), Data::Random(seed, len));
        tree.file(format!("large/text-{index}"), Data::Text(seed, 2 * len));
    }
    tree.items
}

/// Sizes around pages and frames, equal files, files that differ in one place.
fn contents(tree: &mut NastyTree) {
    tree.folder("contents");
    let around = [1usize, 512, 4096, 65_536, 131_072, 262_144, 524_288, 1 << 20];
    for (index, size) in around.into_iter().enumerate() {
        for len in [size - 1, size, size + 1] {
            let seed = tree.random.number();
            let data = if index % 2 == 0 { Data::Text(seed, len) } else { Data::Random(seed, len) };
            tree.file(format!("contents/size-{len}"), data);
        }
    }
    tree.folder("contents/equal");
    for copy in 0..3 {
        tree.file(format!("contents/equal/text-{copy}"), Data::Text(11, 300_000));
        tree.file(format!("contents/equal/random-{copy}"), Data::Random(12, 5_000));
        tree.file(format!("contents/equal/empty-{copy}"), Data::Zero(0));
    }
    // Equal sizes, different bytes: a dedupe that trusts the size alone breaks here.
    for other in 0..4 {
        tree.file(format!("contents/same-size-{other}"), Data::Random(100 + other, 77_777));
    }
    // Long common runs that begin at different places.
    let shared = (1000u64, 3_000_000usize);
    for shift in [0u64, 1, 4097] {
        let mut pieces = vec![(shift, Data::Random(shared.0, shared.1))];
        if shift > 0 {
            pieces.insert(0, (0, Data::Text(shift, shift as usize)));
        }
        let len = shift + shared.1 as u64;
        tree.add(format!("contents/shifted-by-{shift}"), Kind::File { len, pieces });
    }
    let mut pieces = Vec::new();
    for part in 0..40u64 {
        let data = match part % 3 {
            0 => Data::Text(part, 50_000),
            1 => Data::Random(part, 50_000),
            _ => Data::Zero(50_000),
        };
        pieces.push((part * 50_000, data));
    }
    tree.add("contents/mixed", Kind::File { len: 2_000_000, pieces });
    for index in 0..200 {
        tree.small_file(format!("contents/small-{index:03}"));
    }
}

/// Holes at the start, at the end, in the middle, everywhere; zeroes that were written.
fn holes(tree: &mut NastyTree, huge: bool) {
    tree.folder("holes");
    let mut add = |name: &str, len: u64, pieces: Vec<(u64, Data)>| {
        tree.add(format!("holes/{name}"), Kind::File { len, pieces });
    };
    const M: u64 = 1 << 20;
    add("only-hole", 3 * M, vec![]);
    add("one-byte-hole", 1, vec![]);
    add("at-start", 2 * M, vec![(M, Data::Text(1, M as usize))]);
    add("at-end", 2 * M, vec![(0, Data::Text(2, M as usize))]);
    add("in-middle", 3 * M, vec![(0, Data::Text(3, 65_536)), (2 * M, Data::Random(3, 65_536))]);
    add("last-byte", M + 1, vec![(M, Data::Text(4, 1))]);
    add("odd-edges", 1_000_003, vec![(100_001, Data::Text(5, 777)), (700_007, Data::Text(6, 9))]);
    let many = (0..60).map(|at| (at * 131_072, Data::Text(at, 3000))).collect();
    add("everywhere", 60 * 131_072, many);
    add("written-zeroes", 300_000, vec![(0, Data::Zero(300_000))]);
    let zeroes = vec![(0, Data::Text(7, 5000)), (524_288, Data::Zero(262_144))];
    add("zeroes-between-holes", 2 * M, zeroes);
    // Equal bytes with different holes are equal contents only if holes do not matter.
    add("equal-bytes-hole", 262_144, vec![(0, Data::Text(8, 4096))]);
    add(
        "equal-bytes-zero",
        262_144,
        vec![(0, Data::Text(8, 4096)), (4096, Data::Zero(262_144 - 4096))],
    );
    if huge {
        const G: u64 = 1 << 30;
        let pieces = vec![
            (0, Data::Text(9, 100_000)),
            (2 * G - 5, Data::Random(9, 10)),
            (4 * G - 1, Data::Text(10, 70_000)),
            (5 * G + 12_345, Data::Random(10, 1_000_000)),
        ];
        add("beyond-4-gib", 5 * G + 2 * M + 1, pieces);
    }
}

/// Hard links of every kind of inode across folders; links that lead nowhere, far or in circles.
fn links(tree: &mut NastyTree) {
    tree.folder("links");
    tree.folder("links/a");
    tree.folder("links/b");
    tree.file("links/b/file", Data::Text(20, 10_000));
    tree.add("links/a/file", Kind::HardLink(b"links/b/file".to_vec()));
    tree.add("links/z-file", Kind::HardLink(b"links/b/file".to_vec()));
    for index in 0..100 {
        tree.add(format!("links/a/name-{index}"), Kind::HardLink(b"links/b/file".to_vec()));
    }
    tree.add("links/b/fifo", Kind::Fifo);
    tree.add("links/a/fifo", Kind::HardLink(b"links/b/fifo".to_vec()));
    tree.add("links/b/symlink", Kind::Symlink(b"file".to_vec()));
    tree.add("links/a/symlink", Kind::HardLink(b"links/b/symlink".to_vec()));
    tree.file("links/b/empty", Data::Zero(0));
    tree.add("links/a/empty", Kind::HardLink(b"links/b/empty".to_vec()));
    let mut symlink = |name: &str, target: &[u8]| {
        tree.add(format!("links/symlink-{name}"), Kind::Symlink(target.to_vec()));
    };
    symlink("dangling", b"no/such/file");
    symlink("absolute", b"/usr/bin/env");
    symlink("up", b"../../../../..");
    symlink("self", b"symlink-self");
    symlink("folder", b"a");
    symlink("one-byte", b"x");
    symlink("not-utf8", b"\xff\xfe/\x80");
    symlink("newline", b"a\nb");
    symlink("slashes", b"//a///b//");
    symlink("long", "long/".repeat(200).as_bytes());
    symlink("longest", &"longest/".repeat(512).as_bytes()[..4095]);
}

/// Times before 1970, after 2038 and after 2106, with every kind of fraction.
fn times(tree: &mut NastyTree) {
    tree.folder("times");
    let times = [
        (0, 0),
        (0, 1),
        (-1, 999_999_999),
        (-1, 0),
        (-2_147_483_648, 0),
        (2_147_483_647, 999_999_999),
        (2_147_483_648, 0),
        (4_294_967_295, 1),
        (4_294_967_296, 123_456_789),
        (7_258_118_400, 5),
        (15_032_385_535, 0),
    ];
    for (index, time) in times.into_iter().enumerate() {
        tree.small_file(format!("times/file-{index}")).mtime = time;
        tree.folder(format!("times/folder-{index}")).mtime = time;
        tree.add(format!("times/link-{index}"), Kind::Symlink(b"file-0".to_vec())).mtime = time;
    }
}

/// Every permission bit; owners of every width.
fn modes_and_owners(tree: &mut NastyTree, unreadable: bool) {
    tree.folder("modes");
    for mode in [0o4755, 0o2755, 0o1755, 0o7777, 0o6711, 0o400, 0o444, 0o604, 0o777] {
        tree.small_file(format!("modes/file-{mode:04o}")).mode = mode;
    }
    for mode in [0o1777, 0o2775, 0o7777, 0o500, 0o700] {
        tree.folder(format!("modes/folder-{mode:04o}")).mode = mode;
    }
    if unreadable {
        for mode in [0o000, 0o111, 0o222, 0o4000] {
            tree.small_file(format!("modes/file-{mode:04o}")).mode = mode;
        }
        tree.folder("modes/folder-0000").mode = 0;
        tree.small_file("modes/folder-0000/inside").mode = 0;
    }
    tree.folder("owners");
    let ids = [(1, 1), (0, 65_535), (65_536, 0), (4_294_967_294, 4_294_967_293), (1000, 100)];
    for (index, owner) in ids.into_iter().enumerate() {
        let item = tree.small_file(format!("owners/file-{index}"));
        (item.owner, item.mode) = (Some(owner), 0o6755);
        tree.folder(format!("owners/folder-{index}")).owner = Some(owner);
        tree.add(format!("owners/link-{index}"), Kind::Symlink(b"file-0".to_vec())).owner =
            Some(owner);
    }
    // More different owners than fit into 16 bits of an index would need would take too long here;
    // a few hundred still leave every small dictionary.
    for index in 0..300 {
        let owner = (tree.random.number() as u32 >> 1, tree.random.number() as u32 >> 1);
        tree.small_file(format!("owners/any-{index}")).owner = Some(owner);
    }
}

/// Names that are legal and that somebody always forgets.
fn names(tree: &mut NastyTree) {
    tree.folder("names");
    let mut all: Vec<Vec<u8>> = vec![
        vec![b'n'; 255],
        b"new\nline".to_vec(),
        b"\n".to_vec(),
        b"tab\tand\rreturn".to_vec(),
        b" leading and trailing ".to_vec(),
        b"-rf".to_vec(),
        b"--help".to_vec(),
        b"*".to_vec(),
        b"[a-z]?".to_vec(),
        b"back\\slash".to_vec(),
        b"quote'\"`$(x)".to_vec(),
        b"...".to_vec(),
        b"..a".to_vec(),
        b".hidden".to_vec(),
        b"~".to_vec(),
        b"#comment;rest|pipe&".to_vec(),
        b"\x01\x02\x1b[31m\x7f".to_vec(),
        b"\xff\xfe\xfd".to_vec(),
        b"\x80".to_vec(),
        b"half\xc3".to_vec(),
        b"\xed\xa0\x80surrogate".to_vec(),
        "Äpfel".into(),
        "A\u{308}pfel".into(),
        "雪片".into(),
        "\u{202e}txt.exe".into(),
        b"CON".to_vec(),
        b"Case".to_vec(),
        b"case".to_vec(),
        b"a".to_vec(),
        b"a.".to_vec(),
        b"a b".to_vec(),
        b"aa".to_vec(),
        b"a\x01".to_vec(),
    ];
    let mut longest_utf8 = "ü".repeat(127).into_bytes();
    longest_utf8.push(b'x');
    all.push(longest_utf8);
    let mut every_byte: Vec<u8> = (1..=255).filter(|b| *b != b'/').collect();
    every_byte.insert(0, b'=');
    all.push(every_byte);
    for name in all {
        let path = [b"names/".as_slice(), &name].concat();
        tree.small_file(path);
        let path = [b"names/".as_slice(), &name[..name.len().min(250)], b".dir"].concat();
        tree.folder(&path);
        tree.small_file([path.as_slice(), b"/", &name].concat());
    }
}

/// Attributes of every namespace, sizes and kind of inode; ACLs and capabilities.
fn attributes(tree: &mut NastyTree) {
    tree.folder("attributes");
    let pair = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
    tree.small_file("attributes/user").xattrs = vec![
        pair("user.text", b"value"),
        pair("user.empty", b""),
        pair("user.binary", &(0..=255).collect::<Vec<u8>>()),
        pair("user.a.b.c.d", b"\n"),
        pair(&format!("user.{}", "n".repeat(250)), b"the longest name"),
        ("user.\u{e4}\u{202e}".as_bytes().to_vec(), b"utf-8".to_vec()),
        (b"user.\xff\xfe".to_vec(), b"not utf-8".to_vec()),
    ];
    tree.small_file("attributes/trusted").xattrs =
        vec![pair("trusted.note", b"root only"), pair("trusted.overlay.opaque", b"y")];
    tree.small_file("attributes/security").xattrs = vec![pair("security.note", b"a module's")];
    for len in [100usize, 1000, 3000, 16_000, 65_536] {
        let value = tree.random.bytes(len);
        tree.small_file(format!("attributes/value-{len}")).xattrs = vec![pair("user.v", &value)];
    }
    let many = (0..60).map(|n| pair(&format!("user.many-{n:02}"), b"v")).collect();
    tree.small_file("attributes/many").xattrs = many;
    for index in 0..20 {
        tree.small_file(format!("attributes/equal-{index}")).xattrs =
            vec![pair("user.shared", b"the same set in twenty files"), pair("user.two", b"2")];
    }
    tree.folder("attributes/folder").xattrs = vec![pair("user.on-folder", b"1")];
    tree.add("attributes/symlink", Kind::Symlink(b"user".to_vec())).xattrs =
        vec![pair("trusted.on-symlink", b"1")];
    tree.add("attributes/fifo", Kind::Fifo).xattrs = vec![pair("trusted.on-fifo", b"1")];
    let named = [(ACL_USER, 7, 1234), (ACL_GROUP, 5, 4321)];
    tree.small_file("attributes/acl").xattrs =
        vec![("system.posix_acl_access".into(), acl(0o640, &named))];
    tree.folder("attributes/acl-folder").xattrs = vec![
        ("system.posix_acl_access".into(), acl(0o750, &named)),
        ("system.posix_acl_default".into(), acl(0o770, &[(ACL_USER, 6, 99_999)])),
    ];
    // VFS_CAP_REVISION_2 with CAP_NET_RAW permitted and effective: what ping has.
    let capability = [0x0200_0001u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    let item = tree.small_file("attributes/capability");
    (item.mode, item.xattrs) = (0o755, vec![pair("security.capability", &capability)]);
}

const ACL_USER: u16 = 2;
const ACL_GROUP: u16 = 8;

/// A POSIX ACL as Linux keeps it in an attribute: version 2, then tag, permission, id.
fn acl(mode: u16, named: &[(u16, u16, u32)]) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut entries = vec![(1, mode >> 6 & 7, NOBODY), (4, mode >> 3 & 7, NOBODY)];
    entries.extend_from_slice(named);
    entries.extend([(0x10, 7, NOBODY), (0x20, mode & 7, NOBODY)]);
    entries.sort_by_key(|(tag, _, id)| (*tag, *id));
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permission, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permission.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Devices of small and large numbers, pipes, sockets.
fn special(tree: &mut NastyTree) {
    tree.folder("special");
    tree.add("special/null", Kind::Char(1, 3)).mode = 0o666;
    tree.add("special/char-large", Kind::Char(4095, 1_048_575));
    tree.add("special/char-minor-257", Kind::Char(10, 257));
    tree.add("special/block", Kind::Block(8, 1)).mode = 0o660;
    tree.add("special/block-large", Kind::Block(259, 65_537)).owner = Some((0, 6));
    tree.add("special/whiteout", Kind::Char(0, 0)).mode = 0;
    tree.add("special/fifo", Kind::Fifo).mode = 0o622;
    tree.add("special/socket", Kind::Socket).mode = 0o777;
}

/// Empty folders, one large folder, deep folders, paths that no single call can name.
fn folders(tree: &mut NastyTree, options: Options) {
    tree.folder("folders");
    for index in 0..5 {
        tree.folder(format!("folders/empty-{index}"));
    }
    tree.folder("folders/large");
    for index in 0..options.large_directory {
        // Names that share beginnings and names that do not.
        let name = if index % 2 == 0 {
            format!("folders/large/record-{index:08}.dat")
        } else {
            format!("folders/large/{:016x}", tree.random.number())
        };
        if index % 50 == 0 {
            tree.folder(name)
        } else {
            tree.file(name, Data::Zero(0))
        };
    }
    let mut deep = String::from("folders/deep");
    tree.folder(&deep);
    for _ in 0..200 {
        deep.push_str("/d");
        tree.folder(&deep);
    }
    tree.small_file(format!("{deep}/bottom"));
    if options.beyond_path_max {
        let mut long = String::from("folders/long");
        tree.folder(&long);
        for level in 0..20 {
            long.push_str(&format!("/{}", char::from(b'a' + level).to_string().repeat(250)));
            tree.folder(&long);
        }
        tree.small_file(format!("{long}/bottom"));
        tree.add(format!("{long}/link"), Kind::Symlink(b"bottom".to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::make;
    use std::collections::HashSet;

    #[test]
    fn paths_are_unique_and_seeds_decide() {
        let items = tree(Options::everything(1));
        let paths: HashSet<&[u8]> = items.iter().map(|item| item.path.as_slice()).collect();
        assert_eq!(paths.len(), items.len());
        assert_eq!(items, tree(Options::everything(1)));
        assert_ne!(items, tree(Options::everything(2)));
    }

    #[test]
    fn two_orders_make_one_tree_and_the_oracle_sees_a_change() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut options = Options::for_other_programs(3);
        options.large_directory = 100;
        let items = tree(options);
        let made = make(&items, a.path(), 1).unwrap();
        make(&items, b.path(), 2).unwrap();
        for line in &made.left_out {
            println!("left out: {line}");
        }
        let (first, second) = (Manifest::of(a.path()).unwrap(), Manifest::of(b.path()).unwrap());
        first.assert_equals(&second, "two orders");
        assert!(first.records.len() + made.left_out.len() >= items.len());
        let changed = b.path().join("contents/small-007");
        let mut bytes = std::fs::read(&changed).unwrap();
        bytes.push(b'!');
        std::fs::write(&changed, bytes).unwrap();
        let lines = first.differences(&Manifest::of(b.path()).unwrap());
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
}
