//! The program names by which mount(8), mkfs(8) and fsck(8) call the command.
//!
//! This module alone translates their calling conventions into a subcommand and its options:
//! - `mount.shale` or `mount.fuse.shale IMAGE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`,
//! - `shale IMAGE DIR [-o OPTIONS]`, by which mount.fuse(8) calls it for the type `fuse.shale` and
//!   for the source `shale#IMAGE`,
//! - `mkfs.shale IMAGE SOURCE`,
//! - `fsck.shale` with `-a`, `-p`, `-y`, `-n` and `-f`, which mean nothing to a check that only
//!   reads.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::exit::Dialect;

/// mount(8) was called with `-f`: do everything except the mount itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Fake;

/// Translates the command line for `shale` and selects the exit codes for its caller.
///
/// # Errors
/// mount(8) asked for a fake mount.
pub fn translate(mut words: Vec<OsString>) -> Result<(Vec<OsString>, Dialect), Fake> {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    match name.map(|name| name.as_bytes()) {
        Some(b"mount.shale" | b"mount.fuse.shale") => Ok((for_mount(&words[1..])?, Dialect::Mount)),
        Some(b"mkfs.shale") => {
            words.insert(1, "mkfs".into());
            Ok((words, Dialect::Shale))
        }
        Some(b"fsck.shale") => {
            words.retain(|word| !matches!(word.as_bytes(), b"-a" | b"-p" | b"-y" | b"-n" | b"-f"));
            words.insert(1, "check".into());
            Ok((words, Dialect::Fsck))
        }
        _ => {
            if is_mount(words.get(1..).unwrap_or_default()) {
                words.insert(1, "mount".into());
            }
            Ok((words, Dialect::Shale))
        }
    }
}

/// Checks whether mount.fuse(8) calls the program, which passes no subcommand but the paths of an
/// image and of a directory.
fn is_mount(words: &[OsString]) -> bool {
    let image = match words {
        [image, dir] if dir.as_bytes().contains(&b'/') => image,
        [image, _, option, _] if option == "-o" => image,
        _ => return false,
    };
    // No subcommand looks like this.
    image.as_bytes().contains(&b'/') || image.as_bytes().ends_with(b".shale")
}

fn for_mount(words: &[OsString]) -> Result<Vec<OsString>, Fake> {
    let mut out: Vec<OsString> = vec!["shale".into(), "mount".into()];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_bytes() {
            // mount(8) handles the type and the namespace itself.
            b"-t" | b"-N" => drop(words.next()),
            [b'-', letters @ ..]
                if !letters.is_empty() && letters.iter().all(|l| b"sfnvr".contains(l)) =>
            {
                if letters.contains(&b'f') {
                    return Err(Fake);
                }
                if letters.contains(&b'v') {
                    out.push("-v".into());
                }
            }
            // As fstab(5) names the type in the source.
            _ => match word.as_bytes().strip_prefix(b"shale#") {
                Some(image) => out.push(OsStr::from_bytes(image).into()),
                None => out.push(word.clone()),
            },
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Result<(String, Dialect), Fake> {
        let (words, dialect) = translate(line.split(' ').map(OsString::from).collect())?;
        Ok((words.join(" ".as_ref()).into_string().unwrap(), dialect))
    }

    #[test]
    fn calls_by_mount_mkfs_and_fsck_are_translated() {
        let of = |line: &str| translated(line).unwrap();
        assert_eq!(
            of("/sbin/mount.shale a.shale /mnt -sn -v -t fuse.shale -N /proc/1/ns/mnt -o ro,dev"),
            ("shale mount a.shale /mnt -v -o ro,dev".into(), Dialect::Mount)
        );
        assert_eq!(translated("mount.shale a /mnt -fn -o ro"), Err(Fake));
        assert_eq!(
            of("mkfs.shale -9 a.shale tree"),
            ("mkfs.shale mkfs -9 a.shale tree".into(), Dialect::Shale)
        );
        assert_eq!(
            of("fsck.shale -a -y a.shale"),
            ("fsck.shale check a.shale".into(), Dialect::Fsck)
        );
        assert_eq!(
            of("shale /a.shale /mnt -o remount,ro,dev"),
            ("shale mount /a.shale /mnt -o remount,ro,dev".into(), Dialect::Shale)
        );
        assert_eq!(
            of("shale ./a.shale /mnt"),
            ("shale mount ./a.shale /mnt".into(), Dialect::Shale)
        );
        assert_eq!(
            of("mount.fuse.shale shale#a.shale /mnt -o rw"),
            ("shale mount a.shale /mnt -o rw".into(), Dialect::Mount)
        );
        assert_eq!(of("shale ls /a.shale"), ("shale ls /a.shale".into(), Dialect::Shale));
        assert_eq!(of("shale mount -f a b"), ("shale mount -f a b".into(), Dialect::Shale));
    }
}
