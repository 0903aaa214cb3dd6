//! What any thread can find out about a content before it is put into the stream: the compressed
//! streams in it, and what it resembles.

use crate::content::read::SmallContent;
use crate::exec::build::Env;
use crate::intake::treatment::Treatment;
use crate::layout::similarity::{self, Sketcher};
use crate::plan::order::Order;
use crate::recompress::take_apart::{may_hold_streams, memory_len, memory_len_max, take_apart};

/// Adds what the build needs to know of a content: the streams in it, and the similarity sketch
/// where the order needs it.
pub(crate) fn sketched(
    env: &Env<'_>,
    mut content: SmallContent,
    treatment: Treatment,
) -> SmallContent {
    if let Some(category) = treatment.category {
        content.category = category;
    }
    if treatment.ignores_samples() {
        content.samples.clear();
    }
    if treatment.recompress && may_hold_streams(&content.bytes) {
        let reservation = env.gate.reserve(memory_len_max(content.bytes.len() as u64));
        if reservation.is_none() || !env.meet(content.digest) {
            content.is_deferred = true;
            return content;
        }
        content.reservation = reservation;
        find_streams(env, &mut content);
        let used = memory_len(&content);
        if let Some(reservation) = &mut content.reservation {
            reservation.shrink(used);
        }
    } else {
        sketch(env, &mut content);
    }
    content
}

/// Finds the streams in a content, and sketches what it is then stored as.
pub(super) fn find_streams(env: &Env<'_>, content: &mut SmallContent) {
    take_apart(content, &|| env.is_cancelled());
    sketch(env, content);
}

/// Sketches a content without streams, or what is in its streams.
fn sketch(env: &Env<'_>, content: &mut SmallContent) {
    if env.plan.order != Order::Similarity {
        return;
    }
    if content.streams.is_empty() {
        content.similarity_sketch = similarity::sketch_of(&content.bytes);
    }
    for stream in &mut content.streams {
        let mut sketcher = Sketcher::default();
        sketch_group(&stream.plain, &mut sketcher);
        stream.plain.similarity_sketch = sketcher.finish();
    }
}

/// Sketches what is stored together for the plain bytes of a stream.
fn sketch_group(content: &SmallContent, sketcher: &mut Sketcher) {
    if content.streams.is_empty() {
        sketcher.push(&content.bytes);
    }
    content.streams.iter().for_each(|stream| sketch_group(&stream.plain, sketcher));
}
