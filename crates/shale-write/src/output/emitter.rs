//! Writes the image as a sequence of bytes: superblock, sections, trailer. Never seeks back.
//!
//! The header of a section holds the length and checksum of its payload, so a section stays in
//! memory until it is complete. Offsets are known earlier: adding an item returns its offset.
//!
//! While a section is filled, any free thread checksums and writes the one before. Sections are
//! written in order, one at a time. The same thread hashes the leaves of the Merkle tree, so the
//! identity of the image needs no second pass over the bytes.

use std::io::{self, Write};

use shale_codec::merkle::{LeafHasher, derive, tree};
use shale_codec::{Encoder, Settings, xxh3_64};
use shale_format::limits::SECTION_FRAMES_STORED_LEN_TARGET;
use shale_format::merkle::{FAN_OUT, IDENTITY_CONTEXT, LEAF_LEN};
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{Identity, MerkleHead, SectionHeader, SectionType, Superblock, Trailer};

use crate::base::image::Base;
use crate::exec::build::Build;
use crate::exec::pool::{Ticket, Urgency};
use crate::output::hashes::{self, OldTree};
use crate::plan::error::WriteError;
use crate::plan::report::Stage;

/// Writes an image.
pub(crate) struct Emitter<'env> {
    build: Build<'env>,
    superblock: Superblock,
    /// Offset of the header of the section in `payload`.
    offset: u64,
    section_count: u64,
    /// Offset of the trailer of the image that is continued; 0 if there is none.
    previous_trailer_offset: u64,
    /// The Merkle tree of the image that is continued.
    old_tree: Option<OldTree>,
    section_type: SectionType,
    payload: Vec<u8>,
    outlet: Outlet<'env>,
}

/// The output, when no section is being written, or the section on its way.
enum Outlet<'env> {
    Idle(Written<'env>),
    Busy(Ticket<Result<Written<'env>, WriteError>>),
    /// Writing failed, and the error was returned.
    Failed,
}

/// What a written section returns: the output for the next one, and a buffer for it.
struct Written<'env> {
    output: Box<Output<'env>>,
    spare: Vec<u8>,
}

/// Where the bytes of the image go.
struct Output<'env> {
    out: &'env mut (dyn Write + Send),
    /// Hashes of the leaves so far; 32 bytes for each 64 KiB.
    leaves: LeafHasher,
}

/// An image that lacks nothing but its trailer.
pub(crate) struct Finished {
    /// Bytes of the image with its trailer.
    pub(crate) image_len: u64,
    pub(crate) identity: Identity,
    /// The trailer section.
    pub(crate) trailer: Vec<u8>,
}

impl Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.out.write_all(bytes).map_err(WriteError::Output)?;
        self.leaves.update(bytes);
        Ok(())
    }
}

impl<'env> Emitter<'env> {
    /// Writes the superblock.
    pub(crate) fn new(
        build: Build<'env>,
        out: &'env mut (dyn Write + Send),
        image_id: [u8; 16],
    ) -> Result<Self, WriteError> {
        let superblock = Superblock::new(image_id);
        let bytes = superblock.encode(xxh3_64);
        let mut output = Box::new(Output { out, leaves: LeafHasher::new(LEAF_LEN as usize) });
        output.write(&bytes)?;
        Ok(Self {
            build,
            superblock,
            offset: bytes.len() as u64,
            section_count: 0,
            previous_trailer_offset: 0,
            old_tree: None,
            section_type: SectionType::Frames,
            payload: Vec::new(),
            outlet: Outlet::Idle(Written { output, spare: Vec::new() }),
        })
    }

    /// Continues an image: writes nothing yet. `out` begins where the image ends.
    pub(crate) fn after(
        build: Build<'env>,
        out: &'env mut (dyn Write + Send),
        base: &dyn Base,
    ) -> Result<Self, WriteError> {
        let state = base.state();
        let output = Box::new(Output { out, leaves: base.leaves()? });
        Ok(Self {
            build,
            superblock: Superblock::new(state.image_id),
            offset: state.image_len,
            section_count: state.section_count,
            previous_trailer_offset: state.image_len - TRAILER_SECTION_LEN as u64,
            old_tree: base.hash_runs()?.map(|(head, runs)| OldTree { head, runs }),
            section_type: SectionType::Frames,
            payload: Vec::new(),
            outlet: Outlet::Idle(Written { output, spare: Vec::new() }),
        })
    }

    /// Waits until everything so far is written, and flushes the output.
    pub(crate) fn flush(&mut self) -> Result<(), WriteError> {
        self.end_section()?;
        let written = self.written()?;
        let flushed = written.output.out.flush().map_err(WriteError::Output);
        self.outlet = Outlet::Idle(written);
        flushed
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

    /// Writes the section that is being filled, if it is not empty.
    pub(crate) fn end_section(&mut self) -> Result<(), WriteError> {
        if !self.payload.is_empty() {
            let payload = std::mem::take(&mut self.payload);
            let plain_len = payload.len() as u64;
            self.payload = self.section(self.section_type, 0, payload, plain_len)?;
        }
        Ok(())
    }

    /// Writes a whole section, compressed with `settings` if that makes it smaller. Returns the
    /// offset of its header, and its length including the header.
    pub(crate) fn whole_section(
        &mut self,
        section_type: SectionType,
        plain: &[u8],
        settings: Settings,
    ) -> Result<(u64, u64), WriteError> {
        self.end_section()?;
        let mut stored = Vec::new();
        Encoder::new(settings)?.encode(&[], plain, &mut stored)?;
        let (codec, payload) =
            if stored.len() < plain.len() { (1, stored) } else { (0, plain.to_vec()) };
        let offset = self.offset;
        self.section(section_type, codec, payload, plain.len() as u64)?;
        Ok((offset, self.offset - offset))
    }

    /// Writes the root, the Merkle tree over everything so far, the root once more and the trailer,
    /// and flushes. If `writes_trailer` is false, the caller writes that: it makes the rest
    /// visible.
    ///
    /// The second root protects against a bad block at the first one: the root is the only small
    /// structure without which nothing is found. The Merkle tree lies between the two.
    pub(crate) fn finish(
        mut self,
        root: &[u8],
        settings: Settings,
        writes_trailer: bool,
    ) -> Result<Finished, WriteError> {
        let (root_offset, root_section_len) =
            self.whole_section(SectionType::Root, root, settings)?;
        let covered_len = self.offset;
        let mut written = self.written()?;
        let no_leaves = LeafHasher::new(LEAF_LEN as usize);
        let leaves = std::mem::replace(&mut written.output.leaves, no_leaves);
        self.outlet = Outlet::Idle(written);
        let all = tree(leaves.finish(), FAN_OUT as usize);
        let tree_root = *all.last().expect("the superblock makes a leaf");
        let head = MerkleHead { covered_len, root_offset, root_section_len, tree_root };
        let (kind, merkle) = hashes::section(&head, &all, self.old_tree.as_ref());
        let merkle_len = merkle.len() as u64;
        self.section(kind, 0, merkle, merkle_len)?;
        self.whole_section(SectionType::Root, root, settings)?;
        let trailer = Trailer {
            root_offset,
            root_section_len,
            image_len: self.offset + TRAILER_SECTION_LEN as u64,
            previous_trailer_offset: self.previous_trailer_offset,
            section_count: self.section_count,
            image_id: self.superblock.image_id,
            merkle_offset: covered_len,
        };
        let payload = trailer.encode();
        let header = SectionHeader {
            section_type: SectionType::Trailer as u16,
            codec: 0,
            offset: self.offset,
            stored_len: payload.len() as u64,
            plain_len: payload.len() as u64,
            image_tag: self.superblock.image_tag(),
            payload_sum: xxh3_64(&payload),
        };
        let section = [&header.encode(xxh3_64)[..], &payload].concat();
        if writes_trailer {
            self.end_section()?;
            let mut written = self.written()?;
            written.output.write(&section)?;
            self.outlet = Outlet::Idle(written);
        }
        self.flush()?;
        Ok(Finished {
            image_len: trailer.image_len,
            identity: Identity(derive(IDENTITY_CONTEXT, &head.encode())),
            trailer: section,
        })
    }

    /// Writes a section after the one before is written. Returns an empty buffer. An error shows
    /// when the next section is written.
    fn section(
        &mut self,
        section_type: SectionType,
        codec: u8,
        payload: Vec<u8>,
        plain_len: u64,
    ) -> Result<Vec<u8>, WriteError> {
        let mut header = SectionHeader {
            section_type: section_type as u16,
            codec,
            offset: self.offset,
            stored_len: payload.len() as u64,
            plain_len,
            image_tag: self.superblock.image_tag(),
            payload_sum: 0,
        };
        self.offset = header.end();
        self.section_count += 1;
        let Written { mut output, mut spare } = self.written()?;
        self.outlet = Outlet::Busy(self.build.submit(Urgency::Urgent, Stage::Write, move |_| {
            header.payload_sum = xxh3_64(&payload);
            output.write(&header.encode(xxh3_64))?;
            output.write(&payload)?;
            Ok(Written { output, spare: payload })
        }));
        spare.clear();
        Ok(spare)
    }

    /// Waits for the section on its way.
    fn written(&mut self) -> Result<Written<'env>, WriteError> {
        match std::mem::replace(&mut self.outlet, Outlet::Failed) {
            Outlet::Idle(written) => Ok(written),
            Outlet::Busy(ticket) => self.build.wait(&ticket),
            Outlet::Failed => Err(WriteError::Output(io::ErrorKind::BrokenPipe.into())),
        }
    }
}
