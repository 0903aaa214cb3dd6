//! Tags of contents: the first bits of their digests, as far as append indexes note them.
//!
//! A content can be the same as a content of the image that is continued only if that is as long,
//! and that one has to be read to know. Tags tell nearly all of those that are not the same: of
//! 65,536 wrong ones, one passes. They are hints: what passes is read and compared, and what a
//! wrong tag rules out is stored again.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use shale_format::AppendIndex;
use shale_format::append_index::TAG_COUNT_MAX;

use crate::base::image::Base;
use crate::exec::build::Build;
use crate::exec::in_order::in_order;
use crate::exec::pool::Urgency;
use crate::plan::digest::ContentDigest;
use crate::plan::error::WriteError;
use crate::plan::report::Stage;

/// Contents that one task reads.
const CONTENTS_PER_TASK: u64 = 64;

/// The tags of the image that is continued; read when first asked for.
#[derive(Debug, Default)]
pub(crate) struct ContentTags(OnceLock<Vec<Arc<AppendIndex>>>);

impl ContentTags {
    /// The indexes that have tags, in the order of contents.
    fn parts(&self, base: &dyn Base) -> &[Arc<AppendIndex>] {
        self.0.get_or_init(|| {
            let mut parts = base.append_indexes().unwrap_or_default();
            parts.retain(|part| !part.tagged().is_empty());
            parts.sort_by_key(|part| part.tagged().start);
            parts
        })
    }

    /// Returns whether a content may have these bytes, as far as its tag tells.
    pub(crate) fn may_be(&self, base: &dyn Base, content: u64, digest: &ContentDigest) -> bool {
        let parts = self.parts(base);
        let end = parts.partition_point(|part| part.tagged().start <= content);
        let tag = parts[..end].iter().rev().find_map(|part| part.tag_of(content));
        tag.is_none_or(|tag| tag == AppendIndex::tag(&digest.0))
    }

    /// Number of contents at the start of the image that have tags.
    fn covered_count(&self, base: &dyn Base) -> u64 {
        let mut end = 0;
        for part in self.parts(base) {
            if part.tagged().start <= end {
                end = end.max(part.tagged().end);
            }
        }
        end
    }
}

/// Adds the tags of the contents of this build, `own`, to `index`, which a build that continues an
/// image makes; and those of earlier contents without tags, if it learned their frames, too. These
/// are read for it. Contents beyond what an index can hold get none.
///
/// # Errors
/// The build was cancelled.
pub(crate) fn with_tags(
    build: &Build<'_>,
    of_base: &ContentTags,
    own: Vec<u16>,
    index: Option<AppendIndex>,
) -> Result<Option<AppendIndex>, WriteError> {
    let Some(base) = build.base() else { return Ok(index) };
    if own.is_empty() || !build.options().append_index {
        return Ok(index);
    }
    let end = base.state().content_count;
    let (mut first, mut tags) = (end, Vec::new());
    if index.is_some() {
        first = of_base.covered_count(&**base).min(end);
        tags = read_tags(build, first..end)?;
    }
    tags.extend(own);
    if tags.len() > TAG_COUNT_MAX {
        return Ok(index);
    }
    let mut index = index.unwrap_or_else(|| AppendIndex::new(0, base.state().frame_count()));
    index.set_tags(first, tags);
    Ok(Some(index))
}

/// Reads contents of the image that is continued. One that cannot be read gets any tag.
fn read_tags(build: &Build<'_>, range: Range<u64>) -> Result<Vec<u16>, WriteError> {
    let Some(base) = build.base() else { return Ok(Vec::new()) };
    let first_contents = range.clone().step_by(CONTENTS_PER_TASK as usize);
    let tasks = first_contents.map(|first| {
        let part = first..(first + CONTENTS_PER_TASK).min(range.end);
        Some(build.submit(Urgency::Normal, Stage::Refer, move |_| {
            let tag = |content| {
                let digest = base.content_digest(content).unwrap_or_default();
                AppendIndex::tag(&digest.0)
            };
            part.map(tag).collect::<Vec<u16>>()
        }))
    });
    let mut tags = Vec::new();
    in_order(build, tasks, |part: Vec<u16>| tags.extend(part))?;
    Ok(tags)
}
