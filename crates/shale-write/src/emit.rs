//! The image as a sequence of bytes: superblock, sections, trailer, never seeking back.
//!
//! A section's header holds the length and checksum of its payload, so a section is held in
//! memory until it is complete. Offsets are known before: an item that is added is told where it
//! will be.

use std::io::Write;

use shale_codec::{Encoder, Settings, xxh3_64};
use shale_format::limits::SECTION_FRAMES_STORED_LEN_TARGET;
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::{SectionHeader, SectionType, Superblock, Trailer};

use crate::WriteError;

/// Writes an image.
pub(crate) struct Emitter<'o> {
    out: &'o mut (dyn Write + Send),
    superblock: Superblock,
    /// Offset of the next byte written: the header of the section in `payload`.
    offset: u64,
    section_count: u64,
    section_type: SectionType,
    payload: Vec<u8>,
}

impl<'o> Emitter<'o> {
    /// Writes the superblock.
    pub(crate) fn new(
        out: &'o mut (dyn Write + Send),
        image_id: [u8; 16],
    ) -> Result<Self, WriteError> {
        let superblock = Superblock::new(image_id);
        let bytes = superblock.encode(xxh3_64);
        out.write_all(&bytes).map_err(WriteError::Output)?;
        Ok(Self {
            out,
            superblock,
            offset: bytes.len() as u64,
            section_count: 0,
            section_type: SectionType::Frames,
            payload: Vec::new(),
        })
    }

    /// Adds an item to a section of the given type and returns its offset in the image.
    pub(crate) fn add(
        &mut self,
        section_type: SectionType,
        bytes: &[u8],
    ) -> Result<u64, WriteError> {
        let full = (self.payload.len() + bytes.len()) as u64 > SECTION_FRAMES_STORED_LEN_TARGET;
        if full || section_type != self.section_type {
            self.end_section()?;
            self.section_type = section_type;
        }
        let offset = self.offset + (SECTION_HEADER_LEN + self.payload.len()) as u64;
        self.payload.extend_from_slice(bytes);
        Ok(offset)
    }

    /// Writes the section that is being filled, if there is anything in it.
    pub(crate) fn end_section(&mut self) -> Result<(), WriteError> {
        if !self.payload.is_empty() {
            let payload = std::mem::take(&mut self.payload);
            let plain_len = payload.len() as u64;
            self.section(self.section_type, 0, &payload, plain_len)?;
            self.payload = payload;
            self.payload.clear();
        }
        Ok(())
    }

    /// Writes a whole section, compressed with `settings` if that makes it smaller. Returns the
    /// offset of its header and its length with the header.
    pub(crate) fn whole_section(
        &mut self,
        section_type: SectionType,
        plain: &[u8],
        settings: Settings,
    ) -> Result<(u64, u64), WriteError> {
        self.end_section()?;
        let mut stored = Vec::new();
        encoder(settings)?.encode(&[], plain, &mut stored).map_err(codec_error)?;
        let (codec, payload) =
            if stored.len() < plain.len() { (1, stored.as_slice()) } else { (0, plain) };
        let offset = self.offset;
        self.section(section_type, codec, payload, plain.len() as u64)?;
        Ok((offset, self.offset - offset))
    }

    /// Writes the trailer and flushes; returns the length of the image.
    pub(crate) fn finish(
        mut self,
        root_offset: u64,
        root_section_len: u64,
    ) -> Result<u64, WriteError> {
        self.end_section()?;
        let trailer = Trailer {
            root_offset,
            root_section_len,
            image_len: self.offset + shale_format::trailer::TRAILER_SECTION_LEN as u64,
            previous_trailer_offset: 0,
            section_count: self.section_count,
            image_id: self.superblock.image_id,
        };
        let payload = trailer.encode();
        self.section(SectionType::Trailer, 0, &payload, payload.len() as u64)?;
        self.out.flush().map_err(WriteError::Output)?;
        Ok(self.offset)
    }

    fn section(
        &mut self,
        section_type: SectionType,
        codec: u8,
        payload: &[u8],
        plain_len: u64,
    ) -> Result<(), WriteError> {
        let header = SectionHeader {
            section_type: section_type as u16,
            codec,
            offset: self.offset,
            stored_len: payload.len() as u64,
            plain_len,
            image_tag: self.superblock.image_tag(),
            payload_sum: xxh3_64(payload),
        };
        self.out.write_all(&header.encode(xxh3_64)).map_err(WriteError::Output)?;
        self.out.write_all(payload).map_err(WriteError::Output)?;
        self.offset = header.end();
        self.section_count += 1;
        Ok(())
    }
}

fn encoder(settings: Settings) -> Result<Encoder, WriteError> {
    Encoder::new(settings).map_err(codec_error)
}

/// A codec's refusal, in words.
pub(crate) fn codec_error(error: shale_codec::CodecError) -> WriteError {
    WriteError::Codec(error.to_string())
}
