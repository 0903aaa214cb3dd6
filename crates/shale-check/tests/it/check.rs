//! Promise: check says what is wrong, where, which files it touches, whether it can be repaired and
//! what to do next; parts of a check together see everything.

use shale::read::{ByteSource, FileSource, MemorySource, OffsetChoice};
use shale::{
    Advice, CheckError as Error, CheckLevel, CheckOptions, CheckReport, CreateOptions, NoProgress,
    Output, ParityState, Remedy, RepairOptions, Subset, check, create, repair,
};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Bytes that do not compress.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// An image of a few MiB: noise, text, links, and a large directory.
fn image(parity_ppm: u32) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("source");
    fs::create_dir_all(source.join("many")).unwrap();
    fs::create_dir_all(source.join("deep/er")).unwrap();
    for number in 0..3000 {
        fs::write(source.join(format!("many/file-{number:05}")), format!("{number}")).unwrap();
    }
    for number in 0..12 {
        fs::write(source.join(format!("deep/noise-{number}")), noise(MIB / 4, number)).unwrap();
    }
    std::os::unix::fs::symlink("../many", source.join("deep/er/link")).unwrap();
    let path = place.path().join("image");
    let options = CreateOptions::default().parity_ppm(parity_ppm);
    create(&[source.as_path().into()], Output::Path(path.clone()), &options, &NoProgress).unwrap();
    fs::read(path).unwrap()
}

fn run(bytes: &[u8], options: &CheckOptions) -> CheckReport {
    check(Arc::new(MemorySource::new(bytes)), options, &NoProgress).unwrap()
}

fn at(level: CheckLevel) -> CheckOptions {
    CheckOptions::default().level(level)
}

/// Type and payload of each section.
fn sections(bytes: &[u8]) -> Vec<(u8, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 64;
    while at < bytes.len() {
        let len = u64::from_le_bytes(*bytes[at + 24..].first_chunk().unwrap()) as usize;
        found.push((bytes[at + 8], at + 64..at + 64 + len));
        at += len + 64;
    }
    found
}

/// The payload of the section of pages.
fn pages(bytes: &[u8]) -> std::ops::Range<usize> {
    sections(bytes).into_iter().find(|(kind, _)| *kind == 2).unwrap().1
}

/// Where some bytes are in others.
fn find(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).position(|window| window == wanted).unwrap()
}

#[test]
fn each_level_looks_at_more_and_costs_more() {
    let bytes = image(50_000);
    let reports: Vec<CheckReport> =
        CheckLevel::ALL.iter().map(|level| run(&bytes, &at(*level))).collect();
    for report in &reports {
        assert!(report.is_clean() && report.is_complete(), "{:?}", report.problems);
        assert!(report.advice().is_empty() && report.identity.is_some());
        assert_eq!(report.parity, ParityState::NotSought);
    }
    let [structure, tables, frames, content] = &reports[..] else { panic!("four levels") };
    assert_eq!((structure.checked.rows, structure.checked.leaves), (0, 0));
    assert!(tables.checked.rows > 6000 && tables.checked.frames == 0);
    assert!(frames.checked.frames > 0 && frames.checked.leaves > 48);
    assert_eq!(frames.checked.frames_decoded, 0);
    assert_eq!(content.checked.frames_decoded, content.checked.frames);
    assert_eq!(content.checked.leaves, frames.checked.leaves);
    // What each level finds: bytes of a frame, of a page, of a structure.
    let frame = find(&bytes, &noise(64, 5));
    let parts = sections(&bytes);
    let kind = |wanted: u8| parts.iter().find(|(kind, _)| *kind == wanted).unwrap().1.clone();
    for (place, finds) in [
        (frame, [false, false, true, true]),
        (kind(2).start + 40, [false, true, true, true]),
        (kind(3).start + 9, [true; 4]),
    ] {
        let mut damaged = bytes.clone();
        damaged[place] ^= 4;
        let found = CheckLevel::ALL.map(|level| !run(&damaged, &at(level)).is_clean());
        assert_eq!(found, finds, "byte {place}");
    }
}

#[test]
fn parts_together_see_everything_and_each_leaf_and_frame_once() {
    let bytes = image(0);
    let whole = run(&bytes, &CheckOptions::default());
    let mut places: Vec<usize> =
        sections(&bytes).iter().map(|(_, range)| range.start + 5).collect();
    places.extend((0..20).map(|step| 64 + step * (bytes.len() - 200) / 20));
    for of in [2, 7] {
        let parts: Vec<CheckOptions> = (1..=of)
            .map(|part| CheckOptions::default().subset(Subset::new(part, of).unwrap()))
            .collect();
        let reports: Vec<CheckReport> = parts.iter().map(|part| run(&bytes, part)).collect();
        let sum = |count: fn(&CheckReport) -> u64| reports.iter().map(count).sum::<u64>();
        assert_eq!(sum(|report| report.checked.frames), whole.checked.frames);
        assert_eq!(sum(|report| report.checked.leaves), whole.checked.leaves);
        for &place in &places {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x40;
            let finds = parts.iter().filter(|part| !run(&damaged, part).is_clean()).count();
            assert!(finds >= 1, "byte {place} is in no part of {of}");
        }
    }
}

#[test]
fn without_time_nothing_is_begun_and_that_is_said() {
    let bytes = image(0);
    let whole = run(&bytes, &CheckOptions::default());
    let none = CheckOptions::default().time_max(Some(Duration::ZERO));
    let report = run(&bytes, &none);
    assert!(report.is_clean() && !report.is_complete());
    assert_eq!(report.left.frames, whole.checked.frames);
    assert_eq!(report.left.leaves, whole.checked.leaves);
    assert_eq!((report.checked.frames, report.checked.leaves), (0, 0));
    assert_eq!(report.checked.rows, whole.checked.rows, "metadata is always checked whole");
    let enough = CheckOptions::default().time_max(Some(Duration::from_secs(3600)));
    assert_eq!(run(&bytes, &enough).checked, whole.checked);
}

#[test]
fn a_damaged_frame_names_its_files_and_whether_parity_helps() {
    for (parity, remedy, advice) in [
        (50_000, Remedy::Parity, vec![Advice::Repair]),
        (0, Remedy::NoParity, vec![Advice::GetAnotherCopy, Advice::ExtractContinue]),
    ] {
        let mut bytes = image(parity);
        let place = find(&bytes, &noise(64, 5));
        bytes[place] ^= 1;
        for level in [CheckLevel::Frames, CheckLevel::Content] {
            let report = run(&bytes, &at(level));
            assert_eq!(report.advice(), advice);
            let frame =
                report.problems.iter().find(|problem| problem.place.starts_with("frame")).unwrap();
            assert!(frame.touches.paths.contains(&b"deep/noise-5".to_vec()), "{frame:?}");
            assert_eq!(frame.touches.path_count, frame.touches.paths.len() as u64);
            let (from, len) = (frame.offset.unwrap(), frame.len.unwrap());
            assert!((from..from + len).contains(&(place as u64)));
            for problem in &report.problems {
                assert_eq!(problem.remedy, remedy, "{problem}");
            }
            assert!(report.damaged_paths.iter().any(|path| path.path == b"deep/noise-5"));
        }
    }
}

#[test]
fn a_damaged_section_header_hits_no_file_and_is_all_that_is_wrong() {
    for parity in [50_000, 0] {
        let whole = image(parity);
        let sections = sections(&whole);
        // Without the last trailer nothing is found at all.
        for (kind, payload) in &sections[..sections.len() - 1] {
            let mut bytes = whole.clone();
            bytes[payload.start - 40..payload.start - 36].fill(0xaa);
            let report = run(&bytes, &CheckOptions::default());
            let what = format!("parity {parity}, section of type {kind}: {:#?}", report.problems);
            assert!(!report.is_clean(), "{what}");
            assert_eq!(report.damaged_path_count, 0, "{what}");
            assert_eq!(report.damaged_frame_count, 0, "{what}");
            assert!(report.checked.frames > 0, "{what}");
            let remedy = if parity > 0 { Remedy::Parity } else { Remedy::NoParity };
            for problem in &report.problems {
                assert_eq!(problem.touches, shale::Touches::default(), "{problem}: {what}");
                assert_eq!(problem.remedy, remedy, "{problem}: {what}");
            }
            let header =
                format!("section {}", sections.iter().position(|s| s.1 == *payload).unwrap());
            assert_eq!(report.problems[0].place, header, "{what}");
            let first = if parity > 0 { Advice::Repair } else { Advice::GetAnotherCopy };
            assert_eq!(report.advice()[0], first, "{what}");
            assert!(!report.advice().contains(&Advice::Salvage), "{what}");
        }
        // Frames of a section whose header is damaged are still checked.
        let place = find(&whole, &noise(64, 5));
        let of_frames = sections.iter().rfind(|(_, payload)| payload.start <= place).unwrap();
        let mut bytes = whole.clone();
        bytes[of_frames.1.start - 40] ^= 1;
        bytes[place] ^= 1;
        let report = run(&bytes, &CheckOptions::default());
        let paths: Vec<&[u8]> = report.damaged_paths.iter().map(|path| &path.path[..]).collect();
        assert!(paths.contains(&&b"deep/noise-5"[..]) && paths.len() <= 2, "{paths:?}");
    }
}

#[test]
fn whatever_parity_restores_is_said_to_be_restored_and_nothing_was_so_before() {
    let whole = image(50_000);
    let metadata = pages(&whole).start;
    // Half of the places in metadata, as most depends on them.
    let near = (metadata..whole.len()).step_by((whole.len() - metadata) / 24);
    let far = (0..metadata).step_by(metadata / 24);
    for (number, place) in near.chain(far).enumerate() {
        let mut bytes = whole.clone();
        let len = if number % 2 == 0 { 1 } else { 20_000 };
        bytes[place..].iter_mut().take(len).for_each(|byte| *byte ^= 0x10);
        let report = run(&bytes, &CheckOptions::default());
        let what = format!("{len} bytes at {place}: {:#?}", report.problems);
        assert!(!report.is_clean(), "{what}");
        assert!(report.problems.iter().all(|p| p.remedy == Remedy::Parity), "{what}");
        assert_eq!(report.advice(), [Advice::Repair], "{what}");
    }
}

#[test]
fn parity_that_is_shifted_is_damage_even_if_the_image_is_whole() {
    let whole = image(200_000);
    let plain_len = image(0).len();
    for step in 0..40 {
        let at = plain_len + 1 + step * (whole.len() - plain_len - 2) / 40;
        let len = [1, 7, 512, 4096][step % 4].min(whole.len() - at);
        let cut = [&whole[..at], &whole[at + len..]].concat();
        let grown = [&whole[..at], &vec![0; len], &whole[at..]].concat();
        for (what, bytes) in [("cut out", cut), ("inserted", grown)] {
            let report = run(&bytes, &CheckOptions::default());
            assert!(!report.is_clean(), "{len} bytes {what} at {at} of {plain_len}");
        }
    }
}

#[test]
fn what_is_more_than_parity_can_restore_is_told_apart() {
    let mut bytes = image(50_000);
    let report = run(&bytes, &CheckOptions::default());
    // A byte in each leaf of the noise is more than 18 leaves of one group.
    let first = find(&bytes, &noise(64, 0)) / (64 << 10);
    for leaf in first..first + 40 {
        bytes[leaf * (64 << 10) + 99] ^= 8;
    }
    let damaged = run(&bytes, &CheckOptions::default());
    assert!(report.is_clean() && !damaged.is_clean());
    let ParityState::Found { damaged_leaves, lost_leaves, .. } = damaged.parity else {
        panic!("{:?}", damaged.parity)
    };
    assert_eq!(damaged_leaves, 40);
    assert!(lost_leaves > 20, "{lost_leaves}");
    assert!(damaged.problems.iter().any(|problem| problem.remedy == Remedy::BeyondParity));
    assert_eq!(damaged.advice()[0], Advice::GetAnotherCopy);
    assert!(damaged.advice().contains(&Advice::ExtractContinue));
}

#[test]
fn damaged_pages_name_what_their_rows_are_for() {
    let bytes = image(0);
    let pages = pages(&bytes);
    let mut touched = 0;
    // A byte in every few pages; whatever a page holds, somebody is named or nobody is hit.
    for at_byte in (pages.start..pages.end).step_by((pages.len() / 60).max(1)) {
        let mut damaged = bytes.clone();
        damaged[at_byte] ^= 2;
        let report = run(&damaged, &at(CheckLevel::Tables));
        assert!(!report.is_clean(), "byte {at_byte}");
        let problem = report.problems.iter().find(|p| p.place.starts_with("table")).unwrap();
        touched += usize::from(problem.touches.path_count > 0 || problem.touches.everything);
        if problem.place == "table entries" {
            // The names of the root's own entries are in it.
            assert!(problem.touches.paths.contains(&Vec::new()), "{problem}");
        }
        if problem.place == "table symlinks" {
            assert_eq!(problem.touches.paths, [b"deep/er/link".to_vec()], "{problem}");
        }
    }
    assert!(touched > 50, "{touched} of 60");
}

#[test]
fn problems_are_told_in_the_same_order_by_one_thread_and_by_several() {
    let mut damaged = image(0);
    let pages = pages(&damaged);
    for at_byte in pages.clone().step_by(pages.len() / 40) {
        damaged[at_byte] ^= 2;
    }
    let by = |threads| run(&damaged, &at(CheckLevel::Tables).threads(threads));
    let (one, several) = (by(1), by(4));
    assert!(one.problems.len() > 4, "{:?}", one.problems);
    assert_eq!(one.problems, several.problems);
    assert_eq!(one.checked, several.checked);
}

#[test]
fn a_lost_beginning_or_end_is_a_problem_and_not_the_end_of_the_check() {
    for (parity, remedy, advice) in
        [(50_000, Remedy::Parity, Advice::Repair), (0, Remedy::NoParity, Advice::GetAnotherCopy)]
    {
        let bytes = image(parity);
        let mut headless = bytes.clone();
        headless[..64].fill(0);
        let tailless = &bytes[..bytes.len() - 100];
        for (what, bytes, place) in
            [("head", &headless[..], "superblock"), ("tail", tailless, "trailer")]
        {
            let report = run(bytes, &CheckOptions::default());
            let problem = report.problems.iter().find(|problem| problem.place == place);
            let problem = problem.unwrap_or_else(|| panic!("{what}: {:?}", report.problems));
            // Without its end, an image with parity is the one before parity was added.
            assert!(problem.touches.everything || (what, parity) == ("tail", 50_000), "{what}");
            assert_eq!(problem.remedy, remedy, "{what}");
            assert_eq!(report.advice()[0], advice, "{what}");
            assert!(parity > 0 || report.advice().contains(&Advice::Salvage), "{what}");
        }
        // A root that is lost is replaced by the second one, and the rest is checked.
        let root = sections(&bytes).iter().find(|(kind, _)| *kind == 3).unwrap().1.clone();
        let mut rootless = bytes.clone();
        rootless[root].fill(0x55);
        let report = run(&rootless, &CheckOptions::default());
        assert!(report.problems.iter().any(|problem| problem.what.contains("second root")));
        assert!(report.checked.frames > 0);
    }
}

#[test]
fn where_no_root_is_left_only_another_copy_helps() {
    let bytes = image(0);
    let cut = &bytes[..bytes.len() / 2];
    let report = run(cut, &at(CheckLevel::Content));
    assert!(!report.has_root);
    assert_eq!(report.advice(), [Advice::GetAnotherCopy]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.shale");
    fs::write(&path, cut).unwrap();
    let options = RepairOptions::default().salvage(true);
    let error = repair(&path, &folder.path().join("x"), &options, &NoProgress).unwrap_err();
    assert!(matches!(error, Error::Salvage { .. }), "{error}");
}

#[test]
fn another_image_is_not_a_damaged_one() {
    let bytes = image(0);
    let identity = run(&bytes, &CheckOptions::default()).identity.unwrap();
    let mut other = identity;
    other.0[7] ^= 1;
    let options = CheckOptions::default().expect(Some(other));
    let report = run(&bytes, &options);
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(report.problems[0].remedy, Remedy::OtherImage);
    assert_eq!(report.advice(), [Advice::GetExpectedImage]);
}

#[test]
fn what_is_no_image_is_no_damaged_image() {
    for bytes in [vec![], vec![0; 10_000], noise(100_000, 1)] {
        for offset in [OffsetChoice::Auto, OffsetChoice::At(0)] {
            let source = Arc::new(MemorySource::new(bytes.clone()));
            let options = CheckOptions::default().offset(offset);
            let error = check(source, &options, &NoProgress).unwrap_err();
            assert!(matches!(error, Error::NotImage | Error::Read(_)), "{error}");
        }
    }
    let here = FileSource::open(std::path::Path::new(env!("CARGO_MANIFEST_PATH"))).unwrap();
    assert!(check(Arc::new(here), &CheckOptions::default(), &NoProgress).is_err());
}

/// A source that panics where one frame is read.
struct Panicking {
    bytes: Vec<u8>,
    frame: (u64, u64),
}

impl ByteSource for Panicking {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        assert!((offset, buf.len() as u64) != self.frame, "as it was told to");
        MemorySource::new(&self.bytes[..]).read_at(offset, buf)
    }
}

#[test]
fn a_thread_that_panics_while_it_decodes_leaves_nobody_waiting() {
    // Files that share every other KiB, in frames that refer to the first.
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    let shared = noise(MIB / 2, 1);
    for number in 0..24 {
        let mut bytes = shared.clone();
        let own = noise(MIB / 2, 100 + number);
        for (piece, own) in bytes.chunks_mut(1024).zip(own.chunks(1024)).step_by(2) {
            piece.copy_from_slice(own);
        }
        fs::write(source.join(format!("{number:02}")), bytes).unwrap();
    }
    let path = place.path().join("image");
    let options = CreateOptions::default().verify(false);
    create(&[source.as_path().into()], Output::Path(path.clone()), &options, &NoProgress).unwrap();
    let bytes = fs::read(path).unwrap();
    // A frame to which one refers that another thread takes: each takes eight at a time.
    let number = |problem: &shale::CheckProblem| problem.place[6..].parse::<u64>().unwrap();
    let found = (1000..bytes.len()).step_by(200_000).find_map(|place| {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        let problems = run(&damaged, &CheckOptions::default()).problems;
        let of = |what| problems.iter().filter(move |problem| problem.what.starts_with(what));
        let frame = of("stored bytes are damaged").next()?;
        let next = (number(frame) / 8 + 1) * 8;
        let is_far = of("it refers to").any(|problem| number(problem) >= next);
        is_far.then(|| (frame.offset.unwrap(), frame.len.unwrap()))
    });
    let frame = found.expect("a frame that others refer to");

    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let source = Arc::new(Panicking { bytes, frame });
        let options = CheckOptions::default().threads(2);
        let check = || check(source, &options, &NoProgress).is_ok();
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        ended.send(panic.is_err()).unwrap();
    });
    // Long, as only what never ends is wrong.
    assert_eq!(end.recv_timeout(Duration::from_secs(120)), Ok(true), "the others wait");
}
