//! The parity of a finished image: how much there is, and its removal.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use shale_format::merkle::LEAF_LEN;
use shale_format::parity::PARITY_COUNT_MIN;
use shale_format::section::SECTION_HEADER_LEN;
use shale_format::signature::{SIGNATURE_LEN, Signature};
use shale_format::{ParityHead, SectionType};
use shale_host::Progress;
use shale_read::{ByteSource, FileSource, Image, OffsetChoice, Options, SliceSource};

use crate::check::{CheckLevel, CheckOptions, check};
use crate::error::{Error, ParityProblem};
use crate::parity::{ParityOptions, chain, head_of};
use crate::sign::{SignOptions, embed_signature};

/// Parity per million bytes where the image does not tell: it has the least that there can be.
const SHARE_DEFAULT: u32 = 50_000;

/// The parity in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParityFacts {
    /// Sections of parity; one unless more was added, or the image grew.
    pub sections: u64,
    /// Bytes of these sections.
    pub stored_bytes: u64,
    /// Length of the longest burst that the newest section, and each one that it leads to, always
    /// repairs.
    pub burst_bytes: u64,
    /// The share for which [`crate::add_parity`] adds this much again.
    pub parts_per_million: u32,
}

/// Measures the parity of an image. Costs one read for each section, and one for each head of
/// parity.
///
/// # Errors
/// A section or a head of parity is damaged.
pub fn parity_facts(image: &Image) -> Result<Option<ParityFacts>, Error> {
    let mut heads = Vec::new();
    for section in image.sections() {
        heads.extend(head_of(image, &section?)?);
    }
    let chain = chain(&heads);
    let Some(burst_bytes) = chain.iter().map(|head| head.burst_len()).min() else {
        return Ok(None);
    };
    let mut stored_bytes = 0;
    for head in &heads {
        stored_bytes += head.layout()?.end - head.section_offset - SECTION_HEADER_LEN as u64;
    }
    // A section that protects little has the least that there can be, and tells nothing.
    let protected = |head: &ParityHead| {
        let leaf_count = head.section_offset.div_ceil(LEAF_LEN);
        leaf_count.saturating_sub(head.sets[0].first_leaf).max(1)
    };
    let share = |head: &ParityHead| {
        let bodies = head.sets[0].body_count();
        let share = bodies.saturating_sub(2).saturating_mul(1_000_000) / protected(head);
        (bodies > PARITY_COUNT_MIN).then(|| share.min(1_000_000) as u32)
    };
    let largest = chain.into_iter().max_by_key(|head| protected(head));
    let parts_per_million = largest.and_then(share).unwrap_or(SHARE_DEFAULT);
    let sections = heads.len() as u64;
    Ok(Some(ParityFacts { sections, stored_bytes, burst_bytes, parts_per_million }))
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovedParity {
    /// Bytes by which the file is shorter.
    pub removed_bytes: u64,
    /// Bytes of the image now.
    pub image_bytes: u64,
    /// Signatures that lay after the parity and were appended again.
    pub signatures: u64,
}

/// Removes all parity from the image in the file at `path`, in place. Signatures stay valid,
/// because the identity does not change. Returns `None` if the image has no parity.
///
/// The image is checked first, as its parity could repair damage, unless
/// [`ParityOptions::force`] is set. A crash after the file was cut and before signatures were
/// appended again loses these signatures, and nothing else.
///
/// # Errors
/// The image is damaged or cannot be written, other data follows it, or it was appended to after
/// the parity was added.
pub fn remove_parity(
    path: &Path,
    options: &ParityOptions,
    progress: &dyn Progress,
) -> Result<Option<RemovedParity>, Error> {
    let refuse = |problem| Error::Parity { path: path.to_owned(), problem };
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(Error::io("open for writing", path))?;
    let again = file.try_clone().map_err(Error::io("open", path))?;
    let source = FileSource::new(again).map_err(Error::io("open", path))?;
    let source: Arc<dyn ByteSource> = Arc::new(source);
    let read = || Options::default().repair(false);
    let image = Image::open(Arc::clone(&source), read().offset(options.offset))?;
    let (start, len) = (image.offset(), image.len());
    if image.recovered().is_some() {
        return Err(refuse(ParityProblem::InterruptedWriter));
    }
    if source.len() > start + len {
        return Err(refuse(ParityProblem::OtherDataFollows));
    }
    let (cut_len, signatures) = match cut(&image)? {
        Cut::NoParity => return Ok(None),
        Cut::AppendedAfter => return Err(refuse(ParityProblem::AppendedAfter)),
        Cut::At { len, signatures } => (len, signatures),
    };
    if !options.force {
        let how = CheckOptions::default()
            .offset(OffsetChoice::At(start))
            .threads(options.threads)
            .level(CheckLevel::Frames)
            .cancel(options.cancel.clone());
        if !check(Arc::clone(&source), &how, progress)?.is_clean() {
            return Err(refuse(ParityProblem::DamagedBeforeRemoval));
        }
    }
    // What will be left has to be an image by itself.
    let left = Arc::new(SliceSource::new(source, 0, start + cut_len));
    if Image::open(left, read().offset(OffsetChoice::At(start)))?.recovered().is_some() {
        return Err(refuse(ParityProblem::Damaged));
    }
    options.cancel.check()?;
    file.set_len(start + cut_len).map_err(Error::io("cut", path))?;
    file.sync_all().map_err(Error::io("write", path))?;
    let sign = SignOptions::default().cancel(options.cancel.clone());
    for signature in &signatures {
        embed_signature(path, signature, &sign)?;
    }
    let now = file.metadata().map_err(Error::io("look at", path))?.len() - start;
    Ok(Some(RemovedParity {
        removed_bytes: len - now,
        image_bytes: now,
        signatures: signatures.len() as u64,
    }))
}

/// Where to cut the file so that the image loses its parity.
enum Cut {
    /// There is no parity.
    NoParity,
    /// Sections other than parity and signatures follow the parity.
    AppendedAfter,
    /// Here.
    At {
        /// The end of the last trailer before the first parity, relative to the image.
        len: u64,
        /// The signatures beyond that length.
        signatures: Vec<Signature>,
    },
}

/// Finds where to cut the file.
fn cut(image: &Image) -> Result<Cut, Error> {
    let (mut end, mut has_parity, mut is_appended) = (0, false, false);
    let mut signatures = Vec::new();
    for section in image.sections() {
        let section = section?;
        match SectionType::from_id(section.section_type) {
            Some(SectionType::Parity) => has_parity = true,
            Some(SectionType::Trailer) if !has_parity => {
                end = section.end();
                signatures.clear();
            }
            Some(SectionType::Trailer | SectionType::Merkle | SectionType::MerkleContinued) => {}
            Some(SectionType::Signature) if section.stored_len == SIGNATURE_LEN as u64 => {
                let payload = image.section_payload(&section, SIGNATURE_LEN as u64)?;
                signatures.extend(Signature::decode(&payload)?);
            }
            _ => is_appended |= has_parity,
        }
    }
    Ok(match (has_parity, is_appended) {
        (false, _) => Cut::NoParity,
        (true, true) => Cut::AppendedAfter,
        (true, false) => Cut::At { len: end, signatures },
    })
}
