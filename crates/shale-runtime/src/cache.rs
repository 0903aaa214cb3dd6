//! Copies of images, for machines where nothing can be mounted.
//!
//! A copy has the name of the image's identity, so a bundle that was updated gets a new one. It is
//! made under another name and renamed when it is complete. Nothing removes copies: the user may,
//! at any time when no program runs from them.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use shale_read::{Identity, SnapshotChoice};

use crate::bundle::OwnBundle;
use crate::extract::extract;
use crate::failure::{During, Failure};
use crate::place::UserDirectory;

/// Returns the directory of the copies: in `$XDG_CACHE_HOME`, `~/.cache`, or that of the mounts.
fn place() -> Result<UserDirectory, Failure> {
    let absolute = |name| {
        std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
    };
    let home = || Some(absolute("HOME")?.join(".cache"));
    let Some(cache) = absolute("XDG_CACHE_HOME").or_else(home) else {
        return UserDirectory::open();
    };
    let path = cache.join("shale-bundles");
    match std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&path) {
        Ok(()) => Ok(UserDirectory::at(path)),
        Err(_) => UserDirectory::open(),
    }
}

/// Returns the directory of the copy of this bundle's image, and makes the copy if it is not there.
///
/// # Errors
/// The image is damaged, or the copy cannot be written.
pub fn directory(own: &OwnBundle, expect: Option<Identity>) -> Result<PathBuf, Failure> {
    let image = own.image(expect, Some(0))?;
    let mut name = match image.identity().during("read the identity of the image")? {
        Some((_, identity)) => identity.to_string(),
        None => format!("{:032x}", u128::from_be_bytes(image.superblock().image_id)),
    };
    name.truncate(32);
    if expect.is_some() {
        // A copy that was made without the check may have other bytes.
        name.push_str("-verified");
    }
    let place = place()?;
    let path = place.path().join(&name);
    let lock = place.lock(&name)?;
    if !path.is_dir() {
        let partial = place.path().join(format!("{name}.part"));
        if partial.exists() {
            // Of a start that was interrupted.
            let gone = std::fs::remove_dir_all(&partial);
            gone.during(format_args!("remove {}", partial.display()))?;
        }
        let tree = image.tree(&SnapshotChoice::Newest).during("read the image")?;
        extract(&tree, &partial, None, &mut |_| ())?;
        let renamed = std::fs::rename(&partial, &path);
        renamed.during(format_args!("make {}", path.display()))?;
    }
    lock.remove();
    Ok(path)
}
