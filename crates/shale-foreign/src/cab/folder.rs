//! The plain bytes of a folder, block by block. The sums of blocks are compared.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lzxd::{Lzxd, WindowSize};
use shale_codec::stream::deflate_block;

use super::headers::{FORMAT, Folder, Method};
use crate::error::ForeignError;
use crate::tree::{ImageFile, le};

const BLOCK_HEAD_LEN: u64 = 8;
/// Plain bytes of a block, and what MSZIP may refer to before it.
const BLOCK_LEN_MAX: usize = 32 << 10;

/// Reads a folder from its beginning to its end.
pub(super) struct FolderReader {
    file: Arc<ImageFile>,
    /// Where the next block begins, and blocks that are left.
    at: u64,
    left: u64,
    reserved_len: u64,
    decoder: Decoder,
    /// The block at hand, and what was taken of it.
    block: Vec<u8>,
    taken: usize,
}

enum Decoder {
    Stored,
    /// The last plain bytes, which the next block may refer to.
    Mszip(Vec<u8>),
    Lzx(Box<Lzxd>),
}

impl FolderReader {
    /// Reads `folder`.
    ///
    /// # Errors
    /// Its window has a length that LZX does not have.
    pub(super) fn new(file: &Arc<ImageFile>, folder: &Folder) -> Result<Self, ForeignError> {
        let decoder = match folder.method {
            Method::Stored => Decoder::Stored,
            Method::Mszip => Decoder::Mszip(Vec::new()),
            Method::Lzx(bits) => Decoder::Lzx(Box::new(Lzxd::new(window(bits)?))),
        };
        Ok(Self {
            file: Arc::clone(file),
            at: folder.start,
            left: folder.block_count,
            reserved_len: folder.reserved_len,
            decoder,
            block: Vec::new(),
            taken: 0,
        })
    }

    fn next_block(&mut self) -> Result<(), ForeignError> {
        let at = self.at;
        let corrupt = |what: String| ForeignError::new(FORMAT, what).at(at);
        let head = self.file.read(at, BLOCK_HEAD_LEN).map_err(corrupt)?;
        let (sum, stored_len, plain_len) = (le(&head[..4]), le(&head[4..6]), le(&head[6..8]));
        let plain_len = plain_len as usize;
        if plain_len == 0 || plain_len > BLOCK_LEN_MAX {
            return Err(corrupt(format!("corrupt: a block of {plain_len} bytes")));
        }
        // The sum is over the lengths and the data, with what is reserved between them.
        let bytes = self.file.read(at + 4, 4 + self.reserved_len + stored_len).map_err(corrupt)?;
        let stored = &bytes[4 + self.reserved_len as usize..];
        // 0 stands for a sum that was not made.
        if sum != 0 && sum != u64::from(sum_of(&bytes[4..], sum_of(&bytes[..4], 0))) {
            return Err(corrupt("corrupt: the checksum of a block is wrong".to_owned()));
        }
        let wrong = || corrupt("corrupt: a block cannot be decompressed".to_owned());
        self.block = match &mut self.decoder {
            Decoder::Stored if stored.len() == plain_len => stored.to_vec(),
            Decoder::Stored => return Err(wrong()),
            Decoder::Mszip(before) => {
                let deflated = stored.strip_prefix(b"CK").ok_or_else(wrong)?;
                let plain = deflate_block(deflated, before, plain_len).map_err(|_| wrong())?;
                before.extend_from_slice(&plain);
                before.drain(..before.len().saturating_sub(BLOCK_LEN_MAX));
                plain
            }
            Decoder::Lzx(lzx) => {
                // A panic of the library is an error of the archive.
                let next = || lzx.decompress_next(stored, plain_len).map(<[u8]>::to_vec);
                let plain = catch_unwind(AssertUnwindSafe(next)).map_err(|_| wrong())?;
                plain.ok().filter(|plain| plain.len() == plain_len).ok_or_else(wrong)?
            }
        };
        self.taken = 0;
        self.at = at + BLOCK_HEAD_LEN + self.reserved_len + stored_len;
        self.left -= 1;
        Ok(())
    }
}

impl Read for FolderReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.block.len() {
            if self.left == 0 || out.is_empty() {
                return Ok(0);
            }
            self.next_block()?;
        }
        let len = out.len().min(self.block.len() - self.taken);
        out[..len].copy_from_slice(&self.block[self.taken..self.taken + len]);
        self.taken += len;
        Ok(len)
    }
}

fn window(bits: u8) -> Result<WindowSize, ForeignError> {
    Ok(match bits {
        15 => WindowSize::KB32,
        16 => WindowSize::KB64,
        17 => WindowSize::KB128,
        18 => WindowSize::KB256,
        19 => WindowSize::KB512,
        20 => WindowSize::MB1,
        21 => WindowSize::MB2,
        bits => {
            let what = format!("corrupt: LZX has no window of 2^{bits} bytes");
            return Err(ForeignError::new(FORMAT, what));
        }
    })
}

/// The sum of a block: words of four bytes, exclusive or. The last bytes come the other way round.
fn sum_of(bytes: &[u8], seed: u32) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let sum = words.iter().fold(seed, |sum, word| sum ^ u32::from_le_bytes(*word));
    sum ^ rest.iter().fold(0, |last, byte| last << 8 | u32::from(*byte))
}
