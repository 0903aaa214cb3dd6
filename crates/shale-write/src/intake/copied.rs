//! Contents that come once, such as from a pipe, and were copied to a temporary file to be read
//! again.

use std::io;
use std::ops::Range;

use shale_model::{ContentFile, Metadata};

use crate::content::read::LargeFile;
use crate::exec::spill::Spill;

/// A content that came once and was copied to a temporary file.
pub(super) struct CopiedContent {
    pub(super) copy: Spill,
    pub(super) metadata: Metadata,
    pub(super) holes: Vec<Range<u64>>,
}

impl CopiedContent {
    /// A reader of the copy, from its beginning.
    pub(super) fn reader(self) -> LargeFile {
        let metadata = self.metadata;
        LargeFile::of_file(Box::new(self), metadata)
    }
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
