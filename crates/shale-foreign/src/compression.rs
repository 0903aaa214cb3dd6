//! How an archive as a whole is compressed.

use std::io::{self, Read};

use shale_codec::stream::{self, StreamFormat};

use crate::decompress::Decompress;
use crate::error::ForeignError;
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
    /// lrzip, which is read at offsets.
    Lrzip,
}

impl Compression {
    /// The compression of an archive that begins with `head`, where its magic tells.
    pub(crate) fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [b'L', b'Z', b'I', b'P', 0 | 1, ..] => Some(Self::Lzip),
            [b'L', b'R', b'Z', b'I', ..] => Some(Self::Lrzip),
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
            Self::Lrzip => "lrzip",
        }
    }

    /// Reads `stream` decompressed.
    ///
    /// # Errors
    /// The decompressor gets no memory, or it must read at offsets, which a stream cannot.
    pub(crate) fn decoder(self, stream: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        let plain = match self {
            Self::Stream(format) => format.decoder(stream)?,
            Self::Lzip => stream::lzip_reader(stream)?,
            Self::Compress => Box::new(Lzw::new(stream)),
            Self::Brotli => stream::brotli_reader(stream),
            Self::Lrzip => {
                let what = "it is lrzip data inside of another archive, which is not supported; \
                            decompress it with lrunzip";
                return Err(ForeignError::new("lrzip file", what).into());
            }
        };
        Ok(Box::new(Decompress::new(plain, self.name())))
    }
}
