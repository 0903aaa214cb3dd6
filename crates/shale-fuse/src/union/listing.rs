//! The entries of a directory of a union.

use super::layer::{Layer, MARK, Part, is_whiteout};
use crate::view::{Attributes, Entry, ViewError};
use std::collections::BTreeMap;

/// The entries of a directory, in a fixed order.
pub(super) enum Listing {
    /// Of one directory of a layer: the indexes of entries that are not shown, ascending.
    One { hidden: Vec<u64> },
    /// Of several: names with their layer and inode, sorted.
    Merged(Vec<(Box<[u8]>, Part)>),
}

impl Listing {
    /// Reads the entries of all `parts`, the topmost first.
    pub(super) fn of(layers: &[Layer], parts: &[Part]) -> Result<Self, ViewError> {
        if let [part] = parts {
            let mut hidden = Vec::new();
            let mut index = 0;
            layers[part.layer].view.list(part.inode, 0, &mut |entry| {
                if is_hidden(entry.name, &entry.attributes) {
                    hidden.push(index);
                }
                index += 1;
                true
            })?;
            return Ok(Self::One { hidden });
        }
        let mut names: BTreeMap<Box<[u8]>, Option<Part>> = BTreeMap::new();
        for part in parts {
            // Marks of a layer do not concern the layer itself.
            let mut marked: Vec<Box<[u8]>> = Vec::new();
            layers[part.layer].view.list(part.inode, 0, &mut |entry| {
                if let Some(name) = entry.name.strip_prefix(MARK) {
                    marked.push(name.into());
                } else if !names.contains_key(entry.name) {
                    let inode = entry.attributes.inode;
                    let shown = !is_whiteout(&entry.attributes);
                    let found = shown.then_some(Part { layer: part.layer, inode });
                    names.insert(entry.name.into(), found);
                }
                true
            })?;
            for name in marked {
                names.entry(name).or_insert(None);
            }
        }
        let shown = names.into_iter().filter_map(|(name, found)| Some((name, found?)));
        Ok(Self::Merged(shown.collect()))
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::One { hidden } => hidden.len() * size_of::<u64>(),
            Self::Merged(names) => {
                let entry = size_of::<(Box<[u8]>, Part)>() + 16;
                names.iter().map(|(name, _)| name.len() + entry).sum()
            }
        }
    }

    /// Calls `each` with the entries from index `first` on, until it returns false.
    pub(super) fn each(
        &self,
        layers: &[Layer],
        parts: &[Part],
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError> {
        match self {
            Self::One { hidden } => {
                let part = parts.first().ok_or(ViewError::NotFound)?;
                let layer = &layers[part.layer];
                let begin = hidden.iter().fold(first, |at, &hidden| at + u64::from(hidden <= at));
                let mut index = begin;
                let mut outcome = Ok(());
                layer.view.list(part.inode, begin, &mut |entry| {
                    index += 1;
                    if hidden.binary_search(&(index - 1)).is_ok() {
                        return true;
                    }
                    match layer.ours(entry.attributes) {
                        Ok(attributes) => each(Entry { name: entry.name, attributes }),
                        Err(error) => {
                            outcome = Err(error);
                            false
                        }
                    }
                })?;
                outcome
            }
            Self::Merged(names) => {
                let first = usize::try_from(first).unwrap_or(usize::MAX);
                for (name, part) in names.iter().skip(first) {
                    let layer = &layers[part.layer];
                    let attributes = layer.ours(layer.view.attributes(part.inode)?)?;
                    if !each(Entry { name, attributes }) {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

fn is_hidden(name: &[u8], attributes: &Attributes) -> bool {
    name.starts_with(MARK) || is_whiteout(attributes)
}
