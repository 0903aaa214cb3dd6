//! `shale stats`.

use anyhow::Context;
use serde_json::Value;

use crate::args::Stats;
use crate::exit::Exit;
use crate::report::Say;
use crate::text;

/// Shows the counters of a mounted image, as its driver gives them.
pub fn run(args: &Stats, say: &Say) -> anyhow::Result<Exit> {
    let json = shale_fuse::read_statistics(&args.mount).with_context(|| {
        format!(
            "{} is not the root of a mounted image that you may look at",
            text::path(&args.mount)
        )
    })?;
    if say.json {
        say.raw(json.as_bytes())?;
        say.raw(b"\n")?;
        return Ok(Exit::Done);
    }
    let value: Value = serde_json::from_str(&json).context("the driver's answer is not JSON")?;
    let mut out = String::new();
    lines("", &value, &mut out);
    say.raw(out.as_bytes())?;
    Ok(Exit::Done)
}

/// One line a number, with its place in the object. Histograms are left to `--json`.
fn lines(place: &str, value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                lines(&place, value, out);
            }
        }
        Value::Array(_) => {}
        Value::String(text) => *out += &format!("{place} {text}\n"),
        other => *out += &format!("{place} {other}\n"),
    }
}
