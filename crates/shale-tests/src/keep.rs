//! What other formats and programs keep of a tree: a manifest without the rest.

use crate::manifest::Manifest;

/// Programs and file systems choose where holes end.
pub fn without_holes(mut manifest: Manifest) -> Manifest {
    for record in manifest.records.values_mut() {
        record.data.clear();
    }
    manifest
}

/// Without entries of these kinds, letters as in a [`crate::manifest::Record`].
pub fn without_kinds(mut manifest: Manifest, kinds: &str) -> Manifest {
    manifest.records.retain(|_, record| !kinds.contains(record.kind));
    manifest
}

/// Each name of entries of these kinds is one of its own.
pub fn names_apart(mut manifest: Manifest, kinds: &str) -> Manifest {
    for (path, record) in &mut manifest.records {
        if kinds.contains(record.kind) {
            record.link_count = 1;
            record.first_name.clone_from(path);
        }
    }
    manifest
}

/// Whole seconds from 1970 to 2106; others are the nearest.
pub fn in_seconds(mut manifest: Manifest) -> Manifest {
    for record in manifest.records.values_mut() {
        record.mtime = (record.mtime.0.clamp(0, i64::from(u32::MAX)), 0);
    }
    manifest
}

/// Without extended attributes, but those whose names begin so.
pub fn with_xattrs(mut manifest: Manifest, prefixes: &[&str]) -> Manifest {
    for record in manifest.records.values_mut() {
        let is_kept = |name: &[u8]| prefixes.iter().any(|p| name.starts_with(p.as_bytes()));
        record.xattrs.retain(|name, _| is_kept(name));
    }
    manifest
}

/// What our own SquashFS keeps: no access control lists; holes by blocks.
pub fn as_squashfs(manifest: Manifest) -> Manifest {
    in_seconds(without_holes(with_xattrs(manifest, &["user.", "trusted.", "security."])))
}
