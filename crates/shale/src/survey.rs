//! Tells what a build would pack, without packing anything.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, PoisonError};

use shale_format::InodeKind;
use shale_host::Progress;
use shale_model::Content;
use shale_source::{Decision, Input, Record, open};
use shale_write::{Container, SNIFF_LEN, is_taken_apart};

use crate::error::Error;
use crate::options::CreateOptions;

/// What would happen to one path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Surveyed {
    /// Whether it is packed, and why not.
    pub decision: Decision,
    /// A file in which compressed streams are looked for, to store what they hold. It may hold
    /// none that are known.
    pub opens: Option<Container>,
    /// The rule for files (see [`shale_write::FileRules`]) that the file gets, as it was written.
    pub rule: Option<Vec<u8>>,
}

/// Lists the inputs and returns what would happen to each path, sorted by path. Entries below a
/// directory that is left out are not listed. All decisions are held in memory.
///
/// # Errors
/// An input cannot be read.
pub fn survey(
    sources: &[Input],
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<Vec<Surveyed>, Error> {
    let record: Arc<Record> = Arc::default();
    let (build, mut options) = (&options.build, options.to_source());
    let recompress = build.recompress.unwrap_or(false);
    options.choose.record = Some(Arc::clone(&record));
    // Conflicts do not change what the rules do.
    options.replace = true;
    let (mut opens, mut rules) = (HashMap::new(), HashMap::new());
    let mut source = open(sources, Vec::new(), &options, progress)?;
    while let Some(entry) = source.next_entry()? {
        options.cancel.check()?;
        if entry.metadata.kind != InodeKind::File {
            continue;
        }
        let rule = build.rules.find(&entry.path);
        let recompress = rule.and_then(|rule| rule.recompress()).unwrap_or(recompress);
        if let Some(rule) = rule {
            rules.insert(entry.path.clone(), rule.text().to_vec());
        }
        if recompress && let Some(container) = container_of(entry.content, entry.metadata.len) {
            opens.insert(entry.path, container);
        }
    }
    drop((source, options));
    let mut decisions = std::mem::take(&mut *record.lock().unwrap_or_else(PoisonError::into_inner));
    decisions.sort_unstable();
    decisions.dedup();
    let surveyed = |decision: Decision| {
        let path = decision.is_taken.then_some(&decision.path);
        let opens = path.and_then(|path| opens.get(path).copied());
        let rule = path.and_then(|path| rules.get(path).cloned());
        Surveyed { decision, opens, rule }
    };
    Ok(decisions.into_iter().map(surveyed).collect())
}

/// What the file of this length is, if streams are looked for in it. A file that cannot be read is
/// none: the build will say what is wrong with it.
fn container_of(content: Content, len: u64) -> Option<Container> {
    let mut first = Vec::new();
    match content {
        Content::Bytes(bytes) => first = bytes,
        Content::Reader { reader, holes } if holes.is_empty() => {
            reader.take(SNIFF_LEN as u64).read_to_end(&mut first).ok()?;
        }
        Content::File(file) => {
            let mut file = file.open().ok()?;
            first.resize(SNIFF_LEN, 0);
            let mut filled = 0;
            while filled < SNIFF_LEN {
                match file.read_at(filled as u64, &mut first[filled..]).ok()? {
                    0 => break,
                    read_len => filled += read_len,
                }
            }
            first.truncate(filled);
        }
        Content::None | Content::Reader { .. } | Content::Held(_) => {}
    }
    is_taken_apart(len, &first)
}
