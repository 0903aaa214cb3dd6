//! Promise: what is not as the source was does not become an image. The report of a build is
//! changed, or the image is, and the verification must see it; and a build that fails it leaves no
//! file.

use std::path::Path;
use std::sync::Arc;

use shale::read::{ByteSource, MemorySource};
use shale::source::{DirectorySource, ScanOptions};
use shale::write::{NoProgress as NoBuildProgress, Options, Report};
use shale::{Cancel, CreateOptions, Error, NoProgress, Output, Phase, Progress, create, verify};

fn source() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    for n in 0..50 {
        let text = format!("file {n}\n").repeat(n * 40);
        std::fs::write(folder.path().join(format!("d/{n}")), text).unwrap();
    }
    std::fs::hard_link(folder.path().join("d/7"), folder.path().join("linked")).unwrap();
    std::os::unix::fs::symlink("d/7", folder.path().join("symlink")).unwrap();
    folder
}

fn build(source: &Path) -> (Vec<u8>, Report) {
    let mut tree =
        DirectorySource::open(source, &ScanOptions::default(), &NoBuildProgress).unwrap();
    let mut image = Vec::new();
    let report =
        shale::write::create(&mut tree, &mut image, &Options::default(), &NoBuildProgress).unwrap();
    (image, report)
}

fn judge(image: &[u8], report: &Report, threads: usize) -> Result<shale::VerifyReport, Error> {
    let source: Arc<dyn ByteSource> = Arc::new(MemorySource::new(image.to_vec()));
    let options = Options { threads, ..Options::default() };
    verify(source, report, &options, &Cancel::new(), &NoProgress)
}

#[test]
fn a_good_image_is_compared_whole() {
    let folder = source();
    let (image, report) = build(folder.path());
    for threads in [1, 4] {
        let verified = judge(&image, &report, threads).unwrap();
        assert_eq!(verified.contents, report.contents);
        // The root, d, fifty files, the link and the symlink.
        assert_eq!(verified.entries, 54);
        assert_eq!(verified.content_bytes, report.file_bytes);
        assert_eq!(verified.frames_decoded, report.frames);
    }
}

#[test]
fn every_difference_is_seen() {
    let folder = source();
    let (image, report) = build(folder.path());
    // The digest of the tree is made from those of the contents, so either may be named first.
    type Change = (&'static str, fn(&mut Report));
    let changes: [Change; 5] = [
        ("not what the source", |report| report.content_digests[3].0[31] ^= 1),
        ("not what the source", |report| report.content_digests.swap(5, 6)),
        ("contents", |report| _ = report.content_digests.pop()),
        ("links", |report| report.tree_digest.entry_count += 1),
        ("bytes", |report| report.image_bytes += 1),
    ];
    for (word, change) in changes {
        let mut other = report.clone();
        change(&mut other);
        let Err(Error::Verify { what }) = judge(&image, &other, 2) else {
            panic!("a change of the {word} is not seen");
        };
        assert!(what.contains(word), "{what}");
    }
    // The same bytes under another name, mode or time are another tree.
    for change in ["name", "mode", "time", "link"] {
        let folder = source();
        let file = folder.path().join("d/9");
        match change {
            "name" => std::fs::rename(&file, folder.path().join("d/x")).unwrap(),
            "mode" => {
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
                std::fs::set_permissions(&file, mode).unwrap();
            }
            "time" => {
                let times = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
                std::fs::File::options().write(true).open(&file).unwrap().set_times(times).unwrap();
            }
            _ => {
                let linked = folder.path().join("linked");
                std::fs::remove_file(&linked).unwrap();
                std::fs::copy(folder.path().join("d/7"), &linked).unwrap();
            }
        }
        let (_, other) = build(folder.path());
        let mixed = Report { tree_digest: other.tree_digest, ..report.clone() };
        assert!(judge(&image, &mixed, 2).is_err(), "another {change} is not seen");
    }
}

#[test]
fn every_damaged_byte_that_can_be_read_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "some text ".repeat(30)).unwrap();
    std::fs::write(folder.path().join("b"), [7; 100]).unwrap();
    let (image, report) = build(folder.path());
    let checked = shale::check(
        Arc::new(MemorySource::new(image.clone())),
        &shale::CheckOptions::default(),
        &NoProgress,
    );
    assert!(checked.unwrap().is_clean());
    let mut unseen = Vec::new();
    for at in 0..image.len() {
        let mut damaged = image.clone();
        damaged[at] ^= 0x20;
        if judge(&damaged, &report, 1).is_ok() {
            unseen.push(at);
        }
    }
    // The reader needs no sum of a section's payload where it compares those of pages and frames,
    // nor the headers of sections it is led past; `check` does (see the damage tests).
    assert!(unseen.len() < image.len() / 2, "{} of {} bytes", unseen.len(), image.len());
    for at in unseen {
        let mut damaged = image.clone();
        damaged[at] ^= 0x20;
        let source = Arc::new(MemorySource::new(damaged));
        let report = shale::check(source, &shale::CheckOptions::default(), &NoProgress).unwrap();
        assert!(!report.is_clean(), "byte {at} is seen by nobody");
    }
}

/// Cancels when a phase begins.
struct CancelAt(Phase, Cancel);

impl Progress for CancelAt {
    fn phase(&self, phase: Phase) {
        if phase == self.0 {
            self.1.cancel();
        }
    }
}

#[test]
fn a_build_that_is_cancelled_in_any_phase_leaves_nothing() {
    let folder = source();
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("image.shale");
    for phase in [Phase::Scan, Phase::Read, Phase::Tables, Phase::Sync, Phase::Verify] {
        let options = CreateOptions::default();
        let progress = CancelAt(phase, options.cancel.clone());
        let result =
            create(&[folder.path().into()], Output::Path(path.clone()), &options, &progress);
        let error = result.expect_err("it was cancelled");
        assert!(error.kind() == shale::ErrorKind::Cancelled, "{phase:?}: {error}");
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "{phase:?}");
    }
    let options = CreateOptions::default();
    let report =
        create(&[folder.path().into()], Output::Path(path.clone()), &options, &NoProgress).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), report.build.image_bytes);
    assert_eq!(report.verified.unwrap().contents, report.build.contents);
}

#[test]
fn large_contents_are_hashed_by_many_threads_alike() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::with_capacity(70 << 20);
    let mut state = 1u32;
    while bytes.len() < 70 << 20 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes.extend_from_slice(&state.to_le_bytes());
        // Every third MiB is zeroes.
        if bytes.len() >> 20 & 3 == 3 {
            bytes.resize(bytes.len() + (1 << 20), 0);
        }
    }
    std::fs::write(folder.path().join("large"), &bytes).unwrap();
    let mut tree =
        DirectorySource::open(folder.path(), &ScanOptions::default(), &NoBuildProgress).unwrap();
    let mut image = Vec::new();
    let options = Options { level: 0, ..Options::default() };
    let mut report =
        shale::write::create(&mut tree, &mut image, &options, &NoBuildProgress).unwrap();
    for threads in [1, 2, 5] {
        judge(&image, &report, threads).unwrap();
    }
    report.content_digests[1].0[0] ^= 1;
    assert!(judge(&image, &report, 5).is_err());
}
