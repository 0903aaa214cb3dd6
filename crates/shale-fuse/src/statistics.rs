//! Counts and latencies per operation: what the driver was asked, and how long answers took.
//!
//! Recording costs a few relaxed atomic additions a request. Latency runs from the moment a
//! request was read to the moment its reply was written; buckets are powers of two of nanoseconds.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The extended attribute of the root directory under which a mount shows its statistics.
pub const STATISTICS_XATTR: &str = "user.shale.stats";
/// Asking for this attribute of the root directory, which is empty, has the driver finish what it
/// writes about reads.
pub(crate) const FLUSH_XATTR: &str = "user.shale.flush";
/// The extended attribute of a file that tells where its bytes lie.
pub const LAYOUT_XATTR: &str = "user.shale.layout";

/// Buckets of a histogram; the last holds all from about nine minutes on.
pub const BUCKET_COUNT: usize = 40;

/// What the kernel may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Operation {
    /// One name in a directory.
    Lookup,
    /// The kernel dropped inodes; counted per inode, not answered.
    Forget,
    /// Attributes.
    GetAttr,
    /// Target of a symlink.
    ReadLink,
    /// Opening a file; once, where the kernel takes no for an answer.
    Open,
    /// Bytes of a file.
    Read,
    /// Opening a directory; likewise once.
    OpenDir,
    /// Names.
    ReadDir,
    /// Names with attributes.
    ReadDirPlus,
    /// One extended attribute.
    GetXattr,
    /// Names of extended attributes.
    ListXattr,
    /// Next data or hole.
    Seek,
    /// Totals.
    StatFs,
    /// Anything that would change the tree.
    Refused,
    /// Anything else.
    Other,
}

impl Operation {
    /// All operations, in the order they are shown.
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

    /// Name in reports.
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

    /// Counts one answered request that was begun at `start`.
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

    /// Requests answered so far, of every kind.
    pub(crate) fn request_count(&self) -> u64 {
        let answered = Operation::ALL.iter().filter(|&&o| o != Operation::Forget);
        let counters = answered.map(|&operation| &self.operations[operation as usize]);
        counters.flat_map(|c| &c.buckets).map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Counts what needs no answer and no time.
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

/// Bucket 0 holds up to 1 ns, bucket n what is below 2^n ns but not below 2^(n-1).
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
    /// Which.
    pub operation: Operation,
    /// Requests.
    pub count: u64,
    /// Requests answered with an error (a name that does not exist is none).
    pub error_count: u64,
    /// Bytes of data in replies.
    pub reply_len: u64,
    /// Time spent, in nanoseconds, over all requests.
    pub total_ns: u64,
    /// Requests by latency: index n counts those below 2^n ns.
    pub buckets: [u64; BUCKET_COUNT],
}

impl OperationSnapshot {
    /// An upper bound, in nanoseconds, of the latency that `per_mille` of 1000 requests kept to.
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
    /// The counters of one operation.
    pub fn operation(&self, operation: Operation) -> &OperationSnapshot {
        &self.operations[operation as usize]
    }

    /// Requests that were answered, of every kind.
    pub fn request_count(&self) -> u64 {
        self.operations.iter().filter(|o| o.operation != Operation::Forget).map(|o| o.count).sum()
    }

    /// One JSON object; operations that never occurred are left out. Each has `count`, `errors`,
    /// `bytes`, `total_ns` and `latency_log2_ns`, the histogram without its empty tail.
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

/// The statistics of the image mounted at `mount_point`, as JSON, from any process that may look
/// at the mount.
///
/// Errors: the path does not exist, or is not the root of a mounted image (ENODATA or EOPNOTSUPP).
pub fn read_statistics(mount_point: &Path) -> io::Result<String> {
    // A kernel view has no such attribute; the mount below it has.
    let below = crate::mount::table::resolve(mount_point)
        .and_then(|path| crate::mount::table::find(&path))
        .ok()
        .flatten()
        .and_then(|entry| entry.kernel_view_place().map(Path::to_owned));
    let mount_point = below.as_deref().unwrap_or(mount_point);
    // Larger than any snapshot: 15 histograms of 40 numbers are below 16 KiB.
    let mut value = vec![0u8; 64 << 10];
    let len = rustix::fs::getxattr(mount_point, STATISTICS_XATTR, value.as_mut_slice())?;
    value.truncate(len);
    String::from_utf8(value).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
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
