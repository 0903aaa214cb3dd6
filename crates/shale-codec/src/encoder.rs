//! Compressing with any codec.
//!
//! An encoder keeps its library's tables from frame to frame, and promises that this changes speed
//! only: the bytes depend on settings, prefix and plain bytes, and not on earlier frames, the
//! thread, or the addresses of the slices.

#[cfg(feature = "brotli-encoder")]
use crate::brotli_encoder::BrotliEncoder;
use crate::lengths::{FRAME_LEN_MAX, append, check_len};
use crate::lz4::Lz4Encoder;
use crate::lzma::LzmaEncoder;
use crate::zstd::ZstdEncoder;
use crate::{Codec, CodecError, Settings};

/// Compresses frames with one set of settings. Use one for each thread; it can be sent between
/// threads.
#[derive(Debug)]
pub struct Encoder {
    settings: Settings,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Stored,
    Zstd(ZstdEncoder),
    Lz4(Lz4Encoder),
    Lzma(LzmaEncoder),
    #[cfg(feature = "brotli-encoder")]
    Brotli(BrotliEncoder),
}

impl Encoder {
    /// Prepares an encoder. Large tables are allocated with the first frame; see
    /// [`Settings::encoder_memory_len`].
    ///
    /// # Errors
    /// Settings are out of range, there is no memory, or this build cannot write brotli.
    pub fn new(settings: Settings) -> Result<Encoder, CodecError> {
        settings.validate()?;
        let kind = match settings.codec {
            Codec::Stored => Kind::Stored,
            Codec::Zstd => Kind::Zstd(ZstdEncoder::new(settings)?),
            Codec::Lz4 => Kind::Lz4(Lz4Encoder::new(settings)?),
            Codec::Lzma => Kind::Lzma(LzmaEncoder::new(settings)?),
            #[cfg(feature = "brotli-encoder")]
            Codec::Brotli => Kind::Brotli(BrotliEncoder::new(settings)),
            #[cfg(not(feature = "brotli-encoder"))]
            Codec::Brotli => return Err(CodecError::NotBuilt { codec: Codec::Brotli }),
        };
        Ok(Encoder { settings, kind })
    }

    /// The settings of this encoder.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Appends the compressed form of `plain` to `out`. Decoding needs the same prefix, the codec
    /// and the length of `plain`. Of the prefix, the codec uses the last
    /// [`Codec::prefix_len_max`] bytes. Bytes that do not compress may get longer: the caller
    /// compares, and stores what is shorter.
    ///
    /// # Errors
    /// The frame is longer than 512 MiB, there is no memory, or the library refuses. `out` is then
    /// unchanged.
    pub fn encode(
        &mut self,
        prefix: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let codec = self.settings.codec;
        let prefix = crate::codec::useful(codec, prefix);
        check_len(codec, plain.len())?;
        let start = out.len();
        let result = match &mut self.kind {
            Kind::Stored => append(codec, plain, out),
            Kind::Zstd(encoder) => encoder.encode(prefix, plain, out),
            Kind::Lz4(encoder) => encoder.encode(prefix, plain, out),
            Kind::Lzma(encoder) => encoder.encode(prefix, plain, out),
            #[cfg(feature = "brotli-encoder")]
            Kind::Brotli(encoder) => encoder.encode(prefix, plain, out),
        };
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Appends a lines form ([`crate::lines_form`]) as a frame stores it: its length, then its
    /// compressed form. [`crate::Decoder::decode_filtered`] undoes both.
    ///
    /// # Errors
    /// As for [`Encoder::encode`].
    pub fn encode_form(&mut self, form: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let start = out.len();
        crate::lines::push_varint(form.len() as u64, out);
        let result = self.encode(&[], form, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Appends the form of an array ([`crate::array_form`]) as a frame stores it: its shape, then
    /// its compressed form. [`crate::Decoder::decode_filtered`] undoes both.
    ///
    /// # Errors
    /// As for [`Encoder::encode`].
    pub fn encode_array(
        &mut self,
        shape: crate::ArrayShape,
        form: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let start = out.len();
        out.extend_from_slice(&shape.to_bytes());
        let result = self.encode(&[], form, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Appends samples ([`crate::samples_form`]) as a frame stores them, then the bytes around
    /// them, compressed, if there are any. [`crate::Decoder::decode_filtered`] undoes both.
    ///
    /// # Errors
    /// As for [`Encoder::encode`].
    pub fn encode_samples(
        &mut self,
        form: &crate::SampleForm,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let start = out.len();
        append(self.settings.codec, &form.coded, out)?;
        if form.rest.is_empty() {
            return Ok(());
        }
        let result = self.encode(&[], &form.rest, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }
}

impl Settings {
    /// Estimates how many bytes an [`Encoder`] with these settings holds when it encodes frames of
    /// `frame_len` bytes with prefixes of `prefix_len` bytes, without the slices that it is given
    /// and the result. The estimate is for budgets: rather too high than too low. It counts memory
    /// that is allocated, not all of which is touched.
    pub fn encoder_memory_len(&self, frame_len: usize, prefix_len: usize) -> u64 {
        let prefix_len = prefix_len.min(self.codec.prefix_len_max());
        let frame_len = frame_len.min(FRAME_LEN_MAX);
        match self.codec {
            Codec::Stored => 0,
            Codec::Zstd => crate::zstd::encoder_memory_len(self, frame_len, prefix_len),
            Codec::Lz4 => crate::lz4::encoder_memory_len(self, frame_len, prefix_len),
            Codec::Lzma => crate::lzma::encoder_memory_len(self, frame_len, prefix_len),
            #[cfg(feature = "brotli-encoder")]
            Codec::Brotli => crate::brotli_encoder::encoder_memory_len(self, frame_len, prefix_len),
            #[cfg(not(feature = "brotli-encoder"))]
            Codec::Brotli => 0,
        }
    }
}
