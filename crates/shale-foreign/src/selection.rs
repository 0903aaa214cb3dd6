//! Filter rules on the entries of an archive, which come in any order.

use std::sync::Arc;

use shale_model::{InodeKind, Select};

/// The rules of a build, and what they said of the directories above the last entry.
#[derive(Default)]
pub struct Selection {
    rules: Option<Arc<dyn Select>>,
    /// The parent of the last entry.
    parent: Vec<u8>,
    /// The first of its directories, itself included, that the rules leave out.
    excluded_len: Option<usize>,
}

impl Selection {
    /// Applies `rules` to all entries; without rules, every entry is taken.
    pub fn new(rules: Option<Arc<dyn Select>>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Returns true if the rules take an entry and all directories above it. The root is always
    /// taken.
    pub fn takes(&mut self, path: &[u8], kind: InodeKind) -> bool {
        let Some(rules) = &self.rules else { return true };
        let parent_len = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let parent = &path[..parent_len];
        if parent != self.parent {
            let shared = self.parent.iter().zip(parent).take_while(|(a, b)| a == b).count();
            // An excluded directory excludes what is below it, a taken one need not be asked again.
            let still = |len: usize| len <= shared && matches!(parent.get(len), None | Some(b'/'));
            self.excluded_len = match self.excluded_len {
                Some(len) if still(len) => Some(len),
                excluded => {
                    let known = if excluded.is_some() { 0 } else { shared };
                    let slashes = parent.iter().enumerate().filter(|(_, byte)| **byte == b'/');
                    let ends = slashes.map(|(at, _)| at).chain([parent_len]);
                    let mut asked = ends.filter(|&end| end > 0 && end >= known);
                    asked.find(|&end| !rules.takes(&parent[..end], InodeKind::Directory))
                }
            };
            self.parent = parent.to_vec();
        }
        path.is_empty() || (self.excluded_len.is_none() && rules.takes(path, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct NoX(AtomicUsize);

    impl Select for NoX {
        fn takes(&self, path: &[u8], _: InodeKind) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            !path.ends_with(b"x")
        }
    }

    #[test]
    fn what_lies_below_an_excluded_directory_is_excluded() {
        let rules = Arc::new(NoX::default());
        let mut selection = Selection::new(Some(Arc::clone(&rules) as Arc<dyn Select>));
        for (path, expected) in [
            ("a/x/b/c", false),
            ("a/x/b/d", false),
            ("a/x/e", false),
            ("a/b/c", true),
            ("a/xy/c", true),
            ("a/xy/x", false),
            ("x/a", false),
            ("b", true),
            ("", true),
            ("x", false),
            ("xy/b", true),
        ] {
            assert_eq!(selection.takes(path.as_bytes(), InodeKind::File), expected, "{path}");
        }
    }

    #[test]
    fn directories_above_are_asked_once() {
        let rules = Arc::new(NoX::default());
        let mut selection = Selection::new(Some(Arc::clone(&rules) as Arc<dyn Select>));
        let deep = "d/".repeat(1000);
        for file in 0..100 {
            assert!(selection.takes(format!("{deep}{file}").as_bytes(), InodeKind::File));
        }
        assert_eq!(rules.0.load(Ordering::Relaxed), 1000 + 100);
    }
}
