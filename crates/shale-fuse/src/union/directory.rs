//! The directories of a union: which directories of the layers each consists of.
//!
//! All of it can be found again from the path of a directory, so that it is kept only as long as
//! there is room.

use super::layer::Part;
use super::listing::Listing;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Directories that are remembered.
const DIRECTORIES_MAX: usize = 1 << 16;
/// Bytes of all listings that are remembered.
const LISTING_BYTES_MAX: usize = 64 << 20;

/// A directory: one directory, or several that are shown as one.
pub(super) struct Directory {
    pub(super) number: u64,
    /// At least one, from the top.
    pub(super) parts: Vec<Part>,
    listing: OnceLock<Arc<Listing>>,
}

impl Directory {
    pub(super) fn new(number: u64, parts: Vec<Part>) -> Self {
        Self { number, parts, listing: OnceLock::new() }
    }

    /// Returns the entries, if they are remembered.
    pub(super) fn listing(&self) -> Option<Arc<Listing>> {
        self.listing.get().cloned()
    }
}

/// The directories that are remembered.
#[derive(Default)]
pub(super) struct Directories {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_number: HashMap<u64, Arc<Directory>>,
    listing_bytes: usize,
}

impl Kept {
    fn clear(&mut self) {
        self.by_number.clear();
        self.listing_bytes = 0;
    }
}

impl Directories {
    pub(super) fn get(&self, number: u64) -> Option<Arc<Directory>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).by_number.get(&number).cloned()
    }

    /// Remembers a directory, and forgets all others if they are too many.
    pub(super) fn add(&self, directory: Directory) -> Arc<Directory> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.by_number.len() >= DIRECTORIES_MAX {
            kept.clear();
        }
        let directory = Arc::new(directory);
        kept.by_number.insert(directory.number, Arc::clone(&directory));
        directory
    }

    /// Remembers the entries of a directory, if there is room for them.
    pub(super) fn keep(&self, directory: &Directory, listing: Listing) -> Arc<Listing> {
        let len = listing.bytes();
        let listing = Arc::new(listing);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.listing_bytes.saturating_add(len) > LISTING_BYTES_MAX {
            kept.clear();
        }
        kept.listing_bytes = kept.listing_bytes.saturating_add(len);
        drop(kept);
        Arc::clone(directory.listing.get_or_init(|| listing))
    }

    pub(super) fn clear(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
