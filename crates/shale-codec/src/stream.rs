//! Streams as other programs compress them: `.gz`, `.xz`, `.lzma`, `.zst`, `.bz2` and `.lz4`.
//!
//! A stream is read piece by piece, in memory that the format bounds: at most the window of the
//! stream, which is refused above [`WINDOW_BYTES_MAX`]. Several compressed streams in a row are
//! read as one. The checksums of a format are compared. A truncated stream ends with an error of
//! kind `UnexpectedEof`, never silently.
//!
//! Images do not use these: their frames go through [`crate::Encoder`] and [`crate::Decoder`].

use std::io::{self, BufRead, BufReader, Read, Write};

/// Most memory that a stream may need for its window.
pub const WINDOW_BYTES_MAX: u64 = 2 << 30;

/// Bytes that are enough for [`StreamFormat::detect`].
pub const DETECT_LEN: usize = 6;

/// Bytes that are read from the compressed stream at a time.
const INPUT_LEN: usize = 256 << 10;

/// A format of a compressed stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFormat {
    /// gzip, RFC 1952.
    Gzip,
    /// xz.
    Xz,
    /// The older format of LZMA streams.
    Lzma,
    /// Zstandard, RFC 8878.
    Zstd,
    /// bzip2.
    Bzip2,
    /// LZ4 frames.
    Lz4,
}

impl StreamFormat {
    /// All formats.
    pub const ALL: [Self; 6] =
        [Self::Gzip, Self::Xz, Self::Lzma, Self::Zstd, Self::Bzip2, Self::Lz4];

    /// The usual name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Lzma => "LZMA",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "LZ4",
        }
    }

    /// The suffix of file names, without a dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Xz => "xz",
            Self::Lzma => "lzma",
            Self::Zstd => "zst",
            Self::Bzip2 => "bz2",
            Self::Lz4 => "lz4",
        }
    }

    /// The format of a stream that begins with these bytes; [`DETECT_LEN`] of them decide.
    pub fn detect(start: &[u8]) -> Option<Self> {
        Some(match start {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A frame that zstd and lz4 skip; pzstd begins with one.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Lz4,
            // Properties as every program writes them, and a dictionary of a usual size.
            [0x5d, 0, 0, _, 0..=4, ..] => Self::Lzma,
            _ => return None,
        })
    }

    /// Returns a reader of what `stream` decompresses to. Allocates buffers, and the window when
    /// the stream gives its size.
    ///
    /// # Errors
    /// The library has no memory. Damage shows when the reader is read.
    pub fn decoder<R: Read + Send + 'static>(self, stream: R) -> io::Result<Box<dyn Read + Send>> {
        let stream = BufReader::with_capacity(INPUT_LEN, stream);
        Ok(match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(stream)),
            Self::Xz => Box::new(liblzma::bufread::XzDecoder::new_stream(
                stream,
                liblzma::stream::Stream::new_stream_decoder(
                    WINDOW_BYTES_MAX,
                    liblzma::stream::CONCATENATED,
                )?,
            )),
            Self::Lzma => Box::new(liblzma::bufread::XzDecoder::new_stream(
                stream,
                liblzma::stream::Stream::new_lzma_decoder(WINDOW_BYTES_MAX)?,
            )),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(stream)?;
                decoder.window_log_max(WINDOW_BYTES_MAX.ilog2())?;
                Box::new(decoder)
            }
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(stream)),
            Self::Lz4 => Box::new(Lz4Frames { frames: Some(Lz4::new(stream)) }),
        })
    }

    /// Returns a writer that compresses to `out`. `level` is one of the format; `None` is its usual
    /// one. Formats that can use several threads use `threads`.
    ///
    /// # Errors
    /// The library refuses the options or has no memory.
    pub fn encoder<'w, W: Write + Send + 'w>(
        self,
        out: W,
        level: Option<u32>,
        threads: u32,
    ) -> io::Result<Box<dyn Finish + 'w>> {
        let level = |usual: u32, max: u32| level.unwrap_or(usual).min(max);
        Ok(match self {
            Self::Gzip => {
                let level = flate2::Compression::new(level(6, 9));
                Box::new(flate2::write::GzEncoder::new(out, level))
            }
            Self::Xz => {
                let mut options = liblzma::stream::MtStreamBuilder::new();
                options.threads(threads.max(1)).preset(level(6, 9));
                options.check(liblzma::stream::Check::Crc64);
                Box::new(liblzma::write::XzEncoder::new_stream(out, options.encoder()?))
            }
            Self::Lzma => {
                let options = liblzma::stream::LzmaOptions::new_preset(level(6, 9))?;
                let stream = liblzma::stream::Stream::new_lzma_encoder(&options)?;
                Box::new(liblzma::write::XzEncoder::new_stream(out, stream))
            }
            Self::Zstd => {
                let level = i32::try_from(level(3, 22)).unwrap_or(3);
                let mut encoder = zstd::stream::write::Encoder::new(out, level)?;
                encoder.include_checksum(true)?;
                if threads > 1 {
                    // Without support for threads, one does it all.
                    let _ = encoder.multithread(threads);
                }
                Box::new(encoder)
            }
            Self::Bzip2 => {
                let level = bzip2::Compression::new(level(9, 9).max(1));
                Box::new(bzip2::write::BzEncoder::new(out, level))
            }
            Self::Lz4 => {
                let mut info = lz4_flex::frame::FrameInfo::new();
                info.content_checksum = true;
                Box::new(lz4_flex::frame::FrameEncoder::with_frame_info(info, out))
            }
        })
    }
}

/// A writer that must be finished.
pub trait Finish: Write + Send {
    /// Writes all buffered bytes and the end of the stream.
    ///
    /// # Errors
    /// The output fails.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl<W: Write + Send> Finish for flate2::write::GzEncoder<W> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish()?.flush()
    }
}

impl<W: Write + Send> Finish for liblzma::write::XzEncoder<W> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish()?.flush()
    }
}

impl<W: Write + Send> Finish for zstd::stream::write::Encoder<'static, W> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish()?.flush()
    }
}

impl<W: Write + Send> Finish for bzip2::write::BzEncoder<W> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish()?.flush()
    }
}

impl<W: Write + Send> Finish for lz4_flex::frame::FrameEncoder<W> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        (*self).finish().map_err(io::Error::other)?.flush()
    }
}

type Lz4<R> = lz4_flex::frame::FrameDecoder<BufReader<R>>;

/// LZ4 frames in a row. The library ends after one.
struct Lz4Frames<R: Read> {
    /// None after an error.
    frames: Option<Lz4<R>>,
}

impl<R: Read> Read for Lz4Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(frames) = &mut self.frames else { return Ok(0) };
            let len = frames.read(out)?;
            if len > 0 || out.is_empty() {
                return Ok(len);
            }
            let Some(frames) = self.frames.take() else { return Ok(0) };
            let mut stream = frames.into_inner();
            if stream.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.frames = Some(Lz4::new(stream));
        }
    }
}

/// Reads lzip members decompressed. Bytes after the last member are not read.
///
/// # Errors
/// There is no memory for the decoder.
pub fn lzip_reader<R: Read + Send + 'static>(stream: R) -> io::Result<Box<dyn Read + Send>> {
    let flags = liblzma::stream::CONCATENATED;
    let decoder = liblzma::stream::Stream::new_lzip_decoder(WINDOW_BYTES_MAX, flags)?;
    let stream = BufReader::with_capacity(INPUT_LEN, stream);
    Ok(Box::new(liblzma::bufread::XzDecoder::new_stream(stream, decoder)))
}

/// Reads one brotli stream decompressed.
#[cfg(feature = "brotli")]
pub fn brotli_reader<R: Read + Send + 'static>(stream: R) -> Box<dyn Read + Send> {
    Box::new(brotli_decompressor::Decompressor::new(stream, INPUT_LEN))
}

/// Decompresses one zlib stream (RFC 1950) that gives at most `plain_len_max` bytes.
///
/// # Errors
/// The bytes are damaged or truncated, or give more.
pub fn zlib_block(bytes: &[u8], plain_len_max: usize) -> io::Result<Vec<u8>> {
    bounded(flate2::bufread::ZlibDecoder::new(bytes), plain_len_max)
}

/// Compresses to one zlib stream.
///
/// # Errors
/// The library fails, which is not expected.
pub fn zlib_block_encode(bytes: &[u8], level: u32) -> io::Result<Vec<u8>> {
    let mut encoder =
        flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(level.min(9)));
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Decompresses one raw deflate stream as it is read.
pub fn deflate_reader<R: BufRead + Send + 'static>(stream: R) -> Box<dyn Read + Send> {
    Box::new(flate2::bufread::DeflateDecoder::new(stream))
}

/// Decompresses one whole deflate stream that refers to `dictionary` as what precedes it, and gives
/// exactly `plain_len` bytes.
///
/// # Errors
/// The bytes are damaged or truncated, or give more or less.
pub fn deflate_block(bytes: &[u8], dictionary: &[u8], plain_len: usize) -> io::Result<Vec<u8>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "corrupt deflate data");
    let mut decoder = flate2::Decompress::new(false);
    if !dictionary.is_empty() {
        decoder.set_dictionary(dictionary).map_err(|_| wrong())?;
    }
    // One byte more, so that a stream that gives more is told from one that ends.
    let mut plain = Vec::with_capacity(plain_len + 1);
    let status = decoder.decompress_vec(bytes, &mut plain, flate2::FlushDecompress::Finish);
    match status {
        Ok(flate2::Status::StreamEnd) if plain.len() == plain_len => Ok(plain),
        _ => Err(wrong()),
    }
}

/// Compresses a part of a raw deflate stream. The parts are joined: one that is not the last ends
/// at a whole byte.
///
/// # Errors
/// The library fails, which is not expected.
pub fn deflate_part(bytes: &[u8], level: u32, is_last: bool) -> io::Result<Vec<u8>> {
    let mut deflate = flate2::Compress::new(flate2::Compression::new(level.min(9)), false);
    let flush = if is_last { flate2::FlushCompress::Finish } else { flate2::FlushCompress::Sync };
    let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
    loop {
        let taken = usize::try_from(deflate.total_in()).unwrap_or(usize::MAX);
        let rest = bytes.get(taken..).unwrap_or_default();
        let status = deflate.compress_vec(rest, &mut out, flush).map_err(invalid)?;
        // If there is room left, no output is waiting.
        if status == flate2::Status::StreamEnd || (!is_last && out.len() < out.capacity()) {
            return Ok(out);
        }
        out.reserve(out.capacity().max(64));
    }
}

/// Sum of plain bytes as gzip and zip have it: CRC-32 of ISO 3309.
#[derive(Debug, Default)]
pub struct Crc32(flate2::Crc);

impl Crc32 {
    /// The sum of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The sum so far.
    pub fn sum(&self) -> u32 {
        self.0.sum()
    }
}

/// Decompresses one whole xz or LZMA stream that gives at most `plain_len_max` bytes.
///
/// # Errors
/// The bytes are damaged or truncated, or give more.
pub fn lzma_block(bytes: &[u8], is_xz: bool, plain_len_max: usize) -> io::Result<Vec<u8>> {
    let stream = if is_xz {
        liblzma::stream::Stream::new_stream_decoder(WINDOW_BYTES_MAX, 0)?
    } else {
        liblzma::stream::Stream::new_lzma_decoder(WINDOW_BYTES_MAX)?
    };
    bounded(liblzma::bufread::XzDecoder::new_stream(bytes, stream), plain_len_max)
}

/// Compresses to one xz stream with a dictionary of `dictionary_len` bytes.
///
/// # Errors
/// The library refuses the options or has no memory.
pub fn xz_block_encode(bytes: &[u8], preset: u32, dictionary_len: u32) -> io::Result<Vec<u8>> {
    let mut options = liblzma::stream::LzmaOptions::new_preset(preset.min(9))?;
    options.dict_size(dictionary_len);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&options);
    let stream =
        liblzma::stream::Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32)?;
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Compresses to raw LZMA2, which ends with a zero, with a dictionary of `dictionary_len` bytes.
///
/// # Errors
/// The library refuses the options or has no memory.
pub fn lzma2_block_encode(bytes: &[u8], preset: u32, dictionary_len: u32) -> io::Result<Vec<u8>> {
    let mut options = liblzma::stream::LzmaOptions::new_preset(preset.min(9))?;
    options.dict_size(dictionary_len);
    let mut filters = liblzma::stream::Filters::new();
    filters.lzma2(&options);
    let stream = liblzma::stream::Stream::new_raw_encoder(&filters)?;
    let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Decompresses zstd frames that give at most `plain_len_max` bytes.
///
/// # Errors
/// The bytes are damaged or truncated, or give more.
pub fn zstd_block(bytes: &[u8], plain_len_max: usize) -> io::Result<Vec<u8>> {
    bounded(zstd::stream::read::Decoder::with_buffer(bytes)?, plain_len_max)
}

/// Compresses to one zstd frame with its content size.
///
/// # Errors
/// The library has no memory.
pub fn zstd_block_encode(bytes: &[u8], level: i32) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(bytes, level)
}

/// Decompresses brotli that gives at most `plain_len_max` bytes.
///
/// # Errors
/// The bytes are damaged or truncated, or give more.
#[cfg(feature = "brotli")]
pub fn brotli_block(bytes: &[u8], plain_len_max: usize) -> io::Result<Vec<u8>> {
    bounded(brotli_decompressor::Decompressor::new(bytes, 64 << 10), plain_len_max)
}

/// Decompresses a bare LZ4 block that gives at most `plain_len_max` bytes.
///
/// # Errors
/// The bytes are damaged or truncated, or give more.
pub fn lz4_block(bytes: &[u8], plain_len_max: usize) -> io::Result<Vec<u8>> {
    // The decoder allocates all of its output at once, and lengths in headers are not trusted.
    let room = plain_len_max.min(run_len_max(bytes));
    lz4_flex::block::decompress(bytes, room).map_err(invalid)
}

/// Compresses to a bare LZ4 block.
pub fn lz4_block_encode(bytes: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(bytes)
}

/// Decompresses LZO1X that gives at most `plain_len_max` bytes.
///
/// # Errors
/// The bytes are damaged or truncated, or give more.
pub fn lzo_block(bytes: &[u8], plain_len_max: usize) -> io::Result<Vec<u8>> {
    let mut plain = vec![0; plain_len_max.min(run_len_max(bytes))];
    let len = lzokay::decompress::decompress(bytes, &mut plain)
        .map_err(|error| invalid(format!("{error:?}")))?;
    plain.truncate(len);
    Ok(plain)
}

/// Most bytes that LZ4 or LZO can give: both lengthen a match by 255 for each byte more.
fn run_len_max(bytes: &[u8]) -> usize {
    bytes.len().saturating_mul(255).saturating_add(64)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Reads all, and fails if there is more than `len_max`.
fn bounded(reader: impl Read, len_max: usize) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    reader.take(len_max as u64 + 1).read_to_end(&mut plain)?;
    if plain.len() > len_max {
        return Err(invalid(format!("decompresses to more than {len_max} bytes")));
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Vec<u8> {
        (0..300_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect()
    }

    fn packed(format: StreamFormat, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = format.encoder(&mut out, None, 2).unwrap();
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap();
        out
    }

    fn plain(format: StreamFormat, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        format.decoder(io::Cursor::new(bytes))?.read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn streams_come_back_also_two_in_a_row() {
        let text = text();
        for format in StreamFormat::ALL {
            let one = packed(format, &text);
            assert_eq!(StreamFormat::detect(&one), Some(format));
            assert!(plain(format, one.clone()).unwrap() == text, "{format:?}");
            if format != StreamFormat::Lzma {
                let two = plain(format, [one.clone(), one].concat()).unwrap();
                assert!(two == [text.clone(), text.clone()].concat(), "{format:?}");
            }
        }
    }

    #[test]
    fn parts_are_one_stream_of_deflate() {
        let text = text();
        let noise = (0..300_000u64).map(|n| n.wrapping_mul(n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let noise: Vec<u8> = noise.map(|n| (n >> 40) as u8).collect();
        for (plain, level) in [(&text, 0), (&text, 1), (&text, 6), (&noise, 6), (&noise, 9)] {
            for part_len in [70_000, 250_000, 1 << 20] {
                let count = plain.len().div_ceil(part_len);
                let parts = plain.chunks(part_len).enumerate();
                let parts = parts.map(|(n, part)| deflate_part(part, level, n + 1 == count));
                let stream: Vec<u8> = parts.flat_map(Result::unwrap).collect();
                let mut found = Vec::new();
                deflate_reader(io::Cursor::new(stream)).read_to_end(&mut found).unwrap();
                assert!(found == *plain, "level {level}, parts of {part_len}: {}", found.len());
            }
        }
        assert!(deflate_part(&[], 6, true).unwrap().len() < 8);
    }

    #[test]
    fn a_cut_stream_is_an_error() {
        let text = text();
        for format in StreamFormat::ALL {
            let one = packed(format, &text);
            for cut in [one.len() - 1, one.len() / 2, 20] {
                assert!(plain(format, one[..cut].to_vec()).is_err(), "{format:?} cut to {cut}");
            }
        }
    }

    #[test]
    fn blocks_are_bounded() {
        let text = text();
        type Decode = fn(&[u8], usize) -> io::Result<Vec<u8>>;
        let blocks: [(&str, Vec<u8>, Decode); 4] = [
            ("zlib", zlib_block_encode(&text, 9).unwrap(), zlib_block),
            ("xz", xz_block_encode(&text, 6, 1 << 20).unwrap(), |b, n| lzma_block(b, true, n)),
            ("zstd", zstd_block_encode(&text, 3).unwrap(), zstd_block),
            ("lz4", lz4_block_encode(&text), lz4_block),
        ];
        for (name, bytes, decode) in blocks {
            assert!(decode(&bytes, text.len()).unwrap() == text, "{name}");
            assert!(decode(&bytes, text.len() - 1).is_err(), "{name} is bounded");
            assert!(decode(&bytes[..bytes.len() / 2], text.len()).is_err(), "{name} cut");
        }
    }
    #[test]
    fn a_length_that_bytes_cannot_give_asks_for_no_memory() {
        // Each would panic, as more than an address space, where it was asked for.
        assert!(lz4_block(&[0xff; 20], usize::MAX).is_err());
        assert!(lzo_block(&[0xff; 20], usize::MAX).is_err());
        // What repeats most is still let through.
        let same = vec![7; 1 << 20];
        assert!(lz4_block(&lz4_block_encode(&same), usize::MAX).unwrap() == same);
    }
}
