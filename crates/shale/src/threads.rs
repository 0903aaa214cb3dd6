//! How many threads work, decided in one place.

use std::num::NonZero;
use std::thread::available_parallelism;

/// `asked`, or as many as the machine offers if that is 0.
pub(crate) fn thread_count(asked: usize) -> usize {
    match asked {
        0 => available_parallelism().map_or(1, NonZero::get),
        asked => asked,
    }
}
