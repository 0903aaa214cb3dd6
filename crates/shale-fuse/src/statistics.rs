//! Counts and latencies per operation: what the kernel asked, and how long the answers took.
//!
//! Recording costs a few relaxed atomic additions for each request. The latency of a request is the
//! time from reading it to writing its reply. Histogram buckets are powers of two of nanoseconds.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The extended attribute of the root directory that holds the statistics of a mount.
pub const STATISTICS_XATTR: &str = "user.shale.stats";
/// Reading this attribute of the root directory, which is empty, makes the driver finish what it
/// writes about reads.
pub(crate) const FLUSH_XATTR: &str = "user.shale.flush";
/// The extended attribute of a file that describes where its bytes lie.
pub const LAYOUT_XATTR: &str = "user.shale.layout";

/// Buckets of a histogram. The last one holds everything above about five minutes.
pub const BUCKET_COUNT: usize = 40;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Operation {
    /// One name in a directory.
    Lookup,
    /// The kernel dropped inodes; counted per inode, not answered.
    Forget,
    /// Attributes of an inode.
    GetAttr,
    /// Target of a symlink.
    ReadLink,
    /// Opening a file; asked once if the kernel supports opening without a request.
    Open,
    /// Bytes of a file.
    Read,
    /// Opening a directory; as for files.
    OpenDir,
    /// A listing of names.
    ReadDir,
    /// A listing of names with attributes.
    ReadDirPlus,
    /// One extended attribute.
    GetXattr,
    /// Names of extended attributes.
    ListXattr,
    /// Next data or hole.
    Seek,
    /// Size of the file system.
    StatFs,
    /// A request that would change the tree.
    Refused,
    /// Any other request.
    Other,
}

impl Operation {
    /// All operations, in the order of reports.
    pub const ALL: [Self; 15] = [
        Self::Lookup,
        Self::Forget,
        Self::GetAttr,
        Self::ReadLink,
        Self::Open,
        Self::Read,
        Self::OpenDir,
        Self::ReadDir,
        Self::ReadDirPlus,
        Self::GetXattr,
        Self::ListXattr,
        Self::Seek,
        Self::StatFs,
        Self::Refused,
        Self::Other,
    ];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Forget => "forget",
            Self::GetAttr => "getattr",
            Self::ReadLink => "readlink",
            Self::Open => "open",
            Self::Read => "read",
            Self::OpenDir => "opendir",
            Self::ReadDir => "readdir",
            Self::ReadDirPlus => "readdirplus",
            Self::GetXattr => "getxattr",
            Self::ListXattr => "listxattr",
            Self::Seek => "lseek",
            Self::StatFs => "statfs",
            Self::Refused => "refused",
            Self::Other => "other",
        }
    }
}

/// Live counters of one mount.
pub(crate) struct Statistics {
    operations: [Counters; Operation::ALL.len()],
}

struct Counters {
    error_count: AtomicU64,
    reply_len: AtomicU64,
    total_ns: AtomicU64,
    buckets: [AtomicU64; BUCKET_COUNT],
}

impl Counters {
    const fn new() -> Self {
        Self {
            error_count: AtomicU64::new(0),
            reply_len: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKET_COUNT],
        }
    }
}

impl Statistics {
    pub(crate) fn new() -> Self {
        Self { operations: [const { Counters::new() }; Operation::ALL.len()] }
    }

    /// Counts one answered request that began at `start`.
    pub(crate) fn record(&self, operation: Operation, start: Instant, len: usize, failed: bool) {
        let elapsed_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let counters = &self.operations[operation as usize];
        counters.buckets[bucket(elapsed_ns)].fetch_add(1, Relaxed);
        counters.total_ns.fetch_add(elapsed_ns, Relaxed);
        if len > 0 {
            counters.reply_len.fetch_add(len as u64, Relaxed);
        }
        if failed {
            counters.error_count.fetch_add(1, Relaxed);
        }
    }

    /// Returns the number of requests answered so far, of every kind.
    pub(crate) fn request_count(&self) -> u64 {
        let answered = Operation::ALL.iter().filter(|&&o| o != Operation::Forget);
        let counters = answered.map(|&operation| &self.operations[operation as usize]);
        counters.flat_map(|c| &c.buckets).map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Counts requests that need no answer and take no time.
    pub(crate) fn count(&self, operation: Operation, count: u64) {
        self.operations[operation as usize].buckets[0].fetch_add(count, Relaxed);
    }

    pub(crate) fn snapshot(&self, view_counters: Vec<(&'static str, u64)>) -> Snapshot {
        let operations = Operation::ALL
            .iter()
            .map(|&operation| {
                let counters = &self.operations[operation as usize];
                let buckets = counters.buckets.each_ref().map(|b| b.load(Relaxed));
                OperationSnapshot {
                    operation,
                    count: buckets.iter().sum(),
                    error_count: counters.error_count.load(Relaxed),
                    reply_len: counters.reply_len.load(Relaxed),
                    total_ns: counters.total_ns.load(Relaxed),
                    buckets,
                }
            })
            .collect();
        Snapshot { operations, view_counters }
    }
}

/// Returns the bucket of a latency: bucket 0 holds 0 ns, bucket n holds 2^(n-1) ns up to but not
/// including 2^n ns.
fn bucket(elapsed_ns: u64) -> usize {
    ((u64::BITS - elapsed_ns.leading_zeros()) as usize).min(BUCKET_COUNT - 1)
}

/// The counters of one mount at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// One for each operation, in the order of [`Operation::ALL`].
    pub operations: Vec<OperationSnapshot>,
    /// Counters of the layers below, by name.
    pub view_counters: Vec<(&'static str, u64)>,
}

/// The counters of one operation.
#[derive(Debug, Clone)]
pub struct OperationSnapshot {
    /// The operation.
    pub operation: Operation,
    /// Number of requests.
    pub count: u64,
    /// Requests answered with an error; a name that does not exist is not an error.
    pub error_count: u64,
    /// Bytes of data in replies.
    pub reply_len: u64,
    /// Total time of all requests, in nanoseconds.
    pub total_ns: u64,
    /// Requests by latency: index n counts those below 2^n ns and not below 2^(n-1) ns.
    pub buckets: [u64; BUCKET_COUNT],
}

impl OperationSnapshot {
    /// Returns an upper bound, in nanoseconds, for the latency of the fastest `per_mille` of 1000
    /// requests.
    pub fn latency_ns(&self, per_mille: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(per_mille)).div_ceil(1000);
        let mut seen = 0u128;
        for (index, &count) in self.buckets.iter().enumerate() {
            seen += u128::from(count);
            if seen >= wanted.max(1) {
                return 1 << index;
            }
        }
        0
    }
}

impl Snapshot {
    /// Returns the counters of one operation.
    pub fn operation(&self, operation: Operation) -> &OperationSnapshot {
        &self.operations[operation as usize]
    }

    /// Returns the number of requests that were answered, of every kind.
    pub fn request_count(&self) -> u64 {
        self.operations.iter().filter(|o| o.operation != Operation::Forget).map(|o| o.count).sum()
    }

    /// Returns one JSON object. It omits operations that never occurred. Each operation has
    /// `count`,
    /// `errors`, `bytes`, `total_ns` and `latency_log2_ns`, the histogram without its empty tail.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{\"operations\":{");
        let mut separator = "";
        for o in self.operations.iter().filter(|o| o.count > 0) {
            let _ = write!(
                json,
                "{separator}\"{}\":{{\"count\":{},\"errors\":{},\"bytes\":{},\"total_ns\":{},\
                 \"latency_log2_ns\":[",
                o.operation.name(),
                o.count,
                o.error_count,
                o.reply_len,
                o.total_ns
            );
            let used = o.buckets.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
            for (index, count) in o.buckets[..used].iter().enumerate() {
                let _ = write!(json, "{}{count}", if index == 0 { "" } else { "," });
            }
            json.push_str("]}");
            separator = ",";
        }
        json.push_str("},\"image\":{");
        separator = "";
        for (name, value) in &self.view_counters {
            let _ = write!(json, "{separator}\"{name}\":{value}");
            separator = ",";
        }
        json.push_str("}}");
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_latencies() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(1), 1);
        assert_eq!(bucket(1023), 10);
        assert_eq!(bucket(1024), 11);
        assert_eq!(bucket(u64::MAX), BUCKET_COUNT - 1);
    }

    #[test]
    fn percentiles_and_json_follow_the_histogram() {
        let statistics = Statistics::new();
        let long_ago = Instant::now() - std::time::Duration::from_millis(50);
        for _ in 0..99 {
            statistics.record(Operation::Read, Instant::now(), 10, false);
        }
        statistics.record(Operation::Read, long_ago, 10, true);
        let snapshot = statistics.snapshot(vec![("frames_decoded", 7)]);
        let read = snapshot.operation(Operation::Read);
        assert_eq!((read.count, read.error_count, read.reply_len), (100, 1, 1000));
        assert!(read.latency_ns(500) < 10_000_000);
        assert!(read.latency_ns(1000) >= 50_000_000);
        assert_eq!(snapshot.operation(Operation::Lookup).latency_ns(500), 0);
        let json = snapshot.to_json();
        assert!(
            json.starts_with("{\"operations\":{\"read\":{\"count\":100,\"errors\":1,"),
            "{json}"
        );
        assert!(json.ends_with("]}},\"image\":{\"frames_decoded\":7}}"), "{json}");
    }
}
