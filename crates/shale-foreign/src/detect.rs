//! Which format a file is of, by its bytes, never by its name.

use crate::compression::Compression;
use crate::cpio::is_cpio;
use crate::tar::{begins_with_header, is_tar};
use crate::{ar, cab, dwarfs, erofs, rpm, sevenz, squashfs, xar, zip};

/// Bytes of a file that are enough for [`detect`]. A Btrfs image has its magic at 64 KiB.
pub const DETECT_LEN: usize = 68 << 10;

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// tar, plain.
    Tar,
    /// cpio, plain.
    Cpio,
    /// A compressed stream, presumably of one of the former.
    Compressed(Compression),
    /// SquashFS.
    Squashfs,
    /// zip.
    Zip,
    /// DwarFS, at its start.
    Dwarfs,
    /// ar, or a Debian package.
    Ar,
    /// An RPM package.
    Rpm,
    /// 7z.
    Sevenz,
    /// ISO 9660.
    Iso,
    /// EROFS.
    Erofs,
    /// xar.
    Xar,
    /// A cabinet.
    Cab,
    /// RAR. A build without the feature `rar` finds it to be unsupported.
    Rar,
    /// A format that cannot be read: its name, and a program that reads it.
    Unsupported(&'static str, &'static str),
}

impl Format {
    /// Its name, as people know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tar => "tar archive",
            Self::Cpio => "cpio archive",
            Self::Compressed(compression) => compression.name(),
            Self::Squashfs => "SquashFS image",
            Self::Zip => "zip archive",
            Self::Dwarfs => "DwarFS image",
            Self::Ar => "ar archive or Debian package",
            Self::Rpm => "RPM package",
            Self::Sevenz => "7z archive",
            Self::Iso => "ISO 9660 image",
            Self::Erofs => "EROFS image",
            Self::Xar => "xar archive",
            Self::Cab => "cabinet archive",
            Self::Rar => "RAR archive",
            Self::Unsupported(name, _) => name,
        }
    }
}

/// The magic in the first descriptor of an ISO 9660 image.
const ISO_MAGIC_OFFSET: usize = 32_769;
const ISO_MAGIC: &[u8] = b"CD001";

/// Formats that are recognised to be named: offset, magic, name, and what reads them.
const UNSUPPORTED: &[(usize, &[u8], &str, &str)] = &[
    (32_769, b"BEA01", "UDF image", "mount -o loop or 7z"),
    #[cfg(not(feature = "rar"))]
    (0, b"Rar!\x1a\x07", "RAR archive", "unrar or bsdtar"),
    (0, b"RE~^", "RAR archive of before version 1.5", "unrar"),
    (0, b"!<thin>\n", "thin ar archive, which only names files elsewhere,", "a linker"),
    (0, b"MSWIM\0\0\0", "WIM image", "wimextract or 7z"),
    (0, b"sqsh", "big-endian SquashFS image of an old version", "an unsquashfs of its time"),
    (0, b"\x45\x3d\xcd\x28", "cramfs image", "mount -o loop or 7z"),
    (0, b"-rom1fs-", "romfs image", "mount -o loop"),
    (0, b"QFI\xfb", "qcow2 disk image", "qemu-nbd and mount"),
    (0, b"KDMV", "VMDK disk image", "qemu-nbd and mount"),
    (65_600, b"_BHRfS_M", "Btrfs image", "mount -o loop"),
    (0, b"XFSB", "XFS image", "mount -o loop"),
];

/// The format of a file that begins with `head`, [`DETECT_LEN`] bytes of it or all.
pub fn detect(head: &[u8]) -> Option<Format> {
    if let Some(compression) = Compression::detect(head) {
        return Some(Format::Compressed(compression));
    }
    if head.starts_with(squashfs::MAGIC) {
        return Some(Format::Squashfs);
    }
    if dwarfs::find(head) == Some(0) {
        return Some(Format::Dwarfs);
    }
    if zip::MAGICS.iter().any(|magic| head.starts_with(*magic)) {
        return Some(Format::Zip);
    }
    if head.starts_with(ar::MAGIC) {
        return Some(Format::Ar);
    }
    if head.starts_with(rpm::MAGIC) {
        return Some(Format::Rpm);
    }
    if head.starts_with(sevenz::MAGIC) {
        return Some(Format::Sevenz);
    }
    if head.starts_with(xar::MAGIC) {
        return Some(Format::Xar);
    }
    if head.starts_with(cab::MAGIC) {
        return Some(Format::Cab);
    }
    #[cfg(feature = "rar")]
    if head.starts_with(crate::rar::MAGIC) {
        return Some(Format::Rar);
    }
    if is_cpio(head) {
        return Some(Format::Cpio);
    }
    // Files in a tar archive may be images; what begins with zeroes may be a disk.
    if begins_with_header(head) {
        return Some(Format::Tar);
    }
    let is_at = |at: usize, magic: &[u8]| head.get(at..).is_some_and(|h| h.starts_with(magic));
    if is_at(ISO_MAGIC_OFFSET, ISO_MAGIC) {
        return Some(Format::Iso);
    }
    if is_at(erofs::MAGIC_OFFSET, erofs::MAGIC) {
        return Some(Format::Erofs);
    }
    if is_ext(head) {
        return Some(Format::Unsupported("ext2, ext3 or ext4 image", "mount -o loop"));
    }
    let named = UNSUPPORTED
        .iter()
        .find(|(at, magic, ..)| head.get(*at..).is_some_and(|bytes| bytes.starts_with(magic)));
    if let Some((_, _, name, reader)) = named {
        return Some(Format::Unsupported(name, reader));
    }
    if is_partitioned(head) {
        return Some(Format::Unsupported("disk image", "losetup --partscan and mount"));
    }
    is_tar(head).then_some(Format::Tar)
}

/// The magic of ext has two bytes, so the size of its blocks has to be right, too.
fn is_ext(head: &[u8]) -> bool {
    head.get(1080..1082) == Some(b"\x53\xef") && matches!(head[1048..1052], [0..=6, 0, 0, 0])
}

/// A master boot record with a first partition.
fn is_partitioned(head: &[u8]) -> bool {
    head.get(510..512) == Some(b"\x55\xaa") && matches!(head[446], 0 | 0x80) && head[450] != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_others_are_named() {
        let at = |offset: usize, magic: &[u8]| {
            let mut bytes = vec![0; DETECT_LEN];
            bytes[offset..offset + magic.len()].copy_from_slice(magic);
            detect(&bytes)
        };
        for (offset, magic, name, reader) in UNSUPPORTED {
            assert_eq!(at(*offset, magic), Some(Format::Unsupported(name, reader)));
        }
        let Some(Format::Unsupported(name, _)) = at(1080, b"\x53\xef") else { panic!("ext") };
        assert!(name.contains("ext4"));
        let mut disk = [0; 66];
        (disk[4], disk[64], disk[65]) = (0x83, 0x55, 0xaa);
        let Some(Format::Unsupported(name, _)) = at(446, &disk) else { panic!("disk") };
        assert!(name.contains("disk"));
        assert_eq!(at(0, b""), Some(Format::Tar), "the empty archive");
        assert_eq!(detect(b"some text"), None);
    }
}
