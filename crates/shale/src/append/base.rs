//! The image that an append continues, read by the reader for the writer.
//!
//! Contents are compared by their bytes: a content of the same length is read and digested once,
//! and its digest is kept. So what an append shares with the image is right even if nothing in the
//! image says what its contents are.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use shale_codec::merkle::LeafHasher;
use shale_format::append_index::APPEND_INDEX_LEN_MAX;
use shale_format::merkle::{HashRuns, LEAF_LEN};
use shale_format::{AppendIndex, EarlierRoot, MerkleHead, SectionType, schema};
use shale_read::{Image, PieceKind, ReadError, TableId};
use shale_table::{Page, PageRef, PageSource, Schema, Table, TableRoot};
use shale_write::digest::ContentDigest;
use shale_write::{Base, BaseError, BaseFrame, BaseState};

use crate::contents::{self, Known};

/// Bytes read at a time where the image has no hashes of its leaves.
const STEP_LEN: u64 = 1 << 20;

/// An open image.
pub(crate) struct ImageBase {
    image: Arc<Image>,
    state: BaseState,
    /// Lengths and contents, sorted; read when first asked for.
    by_len: OnceLock<Vec<(u64, u64)>>,
    /// What was read of contents so far.
    known: Mutex<HashMap<u64, Arc<Known>>>,
    /// Append indexes; read when first asked for.
    indexes: OnceLock<Vec<Arc<AppendIndex>>>,
}

impl ImageBase {
    /// Reads where everything ends.
    ///
    /// # Errors
    /// The image is damaged.
    pub(crate) fn new(image: Arc<Image>) -> Result<Self, ReadError> {
        let root = image.root().clone();
        // Both tables end with a row that says where their space ends.
        let end = |table: TableRoot, schema: &'static Schema, column| match table.row_count {
            0 => Ok(0),
            rows => {
                let id = TableId { snapshot: None, root: table, schema };
                let pages = image.table_pages(&id);
                Table::new(table, schema, &pages)?.u64(column, rows - 1)
            }
        };
        let state = BaseState {
            root_place: root_place(&image)?,
            image_id: image.superblock().image_id,
            version: (image.superblock().version_major, image.superblock().version_minor),
            image_len: image.len(),
            section_count: image.trailer().section_count + 1,
            content_count: image.content_count(),
            content_space_len: end(
                root.contents,
                &schema::contents::SCHEMA,
                schema::contents::BASE,
            )?,
            stream_len: end(root.frames, &schema::frames::SCHEMA, schema::frames::PLAIN_START)?,
            rebuilt_space_len: end(root.chunks, &schema::chunks::SCHEMA, schema::chunks::BASE)?,
            root,
        };
        let (by_len, indexes) = (OnceLock::new(), OnceLock::new());
        Ok(Self { image, state, by_len, known: Mutex::default(), indexes })
    }

    fn by_len(&self) -> Result<&[(u64, u64)], ReadError> {
        if let Some(found) = self.by_len.get() {
            return Ok(found);
        }
        let root = self.state.root.contents;
        let id = TableId { snapshot: None, root, schema: &schema::contents::SCHEMA };
        let pages = self.image.table_pages(&id);
        let mut bases = Vec::new();
        let table = Table::new(root, &schema::contents::SCHEMA, &pages)?;
        table.u64_range(schema::contents::BASE, 0..root.row_count, &mut bases)?;
        let lens = bases.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let mut found: Vec<(u64, u64)> = lens.zip(0..).collect();
        found.sort_unstable();
        Ok(self.by_len.get_or_init(|| found))
    }

    fn known(&self, content: u64) -> Result<Arc<Known>, ReadError> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(&content) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(contents::read(&self.image, content)?);
        known().insert(content, Arc::clone(&found));
        Ok(found)
    }
}

/// Returns where the newest root and its copy are. `None` if they are not as an append would name
/// them.
fn root_place(image: &Image) -> Result<Option<EarlierRoot>, ReadError> {
    let trailer = image.trailer();
    let Some(section) = image.section_at(trailer.root_offset)? else { return Ok(None) };
    let len = section.end() - section.offset;
    if section.section_type != SectionType::Root as u16 || len != trailer.root_section_len {
        return Ok(None);
    }
    let merkle = match trailer.merkle_offset {
        0 => None,
        at => image.section_at(at)?,
    };
    let copy = match merkle {
        Some(merkle) => image.section_at(merkle.end())?,
        None => None,
    };
    let copy = copy.filter(|copy| copy.payload_sum == section.payload_sum);
    Ok(Some(EarlierRoot {
        offset: section.offset,
        copy_offset: copy.map_or(0, |copy| copy.offset),
        section_len: len,
        payload_sum: section.payload_sum,
        snapshot_count: image.snapshots().len() as u32,
    }))
}

impl Base for ImageBase {
    fn state(&self) -> &BaseState {
        &self.state
    }

    fn leaves(&self) -> Result<LeafHasher, BaseError> {
        let leaves = self.image.leaf_hashes()?;
        let mut at = leaves.len() as u64 * LEAF_LEN;
        let mut hasher = LeafHasher::after(LEAF_LEN as usize, leaves);
        let mut bytes = Vec::new();
        while at < self.state.image_len {
            let len = (self.state.image_len - at).min(STEP_LEN);
            bytes.resize(len as usize, 0);
            self.image.read_stored(at, &mut bytes)?;
            hasher.update(&bytes);
            at += len;
        }
        Ok(hasher)
    }

    fn hash_runs(&self) -> Result<Option<(MerkleHead, HashRuns)>, BaseError> {
        match self.state.version >= (0, 4) {
            true => Ok(self.image.hash_runs()?),
            false => Ok(None),
        }
    }

    fn content_len(&self, content: u64) -> Result<u64, BaseError> {
        Ok(self.image.content_len(content)?)
    }

    fn contents_of_len(&self, len: u64) -> Result<Vec<u64>, BaseError> {
        let all = self.by_len()?;
        let first = all.partition_point(|&(found, _)| found < len);
        let same = all[first..].iter().take_while(|&&(found, _)| found == len);
        Ok(same.map(|&(_, content)| content).collect())
    }

    fn content_is(
        &self,
        content: u64,
        digest: &ContentDigest,
        holes: &[Range<u64>],
    ) -> Result<bool, BaseError> {
        let known = self.known(content)?;
        Ok(known.digest == *digest && known.holes == holes)
    }

    fn content_digest(&self, content: u64) -> Result<ContentDigest, BaseError> {
        Ok(contents::read(&self.image, content)?.digest)
    }

    fn content_depth(&self, content: u64) -> Result<u64, BaseError> {
        let mut depth = 0;
        if self.image.chunk_count() > 0 {
            for piece in self.image.pieces(content, 0..u64::MAX)? {
                if let PieceKind::Rebuilt { chunk, .. } = piece?.kind {
                    depth = depth.max(self.image.chunk_record(chunk)?.depth);
                }
            }
        }
        Ok(depth)
    }

    fn frames(&self) -> Result<Vec<BaseFrame>, BaseError> {
        let mut found = Vec::new();
        for record in self.image.frame_records(0..self.image.frame_count()) {
            let (_, record) = record?;
            let references = self.image.references(&record)?.frames().to_vec();
            found.push(BaseFrame { plain_len: record.plain_len, depth: record.depth, references });
        }
        Ok(found)
    }

    fn frame(&self, frame: u64) -> Result<Arc<Vec<u8>>, BaseError> {
        Ok(self.image.frame(frame)?)
    }

    fn append_indexes(&self) -> Result<Vec<Arc<AppendIndex>>, BaseError> {
        if let Some(found) = self.indexes.get() {
            return Ok(found.clone());
        }
        let mut found = Vec::new();
        for section in self.image.sections() {
            // What lies after a section that cannot be read is no hint.
            let Ok(section) = section else { break };
            if section.section_type != SectionType::AppendIndex as u16 {
                continue;
            }
            let payload = self.image.section_payload(&section, APPEND_INDEX_LEN_MAX);
            let index = payload.ok().and_then(|payload| AppendIndex::decode(&payload).ok());
            found.extend(index.map(Arc::new));
        }
        Ok(self.indexes.get_or_init(|| found).clone())
    }

    fn page(
        &self,
        table: &TableRoot,
        page: &PageRef,
        schema: &'static Schema,
    ) -> Result<Arc<Page>, BaseError> {
        let id = TableId { snapshot: None, root: *table, schema };
        Ok(self.image.table_pages(&id).page(page, schema)?)
    }

    fn page_bytes(&self, table: &TableRoot, page: &PageRef) -> Result<Vec<u8>, BaseError> {
        let id = TableId { snapshot: None, root: *table, schema: &schema::contents::SCHEMA };
        Ok(self.image.table_pages(&id).read_plain(page)?)
    }

    fn read_stored(&self, offset: u64, out: &mut [u8]) -> Result<(), BaseError> {
        Ok(self.image.read_stored(offset, out)?)
    }
}
