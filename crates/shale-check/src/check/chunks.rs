//! Rebuilds all chunks of deflate streams and compares them with their sums.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shale_format::Root;
use shale_format::schema::chunks;
use shale_host::{thread_count, threads};
use shale_read::{ByteSource, Image, OffsetChoice, Options, Unit};

use super::context::Context;
use super::findings::{RowScope, Scope};
use super::report::Checked;
use crate::error::Error;

/// Chunks that belong to the same part when a part of the image is checked, as neighbours need the
/// same frames.
const CHUNKS_IN_RUN: u64 = 16;

/// Rebuilds the chunks of the subset. The frames of the image are sound.
pub(super) fn check(
    context: &Context<'_>,
    root: &Root,
    source: &Arc<dyn ByteSource>,
    start: u64,
    checked: &mut Checked,
) -> Result<(), Error> {
    const PLACE: &str = "table chunks";
    let options = Options::default().offset(OffsetChoice::At(start));
    let image = match Image::open(Arc::clone(source), options) {
        Ok(image) => image,
        Err(error) => {
            context.findings.add(PLACE, None, error.to_string());
            return Ok(());
        }
    };
    let (next, checked_count) = (AtomicU64::new(0), AtomicU64::new(0));
    threads::run(thread_count(context.options.threads), || {
        while context.check_cancel().is_ok() {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            if chunk >= image.chunk_count() {
                return;
            }
            if !context.options.subset.has(chunk / CHUNKS_IN_RUN) {
                continue;
            }
            checked_count.fetch_add(1, Ordering::Relaxed);
            let Err(error) = image.unit(Unit::Chunk(chunk)) else { continue };
            let keys = image
                .chunk_record(chunk)
                .map_or((0, None), |record| (record.base, Some(record.base + record.len)));
            let lost = RowScope {
                table: chunks::SCHEMA.name,
                top: root.chunks.top.offset,
                first: chunk,
                end: chunk + 1,
                keys,
            };
            context.findings.add_about(PLACE, None, error.to_string(), Scope::Rows(lost));
        }
    });
    context.check_cancel()?;
    checked.chunks += checked_count.into_inner();
    Ok(())
}
