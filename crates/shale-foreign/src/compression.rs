//! How an archive as a whole is compressed.

use std::io::{self, Read};

use shale_codec::stream::{self, StreamFormat};

use crate::decompress::Decompress;
use crate::lzw::Lzw;

/// A compression around an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// One that archives are also written in.
    Stream(StreamFormat),
    /// lzip.
    Lzip,
    /// compress, `.Z`.
    Compress,
    /// brotli, which has no magic.
    Brotli,
}

impl Compression {
    /// The compression of an archive that begins with `head`, where its magic tells.
    pub(crate) fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [b'L', b'Z', b'I', b'P', 0 | 1, ..] => Some(Self::Lzip),
            [0x1f, 0x9d, ..] => Some(Self::Compress),
            head => StreamFormat::detect(head).map(Self::Stream),
        }
    }

    /// Its name, as people know it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stream(format) => format.name(),
            Self::Lzip => "lzip",
            Self::Compress => "compress (.Z)",
            Self::Brotli => "brotli",
        }
    }

    /// Reads `stream` decompressed.
    ///
    /// # Errors
    /// There is no memory for the decompressor.
    pub(crate) fn decoder(self, stream: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        let plain = match self {
            Self::Stream(format) => format.decoder(stream)?,
            Self::Lzip => stream::lzip_reader(stream)?,
            Self::Compress => Box::new(Lzw::new(stream)),
            Self::Brotli => stream::brotli_reader(stream),
        };
        Ok(Box::new(Decompress::new(plain, self.name())))
    }
}
