//! The directories on the way to an entry, for exporters whose formats have no paths.
//!
//! One path is kept for all of them, so memory is linear in the longest path.

/// Directories, each in the one before, and what an exporter keeps of each.
#[derive(Debug)]
pub(crate) struct Way<T> {
    /// The path of the last directory.
    path: Vec<u8>,
    /// With the lengths of their paths. The root has the empty path.
    directories: Vec<(usize, T)>,
}

impl<T> Way<T> {
    pub(crate) fn new() -> Self {
        Self { path: Vec::new(), directories: Vec::new() }
    }

    /// Returns what is kept of the last directory.
    pub(crate) fn last(&self) -> Option<&T> {
        self.directories.last().map(|(_, kept)| kept)
    }

    /// Leaves the directories that `path` is not in; returns how many.
    pub(crate) fn climb(&mut self, path: &[u8]) -> usize {
        let shared = self.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        let is_in = |len: usize| len == 0 || (len <= shared && path.get(len) == Some(&b'/'));
        let mut left = 0;
        while let Some((len, _)) = self.directories.last()
            && !is_in(*len)
        {
            self.leave();
            left += 1;
        }
        left
    }

    /// Enters the directory `path`, which is in the last one.
    pub(crate) fn enter(&mut self, path: &[u8], kept: T) {
        self.path.truncate(self.directories.last().map_or(0, |(len, _)| *len));
        let new = path.get(self.path.len()..).unwrap_or_default();
        self.path.extend_from_slice(new);
        self.directories.push((path.len(), kept));
    }

    /// Leaves the last directory.
    pub(crate) fn leave(&mut self) -> Option<T> {
        let (_, kept) = self.directories.pop()?;
        self.path.truncate(self.directories.last().map_or(0, |(len, _)| *len));
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::Way;

    #[test]
    fn directories_are_left_that_a_path_is_not_in() {
        let mut way = Way::new();
        assert_eq!(way.climb(b""), 0);
        for (number, path) in ["", "a", "a/b", "a/b/c"].iter().enumerate() {
            assert_eq!(way.climb(path.as_bytes()), 0);
            way.enter(path.as_bytes(), number);
        }
        assert_eq!((way.climb(b"a/b/c/file"), way.last()), (0, Some(&3)));
        assert_eq!((way.climb(b"a/b/cd"), way.last()), (1, Some(&2)));
        way.enter(b"a/b/cd", 4);
        assert_eq!((way.climb(b"a/b/cd"), way.last()), (1, Some(&2)));
        assert_eq!((way.climb(b"ab"), way.last()), (2, Some(&0)));
        assert_eq!((way.climb(b"x/y"), way.last()), (0, Some(&0)));
        assert_eq!((way.leave(), way.leave()), (Some(0), None));
    }

    #[test]
    fn one_path_is_kept_however_many_directories_are_open() {
        let mut way = Way::new();
        let path = "d/".repeat(8000);
        for end in (0..path.len()).step_by(2) {
            way.enter(&path.as_bytes()[..end.saturating_sub(1)], ());
        }
        assert!(way.path.len() < path.len() && way.path.capacity() <= 2 * path.len());
    }
}
