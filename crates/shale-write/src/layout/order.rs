//! Finds the order in which contents are stored: near-copies next to each other, the order of the
//! source, or by path. Contents of a list come before all others.
//!
//! Memory: that of [`crate::layout::similarity`], or the paths of all contents where the order is
//! by path.

use std::collections::HashMap;

use crate::layout::similarity::SimilarityOrder;
use crate::plan::order::Order;

/// Finds the order while contents come in.
pub(crate) struct LayoutOrder {
    order: Order,
    similarity: SimilarityOrder,
    /// Sort key of each content; empty where the order does not need it.
    keys: Vec<Vec<u8>>,
    /// Rank in the list, by path.
    listed: HashMap<Vec<u8>, u32>,
    /// Rank in the list, by content.
    ranks: HashMap<u32, u32>,
}

impl LayoutOrder {
    /// Starts without contents. `first` are the paths of the list, as the source writes them.
    pub(crate) fn new(order: Order, first: &[Vec<u8>]) -> Self {
        let mut listed = HashMap::new();
        for (path, rank) in first.iter().zip(0..) {
            listed.entry(path.clone()).or_insert(rank);
        }
        Self {
            order,
            similarity: SimilarityOrder::default(),
            keys: Vec::new(),
            listed,
            ranks: HashMap::new(),
        }
    }

    /// Adds the next content. `len` is its length without holes.
    pub(crate) fn push(&mut self, sketch: &[u64], len: u64) {
        self.similarity.push(if self.order == Order::Similarity { sketch } else { &[] }, len);
        if matches!(self.order, Order::Path | Order::ReversePath) {
            self.keys.push(Vec::new());
        }
    }

    /// Notes that a file at `path` has content `index`.
    pub(crate) fn note_path(&mut self, index: u32, path: &[u8]) {
        if let Some(key) = self.keys.get_mut(index as usize).filter(|key| key.is_empty()) {
            key.extend_from_slice(path);
            match self.order {
                Order::ReversePath => key.reverse(),
                // A directory's entries come before a sibling whose name is longer.
                _ => key.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = 0),
            }
        }
        if let Some(&rank) = self.listed.get(path) {
            let least = self.ranks.entry(index).or_insert(rank);
            *least = rank.min(*least);
        }
    }

    /// Number of contents that resemble an earlier one.
    pub(crate) fn similar_count(&self) -> u64 {
        self.similarity.similar_count()
    }

    /// Number of contents that the list names.
    pub(crate) fn listed_count(&self) -> u64 {
        self.ranks.len() as u64
    }

    /// Returns the indexes of all contents in order. Costs a sort.
    pub(crate) fn finish(self) -> Vec<u32> {
        let mut order = self.similarity.finish();
        if !self.keys.is_empty() {
            order.sort_by(|a, b| self.keys[*a as usize].cmp(&self.keys[*b as usize]));
        }
        if !self.ranks.is_empty() {
            order.sort_by_key(|index| self.ranks.get(index).copied().unwrap_or(u32::MAX));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(order: Order, first: &[&str]) -> Vec<u32> {
        let first: Vec<_> = first.iter().map(|path| path.as_bytes().to_vec()).collect();
        let mut layout_order = LayoutOrder::new(order, &first);
        for (index, path) in ["b/x.h", "a/y.c", "a.c", "a/z.h", "b/y.c"].into_iter().enumerate() {
            layout_order.push(&[], 10);
            layout_order.note_path(index as u32, path.as_bytes());
        }
        layout_order.note_path(0, b"again/x.h");
        layout_order.finish()
    }

    #[test]
    fn each_order_is_what_it_says() {
        assert_eq!(ordered(Order::Source, &[]), [0, 1, 2, 3, 4]);
        assert_eq!(ordered(Order::Similarity, &[]), [0, 1, 2, 3, 4]);
        assert_eq!(ordered(Order::Path, &[]), [1, 3, 2, 0, 4]);
        assert_eq!(ordered(Order::ReversePath, &[]), [2, 1, 4, 0, 3]);
    }

    #[test]
    fn what_is_listed_comes_first_in_the_order_of_the_list() {
        assert_eq!(ordered(Order::Source, &["b/y.c", "missing", "a/y.c"]), [4, 1, 0, 2, 3]);
        assert_eq!(ordered(Order::ReversePath, &["again/x.h", "a.c", "b/x.h"]), [0, 2, 1, 4, 3]);
    }
}
