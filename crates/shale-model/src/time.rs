//! A point in time.

/// Seconds since 1970-01-01 UTC, possibly negative, and nanoseconds 0..10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Whole seconds, rounded down.
    pub sec: i64,
    /// Nanoseconds past `sec`.
    pub nsec: u32,
}
