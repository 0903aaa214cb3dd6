//! The counters of mounts in the text exposition format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>), which most monitoring reads.
//!
//! Names are stable: `shale_request_seconds` is a histogram by mount and operation. Counters of the
//! layers below the driver are `shale_image_NAME`, with `_total` if they only grow.

use crate::mount::StatisticsSource;
use crate::statistics::Snapshot;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

/// Returns all counters of these mounts. Costs some thousand atomic loads and reads nothing of an
/// image.
pub fn prometheus(sources: &[StatisticsSource]) -> String {
    let label = |source: &StatisticsSource| escaped(source.mount_point().as_os_str().as_bytes());
    render(&sources.iter().map(|source| (label(source), source.snapshot())).collect::<Vec<_>>())
}

fn render(mounts: &[(String, Snapshot)]) -> String {
    let mut out = String::new();
    head(&mut out, "shale_request_seconds", "histogram", "Time from a request to its answer.");
    for (mount, operation) in operations(mounts) {
        let labels = format!("mount=\"{mount}\",operation=\"{}\"", operation.operation.name());
        let used = operation.buckets.iter().rposition(|&count| count > 0).unwrap_or(0);
        let mut sum = 0;
        for (index, count) in operation.buckets[..=used].iter().enumerate() {
            sum += count;
            let bound = (1u64 << index) as f64 / 1e9;
            let _ =
                writeln!(out, "shale_request_seconds_bucket{{{labels},le=\"{bound:e}\"}} {sum}");
        }
        let _ = writeln!(out, "shale_request_seconds_bucket{{{labels},le=\"+Inf\"}} {sum}");
        let seconds = operation.total_ns as f64 / 1e9;
        let _ = writeln!(out, "shale_request_seconds_sum{{{labels}}} {seconds}");
        let _ = writeln!(out, "shale_request_seconds_count{{{labels}}} {sum}");
    }
    head(&mut out, "shale_request_errors_total", "counter", "Requests answered with an error.");
    for (mount, operation) in operations(mounts) {
        let (name, count) = (operation.operation.name(), operation.error_count);
        let labels = format!("mount=\"{mount}\",operation=\"{name}\"");
        let _ = writeln!(out, "shale_request_errors_total{{{labels}}} {count}");
    }
    head(&mut out, "shale_reply_bytes_total", "counter", "Bytes of data in answers.");
    for (mount, operation) in operations(mounts) {
        let (name, len) = (operation.operation.name(), operation.reply_len);
        let labels = format!("mount=\"{mount}\",operation=\"{name}\"");
        let _ = writeln!(out, "shale_reply_bytes_total{{{labels}}} {len}");
    }
    // The lines of a metric have to be consecutive. All mounts have the same counters.
    let names = mounts.first().map(|(_, snapshot)| snapshot.view_counters.as_slice());
    for &(name, _) in names.unwrap_or_default() {
        let (kind, suffix) =
            if name.ends_with("_cache_bytes") { ("gauge", "") } else { ("counter", "_total") };
        let metric = format!("shale_image_{name}{suffix}");
        head(&mut out, &metric, kind, "See `shale stats` and its documentation.");
        for (mount, snapshot) in mounts {
            for (_, value) in snapshot.view_counters.iter().filter(|(found, _)| *found == name) {
                let _ = writeln!(out, "{metric}{{mount=\"{mount}\"}} {value}");
            }
        }
    }
    out
}

fn operations(
    mounts: &[(String, Snapshot)],
) -> impl Iterator<Item = (&str, &crate::statistics::OperationSnapshot)> {
    mounts.iter().flat_map(|(mount, snapshot)| {
        let seen = snapshot.operations.iter().filter(|o| o.count > 0);
        seen.map(move |operation| (mount.as_str(), operation))
    })
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Returns a label value: UTF-8, with backslash, quote and line end escaped.
fn escaped(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{Operation, Statistics};
    use std::time::Instant;

    #[test]
    fn the_text_follows_the_exposition_format() {
        let statistics = Statistics::new();
        statistics.record(Operation::Read, Instant::now(), 100, false);
        statistics.record(Operation::Read, Instant::now(), 0, true);
        let counters = vec![("frames_decoded", 7), ("frame_cache_bytes", 5)];
        let snapshot = statistics.snapshot(counters);
        let text = render(&[(escaped(b"/m\"n\\t\n"), snapshot)]);
        let mount = r#"mount="/m\"n\\t\n""#;
        for line in [
            format!("shale_request_seconds_count{{{mount},operation=\"read\"}} 2"),
            format!("shale_request_seconds_bucket{{{mount},operation=\"read\",le=\"+Inf\"}} 2"),
            format!("shale_request_errors_total{{{mount},operation=\"read\"}} 1"),
            format!("shale_reply_bytes_total{{{mount},operation=\"read\"}} 100"),
            format!("shale_image_frames_decoded_total{{{mount}}} 7"),
            format!("shale_image_frame_cache_bytes{{{mount}}} 5"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        // Every sample has a declared type.
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split('{').next().unwrap();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let declared = text.contains(&format!("# TYPE {} ", base.unwrap_or(name)));
            assert!(declared, "{line}");
        }
    }
}
