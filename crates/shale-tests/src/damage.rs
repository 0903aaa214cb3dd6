//! Damage by chance, and the rule that every answer of a damaged image has to keep: it is one of
//! those of the whole image, or an error.

use crate::random::Random;
use crate::walk::{Facts, facts, small_options};
use shale::{CheckOptions, NoProgress, check};
use shale_read::MemorySource;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Longest piece that is damaged at once.
const PIECE_LEN_MAX: u64 = 64 << 10;

/// What is done to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One to eight bits flip, in a few bytes.
    Flip,
    /// A piece becomes zero.
    Zero,
    /// Two pieces change places.
    Swap,
    /// The end is cut off.
    Truncate,
    /// A piece is written over another place as well.
    Duplicate,
    /// A piece is what another image has there, as if a write had been lost.
    Stale,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] =
        [Kind::Flip, Kind::Zero, Kind::Swap, Kind::Truncate, Kind::Duplicate, Kind::Stale];
}

/// Damages `bytes` once: `older` is what stale pieces come from. Half of all places are among the
/// last `dense` bytes, where small structures lie close together. Says what was done.
pub fn damage(
    bytes: &mut Vec<u8>,
    older: &[u8],
    dense: usize,
    kind: Kind,
    random: &mut Random,
) -> String {
    let len = bytes.len();
    let place = |random: &mut Random| {
        let from = if random.below(2) == 0 { 0 } else { len.saturating_sub(dense) };
        from + random.below((len - from) as u64) as usize
    };
    let at = place(random);
    // Short pieces as often as long ones; some are whole sectors, as disks lose them.
    let mut piece = (random.below(PIECE_LEN_MAX) >> random.below(16)) as usize + 1;
    let mut from = at;
    if random.below(3) == 0 {
        (from, piece) = (at / 512 * 512, piece.next_multiple_of(512));
    }
    let piece = piece.min(len - from);
    match kind {
        Kind::Flip => {
            for _ in 0..=random.below(8) {
                let place = (from + random.below(piece as u64) as usize).min(len - 1);
                bytes[place] ^= 1 << random.below(8);
            }
        }
        Kind::Zero => bytes[from..from + piece].fill(0),
        Kind::Swap => {
            let other = place(random).min(len - piece);
            if from.abs_diff(other) >= piece {
                let copy = bytes[other..other + piece].to_vec();
                bytes.copy_within(from..from + piece, other);
                bytes[from..from + piece].copy_from_slice(&copy);
            }
        }
        Kind::Truncate => bytes.truncate(at),
        Kind::Duplicate => {
            let other = place(random).min(len - piece);
            bytes.copy_within(from..from + piece, other);
        }
        Kind::Stale => {
            let end = (from + piece).min(older.len());
            if let Some(stale) = older.get(from..end) {
                bytes[from..end].copy_from_slice(stale);
            }
        }
    }
    format!("{kind:?} of {piece} bytes at {from} of {len}")
}

/// What the whole image says.
pub fn truth(bytes: &[u8]) -> Facts {
    let truth = facts(Arc::new(MemorySource::new(bytes)), small_options()).unwrap();
    assert_eq!(truth.errors, [""; 0]);
    truth
}

/// What became of a damaged image that did nothing wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// It opened.
    pub opened: bool,
    /// The first error, if not everything could be read.
    pub error: Option<String>,
}

/// Judges the answers of the read paths and of check for a damaged image. Returns whether the
/// image opened.
///
/// # Errors
///
/// The first wrong or invented answer, or damage that check does not see.
pub fn judge(damaged: Vec<u8>, truth: &Facts) -> Result<bool, String> {
    judge_more(damaged, truth).map(|judged| judged.opened)
}

/// Judges like [`judge`], and also returns what could not be read.
///
/// # Errors
///
/// As [`judge`].
pub fn judge_more(damaged: Vec<u8>, truth: &Facts) -> Result<Judged, String> {
    let source = Arc::new(MemorySource::new(damaged));
    let judged = match facts(source.clone(), small_options()) {
        Ok(facts) => {
            facts.judge(truth)?;
            Judged { opened: true, error: facts.errors.into_iter().next() }
        }
        Err(error) => Judged { opened: false, error: Some(error.to_string()) },
    };
    match check(source, &CheckOptions::default().threads(1), &NoProgress) {
        // Whatever follows a whole image is other data.
        Ok(report) if report.is_clean() && report.bytes_behind == 0 => {
            Err("check finds nothing".to_owned())
        }
        _ => Ok(judged),
    }
}

/// Runs `case` for 0..count on two threads and panics with all that fail. Returns how many images
/// opened: where none does, nothing behind the door was tested.
pub fn matrix(count: usize, case: impl Fn(usize) -> Result<bool, String> + Sync) -> usize {
    let (next, opened) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        let mut failed = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return failed;
            }
            match case(index) {
                Ok(open) => _ = opened.fetch_add(usize::from(open), Ordering::Relaxed),
                Err(what) => failed.push(format!("{index}: {what}")),
            }
        }
    };
    let failed = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut failed = work();
        failed.extend(other.join().expect("no case panics"));
        failed
    });
    let shown = &failed[..failed.len().min(20)];
    assert!(failed.is_empty(), "{} of {count} cases\n{}", failed.len(), shown.join("\n"));
    opened.into_inner()
}
