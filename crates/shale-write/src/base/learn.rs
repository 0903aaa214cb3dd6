//! What new contents may share with an image: sketches of its frames, for references, and anchors,
//! for segments.
//!
//! They are taken from the plain bytes of all frames: each is decoded once, by any thread. A frame
//! that cannot be read is passed over: nothing will refer to it.

use std::sync::Arc;

use crate::base::frames::OldFrames;
use crate::exec::build::Build;
use crate::exec::in_order::in_order;
use crate::exec::pool::Urgency;
use crate::plan::error::WriteError;
use crate::plan::report::Stage;
use crate::reference::sketch::sketch_of;
use crate::reference::stage::RATE_LOG2;
use crate::segment::segmenter::{Anchor, anchors_of};

/// What is asked for of each frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) sketch: bool,
    /// Window of segment dedupe; 0 where there are no segments.
    pub(crate) window_len: u32,
}

/// What one frame has.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// Fingerprints, see [`crate::reference::sketch`].
    pub(crate) prints: Vec<u64>,
    pub(crate) anchors: Vec<Anchor>,
}

/// Learns frames of the image that is continued, and calls `learned` for each, in order. `frames`
/// says which ones are decoded: all if it is `None`. Nothing is learned of the others.
///
/// # Errors
/// The build was cancelled, or `learned` fails.
pub(crate) fn learn<'env>(
    build: &Build<'env>,
    old: &Arc<OldFrames>,
    wanted: Wanted,
    frames: Option<&[bool]>,
    learned: impl FnMut(Learned),
) -> Result<(), WriteError> {
    let Some(base) = build.base() else { return Ok(()) };
    let step_log2 = old.anchor_step_log2();
    let mut start = 0;
    let tasks = (0..old.count()).map(|frame| {
        let at = start;
        start += old.len_of(frame);
        if frames.is_some_and(|frames| !frames[frame]) {
            return None;
        }
        Some(build.submit(Urgency::Normal, Stage::Refer, move |_| {
            let mut found = Learned::default();
            let Ok(plain) = base.frame(frame as u64) else { return found };
            if wanted.sketch {
                sketch_of(&plain, RATE_LOG2, &mut found.prints);
            }
            if wanted.window_len > 0 {
                found.anchors = anchors_of(&plain, at, wanted.window_len, step_log2);
            }
            found
        }))
    });
    in_order(build, tasks, learned)
}
