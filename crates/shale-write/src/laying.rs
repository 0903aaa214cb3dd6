//! The order in which contents are laid: near-copies behind each other, as the source has them, or
//! by path; and before all others those that a list names.
//!
//! Memory: what [`crate::kin`] takes, or the paths of all contents where they are laid by path.

use std::collections::HashMap;
use std::fmt;

use crate::kin::KinOrder;

/// In which order contents are laid where nothing else counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Near-copies behind each other, see [`crate::kin`]; what has none as the source has it.
    Similarity,
    /// As the source has them: by path from a directory, as an archive has them from an archive.
    Source,
    /// By the path that a content is met under first.
    Path,
    /// By that path read from its end, so that files of one name and kind meet.
    ReversePath,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Similarity => "similarity",
            Order::Source => "none",
            Order::Path => "path",
            Order::ReversePath => "revpath",
        })
    }
}

/// Finds the order while contents come in.
pub(crate) struct Laying {
    order: Order,
    kin: KinOrder,
    /// What paths compare by, of each content; empty where the order does not ask for it.
    keys: Vec<Vec<u8>>,
    /// Place in the list, of each path in it.
    listed: HashMap<Vec<u8>, u32>,
    /// Place in the list, of each content that has one.
    places: HashMap<u32, u32>,
}

impl Laying {
    /// No content yet. `first` are paths as the source writes them.
    pub(crate) fn new(order: Order, first: &[Vec<u8>]) -> Self {
        let mut listed = HashMap::new();
        for (path, place) in first.iter().zip(0..) {
            listed.entry(path.clone()).or_insert(place);
        }
        Self { order, kin: KinOrder::default(), keys: Vec::new(), listed, places: HashMap::new() }
    }

    /// Adds the next content; `len` are its bytes without holes.
    pub(crate) fn push(&mut self, sketch: &[u64], len: u64) {
        self.kin.push(if self.order == Order::Similarity { sketch } else { &[] }, len);
        if matches!(self.order, Order::Path | Order::ReversePath) {
            self.keys.push(Vec::new());
        }
    }

    /// A file at `path` has content `index`.
    pub(crate) fn met(&mut self, index: u32, path: &[u8]) {
        if let Some(key) = self.keys.get_mut(index as usize).filter(|key| key.is_empty()) {
            key.extend_from_slice(path);
            match self.order {
                Order::ReversePath => key.reverse(),
                // What is below a directory comes before its longer-named sibling.
                _ => key.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = 0),
            }
        }
        if let Some(&place) = self.listed.get(path) {
            let least = self.places.entry(index).or_insert(place);
            *least = place.min(*least);
        }
    }

    /// Contents that have kin.
    pub(crate) fn kin_count(&self) -> u64 {
        self.kin.kin_count()
    }

    /// Contents that the list names.
    pub(crate) fn listed_count(&self) -> u64 {
        self.places.len() as u64
    }

    /// The numbers of all contents in the order found. Time: a sort.
    pub(crate) fn finish(self) -> Vec<u32> {
        let mut order = self.kin.finish();
        if !self.keys.is_empty() {
            order.sort_by(|a, b| self.keys[*a as usize].cmp(&self.keys[*b as usize]));
        }
        if !self.places.is_empty() {
            order.sort_by_key(|index| self.places.get(index).copied().unwrap_or(u32::MAX));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(order: Order, first: &[&str]) -> Vec<u32> {
        let first: Vec<_> = first.iter().map(|path| path.as_bytes().to_vec()).collect();
        let mut laying = Laying::new(order, &first);
        for (index, path) in ["b/x.h", "a/y.c", "a.c", "a/z.h", "b/y.c"].into_iter().enumerate() {
            laying.push(&[], 10);
            laying.met(index as u32, path.as_bytes());
        }
        laying.met(0, b"again/x.h");
        laying.finish()
    }

    #[test]
    fn each_order_is_what_it_says() {
        assert_eq!(laid(Order::Source, &[]), [0, 1, 2, 3, 4]);
        assert_eq!(laid(Order::Similarity, &[]), [0, 1, 2, 3, 4]);
        assert_eq!(laid(Order::Path, &[]), [1, 3, 2, 0, 4]);
        assert_eq!(laid(Order::ReversePath, &[]), [2, 1, 4, 0, 3]);
    }

    #[test]
    fn what_is_listed_comes_first_in_the_order_of_the_list() {
        assert_eq!(laid(Order::Source, &["b/y.c", "missing", "a/y.c"]), [4, 1, 0, 2, 3]);
        assert_eq!(laid(Order::ReversePath, &["again/x.h", "a.c", "b/x.h"]), [0, 2, 1, 4, 3]);
    }
}
