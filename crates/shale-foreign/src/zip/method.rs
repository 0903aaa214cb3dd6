//! Compression methods: the plain bytes of what an entry stores.

use std::io::{self, BufReader, Cursor, Read};

use ppmd_rust::{Ppmd8Decoder, RestoreMethod};
use shale_codec::stream::{StreamFormat, deflate_reader};

use crate::decompress::{Decompress, Guarded, needs_memory};

/// Bytes before LZMA data: version, length of the properties, and those.
const LZMA_HEAD: [u8; 2] = [5, 0];
/// The end of LZMA data is marked in them.
const FLAG_END_MARK: u16 = 1 << 1;

/// Decompresses `stored`, which becomes `len` bytes, in at most `memory_len_max` bytes of memory
/// where the entry names how many it needs.
///
/// # Errors
/// Says that the method is not supported, or what is wrong with its parameters.
pub(super) fn plain(
    method: u16,
    flags: u16,
    len: u64,
    stored: impl Read + Send + 'static,
    memory_len_max: u64,
) -> Result<Decompress, String> {
    let failed = |error: io::Error| error.to_string();
    let stored = BufReader::with_capacity(64 << 10, stored);
    let (plain, name): (Box<dyn Read + Send>, _) = match method {
        0 => (Box::new(stored), "stored"),
        8 => (deflate_reader(stored), "deflate"),
        9 => {
            let decoder = deflate64::Deflate64Decoder::with_buffer(stored);
            (Box::new(Guarded::new(decoder)), "deflate64")
        }
        12 => (StreamFormat::Bzip2.decoder(stored).map_err(failed)?, "bzip2"),
        14 => (lzma(flags, len, stored)?, "LZMA"),
        // The first number of zstd, before it got its own.
        20 | 93 => (StreamFormat::Zstd.decoder(stored).map_err(failed)?, "zstd"),
        95 => (StreamFormat::Xz.decoder(stored).map_err(failed)?, "xz"),
        98 => (ppmd(stored, memory_len_max)?, "PPMd"),
        other => {
            let name = match other {
                1 => " (shrunk)",
                2..=5 => " (reduced)",
                6 => " (imploded)",
                10 => " (imploded by DCL)",
                96 => " (JPEG)",
                97 => " (WavPack)",
                _ => "",
            };
            return Err(format!(
                "compression method {other}{name} is not supported: unpack it with unzip or 7z and \
                 pack what comes out"
            ));
        }
    };
    Ok(Decompress::new(plain, name))
}

/// LZMA as a file of its own has its length where zip has a version.
fn lzma(
    flags: u16,
    len: u64,
    mut stored: impl Read + Send + 'static,
) -> Result<Box<dyn Read + Send>, String> {
    let mut head = [0; 9];
    stored.read_exact(&mut head).map_err(|_| "its LZMA data are cut: corrupt".to_owned())?;
    if head[2..4] != LZMA_HEAD {
        return Err("its LZMA data begin with an unknown header: corrupt".to_owned());
    }
    let len = if flags & FLAG_END_MARK != 0 { u64::MAX } else { len };
    let head = [&head[4..], &len.to_le_bytes()].concat();
    let plain = StreamFormat::Lzma.decoder(Cursor::new(head).chain(stored));
    plain.map_err(|error| error.to_string())
}

fn ppmd(
    mut stored: impl Read + Send + 'static,
    memory_len_max: u64,
) -> Result<Box<dyn Read + Send>, String> {
    let mut head = [0; 2];
    stored.read_exact(&mut head).map_err(|_| "its PPMd data are cut: corrupt".to_owned())?;
    let head = u16::from_le_bytes(head);
    let (order, memory) = (u32::from(head & 15) + 1, (u32::from(head >> 4 & 0xff) + 1) << 20);
    let restore = match head >> 12 {
        0 => RestoreMethod::Restart,
        1 => RestoreMethod::CutOff,
        other => {
            return Err(format!(
                "its PPMd data use the model {other}, which is not known: corrupt"
            ));
        }
    };
    if u64::from(memory) > memory_len_max {
        return Err(needs_memory(memory.into(), memory_len_max));
    }
    let decoder = Ppmd8Decoder::new(stored, order, memory, restore)
        .map_err(|_| "its PPMd data have wrong parameters, or there is no memory".to_owned())?;
    Ok(Box::new(Guarded::new(decoder)))
}
