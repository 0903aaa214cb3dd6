//! `shale cache`.

use anyhow::{Context, bail};
use serde_json::json;
use shale_remote::CacheEntry;

use crate::args::CacheCommand;
use crate::exit::Exit;
use crate::report::Say;
use crate::{elsewhere, size, text};

/// Lists or clears the cache of images that are elsewhere.
///
/// # Errors
/// There is no cache, or it cannot be read or changed.
pub fn run(args: &CacheCommand, say: &Say) -> anyhow::Result<Exit> {
    let Some((cache, dir)) = elsewhere::cache() else {
        bail!("there is no cache: HOME and XDG_CACHE_HOME are not set, or --cache-size is 0");
    };
    let name = text::path(&dir);
    let entries = || cache.list().with_context(|| format!("cannot read {name}"));
    match args {
        CacheCommand::Dir => say.raw(format!("{}\n", dir.display()).as_bytes())?,
        CacheCommand::List => list(&entries()?, say)?,
        CacheCommand::Clear { words, all } => {
            let chosen = |entry: &CacheEntry| *all || words.iter().any(|w| entry.url.contains(w));
            let entries = entries()?;
            let chosen: Vec<_> = entries.iter().filter(|entry| chosen(entry)).collect();
            if chosen.is_empty() && !words.is_empty() {
                bail!("nothing is cached whose URL contains {}", words.join(" or "));
            }
            for entry in &chosen {
                cache.remove(entry).with_context(|| format!("cannot clear {name}"))?;
            }
            let bytes = chosen.iter().map(|entry| entry.cached_bytes).sum();
            if say.json {
                say.value(&json!({ "removed": chosen.len(), "bytes": bytes }))?;
            } else {
                let (count, bytes) = (size::count(chosen.len() as u64), size::show(bytes));
                say.line(format!("removed {bytes} of {count} images"));
            }
        }
    }
    Ok(Exit::Done)
}

fn list(entries: &[CacheEntry], say: &Say) -> anyhow::Result<()> {
    if say.json {
        let object = |entry: &CacheEntry| {
            let used = entry.used.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            json!({
                "url": entry.url, "image_bytes": entry.len,
                "cached_bytes": entry.cached_bytes, "used": used.as_secs(),
            })
        };
        return say.value(&entries.iter().map(object).collect::<Vec<_>>());
    }
    let mut out = String::new();
    for entry in entries {
        let (cached, whole) = (size::show(entry.cached_bytes), size::show(entry.len));
        out += &format!("{cached:>10} of {whole:>10}  {}\n", text::escape(entry.url.as_bytes()));
    }
    say.raw(out.as_bytes())
}
