//! The other names of the program, by which mount(8), mkfs(8) and fsck(8) call it.
//!
//! Their calling conventions are turned into a subcommand and its options here, and nowhere else:
//! `mount.shale IMAGE DIR [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`, `shale IMAGE DIR -o
//! remount,OPTIONS`, as mount.fuse(8) says it for a mount that is there already, `mkfs.shale IMAGE
//! SOURCE`, and `fsck.shale` with the answers it is given beforehand, which a check that changes
//! nothing has no use for.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::exit::Dialect;

/// mount(8) was called with `-f`: everything but the mounting itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Fake;

/// The command line as `shale` understands it, and whose exit codes are expected.
pub fn translate(mut words: Vec<OsString>) -> Result<(Vec<OsString>, Dialect), Fake> {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    match name.map(|name| name.as_bytes()) {
        Some(b"mount.shale") => Ok((for_mount(&words[1..])?, Dialect::Mount)),
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
            if is_remount(words.get(1..).unwrap_or_default()) {
                words.insert(1, "mount".into());
            }
            Ok((words, Dialect::Shale))
        }
    }
}

/// Whether mount.fuse(8) asks for other options of a mount, to be told that there are none.
fn is_remount(words: &[OsString]) -> bool {
    let [_, _, option, options] = words else { return false };
    option == "-o" && options.as_bytes().split(|&byte| byte == b',').any(|o| o == b"remount")
}

fn for_mount(words: &[OsString]) -> Result<Vec<OsString>, Fake> {
    let mut out: Vec<OsString> = vec!["shale".into(), "mount".into()];
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_bytes() {
            // The type and the namespace are mount(8)'s own business.
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
            _ => out.push(word.clone()),
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
    fn calls_of_mount_mkfs_and_fsck_are_understood() {
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
        assert_eq!(of("shale mount -f a b"), ("shale mount -f a b".into(), Dialect::Shale));
    }
}
