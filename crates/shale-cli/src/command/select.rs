//! Walks over the entries of an image that patterns select.

use std::ffi::OsString;

use shale::listing::resolve;
use shale::read::{Attributes, InodeKind, Tree};
use shale::{Patterns, Position};

use crate::text;

/// Calls `visit` with the path and attributes of each selected entry, parents first, in the order
/// of names, and with whether the entry itself matches, not only a directory above it. The root has
/// an empty path. Directories without a possible match are not listed.
///
/// # Errors
/// The image cannot be read, or `visit` fails.
pub fn each_selected(
    tree: &Tree,
    patterns: &Patterns,
    mut visit: impl FnMut(&[u8], &Attributes, bool) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut positions: Vec<Position> = Vec::new();
    let mut walk = tree.walk(tree.root_inode())?;
    while let Some(step) = walk.advance()? {
        positions.truncate(step.depth);
        let position = match positions.last() {
            None => patterns.start(),
            Some(above) => patterns.step(above, step.name()),
        };
        let is_dead_end =
            step.attributes.kind == InodeKind::Directory && !position.may_match_below();
        if position.is_selected() {
            let is_match = !positions.last().is_some_and(Position::is_selected);
            visit(step.path, &step.attributes, is_match)?;
        }
        positions.push(position);
        if is_dead_end {
            walk.skip_directory();
        }
    }
    Ok(())
}

/// Fails if no pattern matched, and returns those that matched nothing beside others.
///
/// # Errors
/// Nothing was selected by any of the patterns.
pub fn unmatched(patterns: &Patterns, selected: u64) -> anyhow::Result<Vec<Vec<u8>>> {
    let unmatched: Vec<Vec<u8>> = patterns.unmatched().map(<[u8]>::to_vec).collect();
    if selected == 0 && !unmatched.is_empty() {
        let shown = unmatched.iter().map(|pattern| format!("`{}`", pattern.escape_ascii()));
        let patterns = shown.collect::<Vec<_>>().join(", ");
        return Err(shale::ExtractError::NoMatch { patterns }.into());
    }
    Ok(unmatched)
}

/// Expands the patterns among `words`, as a shell does; the root if there are no words. A word that
/// is an existing path stays as it is, and so does a word without wildcards.
///
/// # Errors
/// A pattern matches nothing, or the image cannot be read.
pub fn expand(tree: &Tree, words: &[OsString]) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    for word in words {
        let word = text::bytes(word);
        let is_pattern = word.iter().any(|byte| b"*?[{".contains(byte));
        if !is_pattern || resolve(tree, word, false).is_ok() {
            paths.push(word.to_vec());
            continue;
        }
        // A name with an unmatched bracket is a path, which may not exist.
        let Ok(patterns) = Patterns::new(&[word]) else {
            paths.push(word.to_vec());
            continue;
        };
        let first = paths.len();
        each_selected(tree, &patterns, |path, _, is_match| {
            if is_match {
                paths.push(path.to_vec());
            }
            Ok(())
        })?;
        if paths.len() == first {
            let patterns = format!("`{}`", word.escape_ascii());
            return Err(shale::ExtractError::NoMatch { patterns }.into());
        }
    }
    if words.is_empty() {
        paths.push(b"/".to_vec());
    }
    Ok(paths)
}
