//! What a check found, and what to do next.

use serde::Serialize;
use shale_format::Identity;

use super::findings::{Problem, Remedy};
use super::level::CheckLevel;

/// A file with bytes that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedPath {
    /// Name of the snapshot.
    pub snapshot: Vec<u8>,
    /// Path from the root of the snapshot, without a leading slash.
    pub path: Vec<u8>,
    /// Bytes of the file that cannot be read.
    pub damaged_bytes: u64,
    /// Offset in the file of the first of these bytes.
    pub first_offset: u64,
}

/// How much was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// Complete sections found.
    pub sections: u64,
    /// Table pages read and decoded.
    pub pages: u64,
    /// Rows of all tables.
    pub rows: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Directory entries of all snapshots.
    pub entries: u64,
    /// Inodes of all snapshots.
    pub inodes: u64,
    /// Leaves of 64 KiB compared with their hash.
    pub leaves: u64,
    /// Frames whose stored sum, at least, was checked.
    pub frames: u64,
    /// Stored bytes of these frames.
    pub stored_bytes: u64,
    /// Plain bytes of frames decoded and compared with their sum.
    pub plain_bytes: u64,
    /// Frames decoded, repeated decodes included.
    pub frames_decoded: u64,
    /// Chunks of compressed streams that were rebuilt.
    pub chunks: u64,
}

/// What was not checked because the time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Left {
    /// Sections whose sum was not compared.
    pub sections: u64,
    /// Leaves that were not compared with their hash.
    pub leaves: u64,
    /// Frames that were not checked.
    pub frames: u64,
}

/// What is known about the parity of a damaged image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParityState {
    /// Nothing: no damage was found, or the time was up.
    #[default]
    NotSought,
    /// The image has no readable parity.
    None,
    /// The image has parity.
    Found {
        /// Leaves that are damaged.
        damaged_leaves: u64,
        /// Bodies of parity that are damaged.
        damaged_bodies: u64,
        /// Damaged leaves that the parity cannot restore.
        lost_leaves: u64,
    },
}

/// What to do next, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Get the image that was expected.
    GetExpectedImage,
    /// Repair it: parity restores all damage.
    Repair,
    /// Get another copy of the image, which is better than all that follows.
    GetAnotherCopy,
    /// Repair it with salvage: the structures that lead to the rest are lost, or parity restores a
    /// part.
    Salvage,
    /// Extract what is intact; damaged files get holes.
    ExtractContinue,
}

/// What a check found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Where the image begins in the source.
    pub offset: u64,
    /// True if a root leads to the tables, so that salvage or extraction may save something.
    pub has_root: bool,
    /// Bytes of the image, by its last trailer; without a trailer, up to the end of the source.
    pub image_len: u64,
    /// Bytes of the source after the image; 0 if they are padding, which is zeroes.
    pub bytes_behind: u64,
    /// The identity that the image claims; `None` before format 0.2. If the caller expected an
    /// identity and the check found no problem, both are equal.
    pub identity: Option<Identity>,
    /// The level of the check.
    pub level: CheckLevel,
    /// How much was checked.
    pub checked: Checked,
    /// What was not checked because the time was up.
    pub left: Left,
    /// Problems in the order in which they were found, at most a thousand.
    pub problems: Vec<Problem>,
    /// The number of all problems, including those not kept.
    pub problem_count: u64,
    /// Frames that do not decode, or refer to a frame that does not.
    pub damaged_frame_count: u64,
    /// What parity can restore.
    pub parity: ParityState,
    /// Files with bytes that cannot be read, at most a thousand.
    pub damaged_paths: Vec<DamagedPath>,
    /// The number of all damaged paths, including those not kept.
    pub damaged_path_count: u64,
}

impl CheckReport {
    /// True if no problem was found.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    /// True if there was time to check everything that was asked for.
    pub fn is_complete(&self) -> bool {
        self.left == Left::default()
    }

    /// What to do next, best first; empty if nothing is wrong.
    pub fn advice(&self) -> Vec<Advice> {
        let any = |remedy| self.problems.iter().any(|problem| problem.remedy == remedy);
        let is_as_before = |problem: &Problem| problem.remedy == Remedy::AsWritten;
        // Not all problems are kept, but all damage is counted.
        let repairs = match self.parity {
            ParityState::Found { damaged_leaves, damaged_bodies, lost_leaves: 0 } => {
                let is_damaged = damaged_leaves + damaged_bodies > 0;
                (is_damaged || any(Remedy::Parity)) && !any(Remedy::NoParity)
            }
            _ => false,
        };
        if self.is_clean() {
            Vec::new()
        } else if any(Remedy::OtherImage) {
            vec![Advice::GetExpectedImage]
        } else if repairs && !self.problems.iter().any(is_as_before) {
            vec![Advice::Repair]
        } else if repairs {
            // What was wrong before the parity was computed stays wrong.
            vec![Advice::Repair, Advice::GetAnotherCopy, Advice::ExtractContinue]
        } else if !self.has_root {
            vec![Advice::GetAnotherCopy]
        } else {
            let mut advice = vec![Advice::GetAnotherCopy];
            let leads_astray = self.problems.iter().any(|problem| problem.touches.everything);
            if any(Remedy::Parity) || leads_astray {
                advice.push(Advice::Salvage);
            }
            advice.push(Advice::ExtractContinue);
            advice
        }
    }
}
