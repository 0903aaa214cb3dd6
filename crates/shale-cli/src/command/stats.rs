//! `shale stats`.

use anyhow::Context;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::args::Stats;
use crate::exit::Exit;
use crate::report::Say;
use crate::text;

/// The counters of a driver; see `docs/mounting.md`.
#[derive(Deserialize)]
struct Counters {
    operations: BTreeMap<String, Operation>,
    image: BTreeMap<String, u64>,
}

/// Requests of one kind.
#[derive(Deserialize)]
struct Operation {
    count: u64,
    errors: u64,
    bytes: u64,
    total_ns: u64,
    /// Index n counts those that took less than 2^n ns and not less than 2^(n-1) ns.
    latency_log2_ns: Vec<u64>,
}

/// Shows the counters of a mounted image.
///
/// # Errors
/// The path is not the root of a mounted image, or output fails.
pub fn run(args: &Stats, say: &Say) -> anyhow::Result<Exit> {
    let json = shale_fuse::read_statistics(&args.mount).with_context(|| {
        format!(
            "{} is not the root of a mounted image, or you may not read it",
            text::path(&args.mount)
        )
    })?;
    if say.json {
        say.raw(json.as_bytes())?;
        say.raw(b"\n")?;
        return Ok(Exit::Done);
    }
    let counters: Counters =
        serde_json::from_str(&json).context("the driver's answer is not valid")?;
    say.raw(table(&counters).as_bytes())?;
    Ok(Exit::Done)
}

fn table(counters: &Counters) -> String {
    let mut out = format!(
        "{:<14}{:>10}{:>8}{:>15}{:>10}{:>10}{:>10}{:>10}\n",
        "operation", "count", "errors", "bytes", "mean", "50 %", "99 %", "longest"
    );
    for (name, operation) in &counters.operations {
        let mean = operation.total_ns.checked_div(operation.count).unwrap_or(0);
        let _ = writeln!(
            out,
            "{name:<14}{:>10}{:>8}{:>15}{:>10}{:>10}{:>10}{:>10}",
            operation.count,
            operation.errors,
            operation.bytes,
            duration(mean),
            below(operation, 500),
            below(operation, 990),
            below(operation, 1000)
        );
    }
    out.push('\n');
    for (name, value) in &counters.image {
        let _ = writeln!(out, "{name:<24}{value:>16}");
    }
    out
}

/// Returns an upper bound of the time that the fastest `per_mille` of 1000 requests took.
fn below(operation: &Operation, per_mille: u64) -> String {
    let wanted = (u128::from(operation.count) * u128::from(per_mille)).div_ceil(1000).max(1);
    let mut seen = 0u128;
    for (index, &count) in operation.latency_log2_ns.iter().enumerate() {
        seen += u128::from(count);
        if seen >= wanted {
            return format!("<{}", duration(1u64.checked_shl(index as u32).unwrap_or(u64::MAX)));
        }
    }
    "-".into()
}

/// Formats a time with two or three digits and a unit.
fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => format!("{}us", ns / 1_000),
        1_000_000..10_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{}s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_from_the_histogram() {
        let json = r#"{"operations":{"read":{"count":100,"errors":1,"bytes":9,"total_ns":300000,
            "latency_log2_ns":[0,0,0,0,0,0,0,0,0,0,90,0,9,1]}},"image":{"frames_decoded":3}}"#;
        let text = table(&serde_json::from_str(json).unwrap());
        let line = text.lines().nth(1).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["read", "100", "1", "9", "3us", "<1us", "<4us", "<8us"]);
        assert!(text.contains("frames_decoded"));
    }
}
