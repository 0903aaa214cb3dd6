//! Names the format of a file that was given where an image is expected.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use shale::foreign::detect::{DETECT_LEN, Format, detect};

use crate::text;

/// Files that only this program knows, and file systems: an offset, the bytes there, and a name.
const OTHERS: &[(u64, &[u8], &str)] = &[
    (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (0, b"shale-signature ", "a signature of an image; give the image itself"),
    (0, b"shale-secret-key ", "a key; give the image itself"),
    (0, b"shale-public-key ", "a key; give the image itself"),
];

/// Describes what a file is instead of an image, and what to do with it, if its format is known.
pub fn describe(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))?;
    (&file).take(DETECT_LEN as u64).read_to_end(&mut head).ok()?;
    let is_at = |offset: u64, magic: &[u8]| {
        let mut bytes = vec![0; magic.len()];
        file.read_exact_at(&mut bytes, offset).is_ok() && bytes == magic
    };
    if let Some((.., name)) = OTHERS.iter().find(|(offset, magic, _)| is_at(*offset, magic)) {
        return Some(format!("this is {name}"));
    }
    // A block of zeros is the end of a tar archive, but by itself it can be anything.
    let is_empty = head[..head.len().min(1024)].iter().all(|&byte| byte == 0);
    let name = match detect(&head)? {
        Format::Unsupported(name, reader) => {
            return Some(format!("this is another format: {name}, for {reader}"));
        }
        Format::Tar if is_empty => return None,
        Format::Tar => "a tar archive",
        Format::Cpio => "a cpio archive",
        Format::Compressed(_) => "a compressed file",
        Format::Squashfs => "a SquashFS image",
        Format::Zip => "a zip archive",
        Format::Dwarfs => "a DwarFS image",
        Format::Ar => "a Debian package or ar archive",
        Format::Rpm => "an RPM package",
        Format::Sevenz => "a 7z archive",
        Format::Iso => "an ISO 9660 image",
        Format::Erofs => "an EROFS image",
        Format::Xar => "a xar archive",
        Format::Cab => "a cabinet archive",
        Format::Rar => "a RAR archive",
    };
    let image = path.with_extension("shale");
    let shown = [path, &image].map(text::quoted);
    Some(format!("this is {name}; `shale create {} -o {}` converts it", shown[0], shown[1]))
}

/// Checks that a file is no archive that `shale create` reads.
pub fn is_plain(path: &Path) -> bool {
    let mut head = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(DETECT_LEN as u64).read_to_end(&mut head));
    read.is_ok() && !head.starts_with(b"\x8bSHALE\r\n") && detect(&head).is_none()
}
