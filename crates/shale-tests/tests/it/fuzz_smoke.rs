//! The bodies of the fuzz targets on stable, over seeds and seeded mutations of them: a fuzzer's
//! first minute, the same on every machine. `SHALE_FUZZ_TIMES` makes it as many times longer.

use shale_tests::command::create;
use shale_tests::fuzz;
use shale_tests::importers;
use shale_tests::model::make;
use shale_tests::nasty::tiny_tree;
use shale_tests::places;
use shale_tests::random::Random;
use shale_tests::seeds;

/// Changes some bytes, as fuzzers do: bits, bytes, numbers, cuts, copies.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            bytes.extend(random.bytes(16));
        }
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.number() as u8,
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            3 => bytes.truncate(at),
            4 => bytes.insert(at, random.number() as u8),
            5 => {
                let end = (at + 8).min(bytes.len());
                let value = [0, u64::MAX, 1 << 63, 1 << 32, 65_536][random.below(5) as usize];
                bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            _ => {
                let len = (random.below(32) as usize).min(bytes.len() - at);
                let copy = bytes[at..at + len].to_vec();
                let to = random.below((bytes.len() - len) as u64 + 1) as usize;
                bytes[to..to + len].copy_from_slice(&copy);
            }
        }
    }
}

fn run(seeds: &[Vec<u8>], rounds: u64, body: impl Fn(&[u8])) {
    let mut random = Random::new(42);
    let times = std::env::var("SHALE_FUZZ_TIMES").ok();
    let rounds = rounds * times.map_or(1, |times| times.parse::<u64>().expect("it is a number"));
    for seed in seeds {
        body(seed);
    }
    for _ in 0..rounds {
        let mut bytes = seeds[random.below(seeds.len() as u64) as usize].clone();
        mutate(&mut bytes, &mut random);
        body(&bytes);
    }
}

fn image(seed: u64) -> Vec<u8> {
    let folder = places::disk();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    make(&tiny_tree(seed), &source, seed).unwrap();
    let path = folder.path().join("small.shale");
    create(&source, &path, &[]);
    std::fs::read(path).unwrap()
}

#[test]
fn open_and_walk() {
    let seeds = [image(1), image(2)];
    run(&seeds, 4000, fuzz::open_and_walk);
}

#[test]
fn table_page() {
    // Pages as a builder makes them, after the byte that chooses their schema.
    let mut seeds = seeds::pages();
    assert!(seeds.len() >= 7, "{} seeds", seeds.len());
    seeds.push(vec![0]);
    run(&seeds, 60_000, fuzz::table_page);
}

#[test]
fn page_patch() {
    let seeds = seeds::patches();
    assert!(seeds.len() >= 30, "{} seeds", seeds.len());
    run(&seeds, 30_000, fuzz::page_patch);
}

#[test]
fn frame_decode() {
    let seeds = seeds::frames();
    assert!(seeds.len() >= 10, "{} seeds", seeds.len());
    run(&seeds, 20_000, fuzz::frame_decode);
}

#[test]
fn manifest_lines_survive_mutation() {
    run(&seeds::manifests(), 20_000, fuzz::manifest_lines);
}

#[test]
fn containers_are_taken_apart_and_read_back() {
    let seeds = seeds::containers();
    assert!(seeds.len() >= 9, "{} seeds", seeds.len());
    run(&seeds, 800, fuzz::take_apart);
}

#[test]
fn deflate_streams_survive_mutation() {
    run(&seeds::deflate_streams(), 6000, fuzz::deflate_stream);
}

#[test]
fn chunks_are_rebuilt_alike_by_two_readers() {
    let seeds = seeds::chunks();
    assert!(seeds.len() >= 7, "{} seeds", seeds.len());
    run(&seeds, 3000, fuzz::chunk_rebuild);
}

/// A golden image.
fn golden(name: &str) -> Vec<u8> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/images");
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn identity() {
    run(&[golden("0.3-tiny.shale"), golden("0.1-tiny.shale")], 1500, fuzz::identity);
}

#[test]
fn parity() {
    // Half of a golden image with parity is zero bytes; the heads are what a search wants to hit.
    run(&[golden("0.2-parity.shale")], 1500, fuzz::parity);
}

#[test]
fn thin() {
    run(&fuzz::thin_seeds(), 3000, fuzz::thin);
}

#[test]
fn signature() {
    run(&seeds::signatures(), 3000, fuzz::signature);
}

#[test]
fn check_image() {
    run(&[golden("0.2-tiny.shale"), golden("0.1-tiny.shale")], 2500, fuzz::check_image);
}

#[test]
fn build_then_read() {
    run(&seeds::trees(), 250, fuzz::build_then_read);
}

#[test]
fn append_index() {
    run(&seeds::append_indexes(), 120, fuzz::append_index);
}

#[test]
fn damage_then_read() {
    run(&seeds::damages(), 1500, fuzz::damage_then_read);
}

#[test]
fn merge_images() {
    let pair = |first: &[u8], second: &[u8]| {
        let len = (first.len() as u32).to_le_bytes();
        [&len[..], first, second].concat()
    };
    let (one, other) = (golden("0.3-tiny.shale"), golden("0.1-tiny.shale"));
    let seeds = [pair(&one, &other), pair(&image(1), &one), pair(&image(2), &image(1))];
    run(&seeds, 300, fuzz::merge_images);
}

#[test]
fn importers_survive_mutation() {
    assert_importers_survive(1);
}

/// Gives mutated archives to each importer, this many times a few hundred to two thousand.
pub fn assert_importers_survive(times: u64) {
    run(&importers::tars(), 2_000 * times, importers::tar);
    run(&importers::cpios(), 2_000 * times, importers::cpio);
    run(&importers::packages(), 2_000 * times, importers::any);
    run(&importers::images(), 700 * times, importers::any);
    run(&importers::zips(), 2_000 * times, importers::zip);
    run(&importers::squashfses(), 2_000 * times, importers::squashfs);
    let dwarfs = importers::dwarfses();
    assert!(dwarfs.len() >= 3, "{} seeds", dwarfs.len());
    run(&dwarfs, 200 * times, importers::dwarfs);
}

/// A body by the name of its target.
fn body(target: &str) -> fn(&[u8]) {
    match target {
        "open_and_walk" => fuzz::open_and_walk,
        "table_page" => fuzz::table_page,
        "page_patch" => fuzz::page_patch,
        "frame_decode" => fuzz::frame_decode,
        "manifest_lines" => fuzz::manifest_lines,
        "take_apart" => fuzz::take_apart,
        "deflate_stream" => fuzz::deflate_stream,
        "chunk_rebuild" => fuzz::chunk_rebuild,
        "identity" => fuzz::identity,
        "parity" => fuzz::parity,
        "signature" => fuzz::signature,
        "thin" => fuzz::thin,
        "check_image" => fuzz::check_image,
        "append_index" => fuzz::append_index,
        "build_then_read" => fuzz::build_then_read,
        "merge_images" => fuzz::merge_images,
        "damage_then_read" => fuzz::damage_then_read,
        "import_tar" => importers::tar,
        "import_cpio" => importers::cpio,
        "import_any" => importers::any,
        "import_zip" => importers::zip,
        "import_squashfs" => importers::squashfs,
        "import_dwarfs" => importers::dwarfs,
        other => panic!("testdata/broken/{other} is named like no target"),
    }
}

#[test]
fn what_broke_once_stays_whole() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/broken");
    let mut count = 0;
    for target in std::fs::read_dir(folder).unwrap() {
        let target = target.unwrap();
        let body = body(target.file_name().to_str().unwrap());
        for input in std::fs::read_dir(target.path()).unwrap() {
            let path = input.unwrap().path();
            println!("{}", path.display());
            body(&std::fs::read(&path).unwrap());
            count += 1;
        }
    }
    assert!(count > 0);
}
