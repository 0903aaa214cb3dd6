//! Paths that contain a text, found between keys: some entries at a time.

use shale::read::{Attributes, ReadError, Tree, Walk};

use super::place::top_for;

/// Paths that are kept.
const FOUND_MAX: usize = 10_000;
/// Entries that are looked at before the next key.
const STEP: usize = 5_000;

/// A search in a whole tree.
pub struct Search {
    pub wanted: String,
    walk: Option<Walk>,
    pub found: Vec<(Vec<u8>, Attributes)>,
    /// Entries that were looked at.
    pub seen: u64,
    /// Entries that could not be read.
    pub unread: u64,
    pub cursor: usize,
    pub top: usize,
}

impl Search {
    /// Begins a search.
    ///
    /// # Errors
    /// The root cannot be read.
    pub fn new(tree: &Tree, wanted: String) -> Result<Self, ReadError> {
        let walk = Some(tree.walk(tree.root_inode())?);
        Ok(Self { wanted, walk, found: Vec::new(), seen: 0, unread: 0, cursor: 0, top: 0 })
    }

    /// Whether there is more to look at.
    pub fn is_running(&self) -> bool {
        self.walk.is_some()
    }

    /// Ends the search; what was found stays.
    pub fn stop(&mut self) {
        self.walk = None;
    }

    /// Looks at some entries.
    pub fn step(&mut self) {
        let Some(walk) = &mut self.walk else { return };
        for _ in 0..STEP {
            match walk.advance() {
                Ok(Some(step)) => {
                    self.seen += 1;
                    if step.depth > 0 && contains(step.name(), &self.wanted) {
                        self.found.push((step.path.to_vec(), step.attributes));
                    }
                }
                Ok(None) => {
                    self.walk = None;
                    return;
                }
                // The walk goes on with the next entry.
                Err(_) => self.unread += 1,
            }
            if self.found.len() == FOUND_MAX || self.unread > FOUND_MAX as u64 {
                self.walk = None;
                return;
            }
        }
    }

    /// What to say about it.
    pub fn state(&self) -> String {
        let state = match (self.is_running(), self.found.len()) {
            (true, _) => "searching, Esc stops",
            (false, FOUND_MAX) => "there may be more",
            (false, _) => "done",
        };
        let unread = match self.unread {
            0 => String::new(),
            count => format!(", {count} entries cannot be read"),
        };
        format!("{} found among {}{unread}; {state}", self.found.len(), self.seen)
    }

    /// Keeps the cursor on a screen of `height` lines.
    pub fn fit(&mut self, height: usize) {
        self.top = top_for(self.cursor, self.top, height);
    }
}

/// Whether a name contains a text. Without capitals in the text, those of the name do not count.
pub fn contains(name: &[u8], wanted: &str) -> bool {
    if wanted.is_empty() {
        return false;
    }
    if wanted.chars().any(char::is_uppercase) {
        return name.windows(wanted.len()).any(|part| part == wanted.as_bytes());
    }
    match str::from_utf8(name) {
        Ok(name) => name.to_lowercase().contains(wanted),
        Err(_) => name.windows(wanted.len()).any(|p| p.eq_ignore_ascii_case(wanted.as_bytes())),
    }
}
