//! Contents that come once, such as from a pipe, and were copied to a temporary file to be read
//! again.

use std::io;
use std::ops::Range;

use shale_model::{ContentFile, Metadata};

use crate::content::read::{Finished, LargeFile, PieceReader};
use crate::exec::build::Build;
use crate::exec::spill::Spill;
use crate::intake::large::{LargePieces, Piece};
use crate::plan::error::WriteError;

/// A content that came once and was copied to a temporary file.
pub(super) struct CopiedContent {
    copy: Spill,
    metadata: Metadata,
    holes: Vec<Range<u64>>,
}

impl CopiedContent {
    /// Bytes in the file.
    pub(super) fn file_len(&self) -> u64 {
        self.copy.file_len()
    }

    /// A reader of the copy, from its beginning.
    pub(super) fn reader(self) -> LargeFile {
        let metadata = self.metadata;
        LargeFile::of_file(Box::new(self), metadata)
    }
}

/// Copies a content to a temporary file, as far as it can be read.
pub(super) fn copy_to_file<'env, P: PieceReader + Send + 'env>(
    build: &Build<'env>,
    pieces: &mut LargePieces<'env, P>,
    metadata: Metadata,
) -> Result<io::Result<(CopiedContent, Finished)>, WriteError> {
    let mut copy = Spill::new(0, build.options().temp_dir.clone());
    let mut at = 0;
    loop {
        build.check_cancel()?;
        match pieces.next() {
            Some(Piece::Data(data)) => {
                copy.write_at(&data.bytes, at).map_err(WriteError::TemporaryFile)?;
                at += data.bytes.len() as u64;
            }
            Some(Piece::Hole(len)) => at += len,
            None => break,
        }
    }
    let finished = match pieces.end() {
        Ok(finished) => finished,
        Err(error) => return Ok(Err(error)),
    };
    copy.set_file_len(at).map_err(WriteError::TemporaryFile)?;
    let metadata = Metadata { len: at, ..metadata };
    let copy = CopiedContent { copy, metadata, holes: finished.holes.clone() };
    Ok(Ok((copy, finished)))
}

impl ContentFile for CopiedContent {
    fn metadata(&mut self) -> io::Result<Metadata> {
        // No one else can change it.
        Ok(self.metadata)
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let left = self.metadata.len.saturating_sub(offset).min(out.len() as u64) as usize;
        self.copy.read_at(&mut out[..left], offset)?;
        Ok(left)
    }

    fn data_after(&mut self, offset: u64, len: u64) -> io::Result<Option<Range<u64>>> {
        let mut start = offset;
        for hole in &self.holes {
            if hole.start > start {
                return Ok(Some(start..hole.start.min(len)));
            }
            start = start.max(hole.end);
        }
        Ok((start < len).then_some(start..len))
    }
}
