//! A share of the inputs, so that several builds pack one tree together.
//!
//! Shares are intervals of paths in path order: names are compared one by one, by their bytes. So
//! shares that follow each other contain every path exactly once, also the path of a file that
//! was made after the shares were cut. A directory that leads to a path of a share is in it, too.

use std::cmp::Ordering;
use std::collections::HashSet;

use shale_format::InodeKind;

/// Which paths of the inputs one build packs. Paths are those in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// The paths from `start` on, before `end`, in path order.
    Interval {
        /// The first path; empty for the root.
        start: Vec<u8>,
        /// The first path that is not in the share; `None` if the share has no end.
        end: Option<Vec<u8>>,
        /// Paths between them that are in another share.
        without: HashSet<Vec<u8>>,
    },
    /// Single paths that are no directories, such as all names of an inode.
    Paths {
        /// The paths.
        paths: HashSet<Vec<u8>>,
        /// The directories that lead to them.
        directories: HashSet<Vec<u8>>,
    },
}

impl Share {
    /// Returns the share of `paths`, which are no directories.
    pub fn paths(paths: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let paths: HashSet<Vec<u8>> = paths.into_iter().collect();
        let mut directories = HashSet::new();
        for path in &paths {
            for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                directories.insert(path[..at].to_vec());
            }
        }
        Self::Paths { paths, directories }
    }

    /// Returns whether an entry is in the share, or is a directory that leads to one.
    pub(super) fn takes(&self, path: &[u8], kind: InodeKind) -> bool {
        let is_directory = kind == InodeKind::Directory;
        match self {
            _ if path.is_empty() => true,
            Self::Paths { directories, .. } if is_directory => directories.contains(path),
            Self::Paths { paths, .. } => paths.contains(path),
            Self::Interval { start, end, without } => {
                let is_before_end = match end {
                    None => true,
                    Some(end) => path_order(path, end).is_lt(),
                };
                let is_after_start = path_order(path, start).is_ge();
                is_before_end
                    && (is_after_start || (is_directory && leads_to(path, start)))
                    && (is_directory || without.is_empty() || !without.contains(path))
            }
        }
    }
}

/// Compares paths name by name: a directory, then all below it, then what follows it.
pub(crate) fn path_order(one: &[u8], other: &[u8]) -> Ordering {
    let names = |path| <[u8]>::split(path, |&byte: &u8| byte == b'/');
    names(one).cmp(names(other))
}

fn leads_to(directory: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [(&[u8], InodeKind); 8] = [
        (b"", InodeKind::Directory),
        (b"a", InodeKind::Directory),
        (b"a/b", InodeKind::Directory),
        (b"a/b/c", InodeKind::File),
        (b"a/b/d", InodeKind::File),
        (b"a/z", InodeKind::Symlink),
        (b"a b", InodeKind::File),
        (b"a!", InodeKind::Directory),
    ];

    fn interval(start: &[u8], end: Option<&[u8]>) -> Share {
        let end = end.map(<[u8]>::to_vec);
        Share::Interval { start: start.to_vec(), end, without: HashSet::new() }
    }

    #[test]
    fn path_order_goes_through_a_directory_before_what_follows_it() {
        assert!(PATHS.is_sorted_by(|one, other| path_order(one.0, other.0).is_lt()));
    }

    #[test]
    fn each_path_is_in_exactly_one_of_the_shares_that_a_cut_anywhere_makes() {
        for (cut, _) in &PATHS[1..] {
            let (before, after) = (interval(b"", Some(cut)), interval(cut, None));
            for (path, kind) in PATHS {
                let taken = [&before, &after].map(|share| share.takes(path, kind));
                match kind {
                    // One that leads to the cut is in both.
                    InodeKind::Directory => assert!(taken[0] || taken[1], "{path:?}"),
                    _ => assert!(taken[0] != taken[1], "{path:?}"),
                }
            }
        }
    }

    #[test]
    fn the_directories_of_a_share_are_those_that_lead_to_its_paths() {
        let taken = |share: &Share| -> Vec<&[u8]> {
            let taken = PATHS.iter().filter(|(path, kind)| share.takes(path, *kind));
            taken.map(|(path, _)| *path).collect()
        };
        assert_eq!(
            taken(&interval(b"a/b/d", Some(b"a b"))),
            [b"", &b"a"[..], b"a/b", b"a/b/d", b"a/z"]
        );
        assert_eq!(taken(&interval(b"a/z", Some(b"a b"))), [b"", &b"a"[..], b"a/z"]);
        let paths = Share::paths([b"a/b/c".to_vec(), b"a b".to_vec()]);
        assert_eq!(taken(&paths), [b"", &b"a"[..], b"a/b", b"a/b/c", b"a b"]);
        let mut without = interval(b"", None);
        if let Share::Interval { without, .. } = &mut without {
            without.extend([b"a/b/c".to_vec(), b"a/b".to_vec()]);
        }
        assert_eq!(taken(&without).len(), PATHS.len() - 1);
    }
}
