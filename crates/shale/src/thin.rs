//! Thin images: what an append would add, in a file of its own, and the whole images that it makes
//! with its base.
//!
//! [`create_thin`] writes the end of an image whose beginning is another one, the *base*. The base
//! is only read. [`whole`] joins both again: the result is one file, byte for byte the image that
//! an append to the base would have made, with the same identity wherever it is joined. [`patch`]
//! appends the end to the file of the base instead.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use shale_codec::merkle::{LeafHasher, tree as hashes_of};
use shale_format::limits::{SNAPSHOT_COUNT_MAX, THIN_DEPTH_MAX};
use shale_format::merkle::{FAN_OUT, LEAF_LEN};
use shale_format::section::SECTION_MAGIC;
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{Identity, MerkleHead, ThinHead};
use shale_host::{Cancel, Existing, GrowingFile, Output, OutputFile, Phase, Progress, existing};
use shale_model::LinkId;
use shale_read::files::{Bases, Gathered, Place, gather};
use shale_read::{ByteSource, FileSource, Image, Options, SliceSource};
use shale_source::file_identity;
use shale_write::Report;

use crate::append::base::ImageBase;
use crate::append::tail::{self, Tail};
use crate::append::{AppendOptions, check_options, tree};
use crate::error::Error;
use crate::verify::{VerifyReport, verify};
use shale_source::Input;

/// Bytes that are copied at a time.
const STEP_LEN: u64 = 1 << 20;

/// The image that a thin one begins with.
pub struct ThinBase {
    /// All of its files.
    pub files: Gathered,
    /// Its path or URL, for messages.
    pub shown: String,
    /// The name of its file, by which a reader finds it beside the thin image.
    pub name: Vec<u8>,
}

/// What [`create_thin`] did.
#[derive(Debug)]
#[non_exhaustive]
pub struct ThinReport {
    /// Report of the build. Its identity and its bytes are those of the whole image.
    pub build: Report,
    /// Number of the new snapshot.
    pub number: usize,
    /// Bytes of the file that was written.
    pub file_bytes: u64,
    /// Bytes of the base.
    pub base_bytes: u64,
    /// Identity of the base.
    pub base_identity: Identity,
    /// What was read back and compared; `None` if verification was off or impossible.
    pub verified: Option<VerifyReport>,
}

/// Writes a thin image: a snapshot of `sources` that refers to the frames and contents of `base`.
/// Parity, padding, and where the base lies in its file do not count among the options.
///
/// # Errors
/// The base has no identity, is not whole, or is itself too deep in a chain of thin images. On any
/// error nothing is left under the output's name or beside it; a stream may hold the beginning of a
/// thin image without its end, which no reader accepts.
pub fn create_thin(
    base: &ThinBase,
    sources: &[Input],
    output: Output<'_>,
    options: &AppendOptions,
    progress: &dyn Progress,
) -> Result<ThinReport, Error> {
    check_options(options)?;
    let create = &options.create;
    let (image, head) = open_base(base)?;
    let encoded = head.encode(shale_codec::xxh3_64);
    let encoded = encoded.map_err(|error| base.refused(error.to_string()))?;
    let write = |out: &mut (dyn Write + Send), excluded: &[LinkId]| -> Result<Report, Error> {
        let written = |error| Error::from(shale_write::WriteError::Output(error));
        let mut tree = tree(&image, sources, excluded, options, progress)?;
        let old = Arc::new(ImageBase::new(Arc::clone(&image))?);
        out.write_all(&encoded).map_err(written)?;
        let cancel = Some(create.cancel.flag());
        let build = shale_write::Options { cancel, ..create.build.clone() };
        let message = &options.message;
        let appended = shale_write::append(&mut *tree, old, out, &build, message, progress)?;
        create.cancel.check()?;
        out.write_all(&appended.trailer).and_then(|()| out.flush()).map_err(written)?;
        Ok(appended.report)
    };
    let (build, verified) = match output {
        Output::Stream(stream) => (write(stream, &[])?, None),
        Output::Path(path) => match existing(&path)? {
            Existing::Stream => return Err(Error::NotFile { path }),
            Existing::File if !create.overwrite => {
                return Err(shale_host::Error::Exists { path }.into());
            }
            Existing::File | Existing::Nothing => {
                let file = OutputFile::create(&path)?;
                let mut excluded = vec![identity_of(file.file(), &path)?];
                if let Ok(old) = File::open(&path) {
                    excluded.push(identity_of(&old, &path)?);
                }
                let build = write(&mut file.file(), &excluded)?;
                progress.phase(Phase::Sync);
                file.sync()?;
                create.cancel.check()?;
                let verified = match create.verify {
                    false => None,
                    true => Some(read_back(file.file(), &path, base, &build, options, progress)?),
                };
                create.cancel.check()?;
                file.commit(create.overwrite)?;
                (build, verified)
            }
        },
    };
    Ok(ThinReport {
        number: image.snapshots().len(),
        file_bytes: head.len() + (build.image_bytes - image.len()),
        base_bytes: image.len(),
        base_identity: head.base_identity,
        build,
        verified,
    })
}

/// Opens the base in its newest state, and makes the head of a thin image over it.
fn open_base(base: &ThinBase) -> Result<(Arc<Image>, ThinHead), Error> {
    // What is damaged must be noticed, not repaired: the repaired bytes would not be in the file.
    let read = Options::default().repair(false);
    let image = Image::open(Arc::clone(&base.files.source), read)?;
    if let Some(recovery) = image.recovered() {
        return Err(base.refused(format!("its end is damaged ({})", recovery.reason)));
    }
    if image.snapshots().len() as u64 >= u64::from(SNAPSHOT_COUNT_MAX) {
        return Err(base.refused("it has as many snapshots as an image can have".to_owned()));
    }
    let depth = base.files.base.as_ref().map_or(0, |base| base.depth());
    if depth >= THIN_DEPTH_MAX {
        let what = format!("it is thin, and at the end of {depth} thin images over each other");
        return Err(base.refused(what));
    }
    let Some((_, identity)) = image.identity()? else {
        return Err(base.refused("it has no identity, as it is older than format 0.2".to_owned()));
    };
    let head = ThinHead {
        image_id: image.superblock().image_id,
        base_len: image.len(),
        base_identity: identity,
        base_name: base.name.clone(),
    };
    Ok((image, head))
}

impl ThinBase {
    fn refused(&self, what: String) -> Error {
        Error::NotBase { base: self.shown.clone(), what }
    }
}

fn identity_of(file: &File, path: &Path) -> Result<LinkId, Error> {
    file_identity(file).map_err(Error::io("look at", path))
}

/// Reads the thin image back, as a reader finds it and its base.
fn read_back(
    file: &File,
    path: &Path,
    base: &ThinBase,
    build: &Report,
    options: &AppendOptions,
    progress: &dyn Progress,
) -> Result<VerifyReport, Error> {
    progress.phase(Phase::Verify);
    let again = file.try_clone().map_err(Error::io("read back", path))?;
    let again = Arc::new(FileSource::new(again).map_err(Error::io("read back", path))?);
    let found = gather(again, &Nowhere, &Bases(vec![Arc::new(Held::of(base))]))?;
    verify(found.source, build, &options.create.build, &options.create.cancel, progress)
}

/// A source that is open already, as a place. It knows no other files.
struct Held {
    source: Arc<dyn ByteSource>,
    shown: String,
}

impl Held {
    fn of(base: &ThinBase) -> Self {
        Self { source: Arc::clone(&base.files.source), shown: base.shown.clone() }
    }
}

impl Place for Held {
    fn open(&self) -> io::Result<Arc<dyn ByteSource>> {
        Ok(Arc::clone(&self.source))
    }

    /// None, so that it is not taken for a part: all files of it are found already.
    fn name(&self) -> Vec<u8> {
        Vec::new()
    }

    fn beside(&self, _: &[u8]) -> Arc<dyn Place> {
        Arc::new(Nowhere)
    }

    fn shown(&self) -> String {
        self.shown.clone()
    }
}

/// The place of a file beside which nothing is looked for.
struct Nowhere;

impl Place for Nowhere {
    fn open(&self) -> io::Result<Arc<dyn ByteSource>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn name(&self) -> Vec<u8> {
        Vec::new()
    }

    fn beside(&self, _: &[u8]) -> Arc<dyn Place> {
        Arc::new(Nowhere)
    }

    fn shown(&self) -> String {
        "beside it".to_owned()
    }
}

/// Finds the files of the thin image `thin` over exactly this base, and over no other one that may
/// lie beside it.
///
/// # Errors
/// [`Error::NotThin`] if the image is not thin, [`Error::OtherBase`] if it is of another base, and
/// what cannot be read.
pub fn over(thin: Arc<dyn ByteSource>, shown: &str, base: &ThinBase) -> Result<Gathered, Error> {
    use shale_read::Fault;
    let found = gather(thin, &Nowhere, &Bases(vec![Arc::new(Held::of(base))]));
    let found = found.map_err(|error| match error.fault() {
        Fault::NoBase { identity, base_len, tried, .. } => Error::OtherBase {
            thin: shown.to_owned(),
            base: base.shown.clone(),
            identity: *identity,
            base_len: *base_len,
            why: tried.split("; beside it").next().unwrap_or_default().to_owned(),
        },
        _ => error.into(),
    })?;
    match found.base {
        Some(_) => Ok(found),
        None => Err(Error::NotThin { image: shown.to_owned() }),
    }
}

/// How to join a thin image and its base.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct WholeOptions {
    /// Replace an existing output.
    pub overwrite: bool,
    /// Do not compare all bytes with the identity.
    pub skips_verify: bool,
    /// Refuse a thin image that makes an image with another identity.
    pub expect: Option<Identity>,
    /// Wait while another process writes to the file, where one is changed.
    pub waits: bool,
    /// Ends the run.
    pub cancel: Cancel,
}

impl WholeOptions {
    shale_host::setters! {
        overwrite: bool,
        skips_verify: bool,
        expect: Option<Identity>,
        waits: bool,
        cancel: Cancel,
    }
}

/// A whole image that was made of a thin one and its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WholeReport {
    /// Identity of the image.
    pub identity: Identity,
    /// Bytes of the image.
    pub image_bytes: u64,
    /// Bytes of it that come from the thin image.
    pub added_bytes: u64,
    /// Number of its snapshots.
    pub snapshots: usize,
}

/// Writes a thin image and its base into one file, as one whole image. All of its bytes are
/// compared with its identity on their way.
///
/// # Errors
/// A byte is not what the identity says, or a file cannot be read or written. Nothing is left under
/// the name of the output then.
pub fn whole(
    files: &Gathered,
    output: &Path,
    options: &WholeOptions,
    progress: &dyn Progress,
) -> Result<WholeReport, Error> {
    match existing(output)? {
        Existing::Stream => return Err(Error::NotFile { path: output.to_owned() }),
        Existing::File if !options.overwrite => {
            return Err(shale_host::Error::Exists { path: output.to_owned() }.into());
        }
        Existing::File | Existing::Nothing => {}
    }
    let joined = Joining::open(files, options)?;
    let file = OutputFile::create(output)?;
    let mut out: &File = file.file();
    progress.phase(Phase::Sections);
    progress.found(0, joined.image.len());
    let mut proof = Proof::new(&joined.head);
    joined.visit(0..joined.image.len(), &options.cancel, |bytes| {
        proof.update(bytes);
        progress.done(0, bytes.len() as u64);
        out.write_all(bytes).map_err(Error::io("write", output))
    })?;
    if !options.skips_verify && !proof.holds() {
        return Err(joined.blame(&options.cancel)?);
    }
    progress.phase(Phase::Sync);
    file.sync()?;
    options.cancel.check()?;
    file.commit(options.overwrite)?;
    Ok(joined.report())
}

/// Appends the end that a thin image holds to the file of its base, which is at `path` and ends
/// with the state that the thin image continues. Until the last bytes are written, readers see the
/// base; whatever ends this early leaves the base as it was.
///
/// # Errors
/// The file of the base has grown since or holds something else, a byte is not what the identity
/// says, or a file cannot be read or written.
pub fn patch(
    thin: Arc<dyn ByteSource>,
    shown: &str,
    path: &Path,
    options: &WholeOptions,
    progress: &dyn Progress,
) -> Result<WholeReport, Error> {
    let mut file = GrowingFile::open(path, options.waits, &options.cancel)?;
    let again = file.file().try_clone().map_err(Error::io("open", path))?;
    let source: Arc<dyn ByteSource> =
        Arc::new(FileSource::new(again).map_err(Error::io("open", path))?);
    let base = ThinBase {
        files: Gathered { source: Arc::clone(&source), base: None, parts: 1 },
        shown: path.display().to_string(),
        name: Vec::new(),
    };
    let files = over(thin, shown, &base)?;
    let joined = Joining::open(&files, options)?;
    // Only the state that the file ends with can be continued in place.
    let old = Image::open(Arc::clone(&source), Options::default().repair(false))?;
    let base_len = joined.base_len;
    let tail = tail::look(&old, &*source).map_err(Error::io("read", path))?;
    // A patch or an append that was interrupted left bytes, which are written again.
    let is_torn = matches!(tail, Tail::Torn(_));
    if old.len() != base_len || (old.recovered().is_some() && !is_torn) {
        let what = "it was appended to since, or its end is damaged; write to a new file instead";
        return Err(Error::NotAppendable { path: path.to_owned(), what: what.to_owned() });
    }
    let end = joined.image.len() - TRAILER_SECTION_LEN as u64;
    progress.phase(Phase::Sections);
    let mut proof = Proof::new(&joined.head);
    if !options.skips_verify {
        progress.found(0, joined.image.len());
        joined.visit(0..joined.image.len(), &options.cancel, |bytes| {
            proof.update(bytes);
            progress.done(0, bytes.len() as u64);
            Ok(())
        })?;
        if !proof.holds() {
            return Err(joined.blame(&options.cancel)?);
        }
    }
    file.begin(old.offset() + base_len, &SECTION_MAGIC)?;
    joined.visit(base_len..end, &options.cancel, |bytes| {
        file.write_all(bytes).map_err(Error::io("write", path))
    })?;
    options.cancel.check()?;
    progress.phase(Phase::Sync);
    let mut last = Vec::new();
    joined.visit(end..joined.image.len(), &options.cancel, |bytes| {
        last.extend_from_slice(bytes);
        Ok(())
    })?;
    file.finish(&last)?;
    Ok(joined.report())
}

/// A thin image with its base, open to be copied.
struct Joining {
    image: Arc<Image>,
    head: MerkleHead,
    identity: Identity,
    base_len: u64,
}

impl Joining {
    fn open(files: &Gathered, options: &WholeOptions) -> Result<Self, Error> {
        // Wrong bytes must be noticed, not repaired.
        let read = Options::default().repair(false);
        let image = Image::open(Arc::clone(&files.source), read)?;
        let damaged = |what: &str| Error::Damaged { what: what.to_owned() };
        if let Some(recovery) = image.recovered() {
            return Err(damaged(&format!("the end of the thin image: {}", recovery.reason)));
        }
        let found = image.identity()?;
        let (head, identity) = found.ok_or_else(|| damaged("the thin image has no identity"))?;
        if let Some(expected) = options.expect.filter(|expected| *expected != identity) {
            return Err(shale_read::ReadError::from(shale_read::Fault::Identity {
                expected,
                found: identity,
            })
            .into());
        }
        let base_len = files.base.as_ref().map_or(0, |base| base.base_len);
        Ok(Self { image, head, identity, base_len })
    }

    /// Gives the bytes of a range of the image to `each`, piece by piece.
    fn visit(
        &self,
        range: std::ops::Range<u64>,
        cancel: &Cancel,
        mut each: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut at, mut bytes) = (range.start, Vec::new());
        while at < range.end {
            cancel.check()?;
            bytes.resize((range.end - at).min(STEP_LEN) as usize, 0);
            self.image.read_stored(at, &mut bytes)?;
            each(&bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// The error for bytes that the identity does not allow: it names the file that is damaged.
    fn blame(&self, cancel: &Cancel) -> Result<Error, Error> {
        let bytes = SliceSource::new(Stored(Arc::clone(&self.image)), 0, self.base_len);
        let base = Image::open(Arc::new(bytes), Options::default().repair(false))?;
        let is_whole = match base.identity()? {
            None => false,
            Some((head, _)) => {
                let mut proof = Proof::new(&head);
                self.visit(0..head.covered_len, cancel, |bytes| {
                    proof.update(bytes);
                    Ok(())
                })?;
                proof.holds()
            }
        };
        let what = match is_whole {
            true => "the thin image: its bytes are not those of its identity",
            false => "the base: its bytes are not those of its identity",
        };
        Ok(Error::Damaged { what: what.to_owned() })
    }

    fn report(&self) -> WholeReport {
        WholeReport {
            identity: self.identity,
            image_bytes: self.image.len(),
            added_bytes: self.image.len() - self.base_len,
            snapshots: self.image.snapshots().len(),
        }
    }
}

/// The bytes of an image as a source.
struct Stored(Arc<Image>);

impl ByteSource for Stored {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        Ok(self.0.read_stored(offset, buf)?)
    }
}

/// The first bytes of an image, hashed as its identity says.
struct Proof {
    leaves: LeafHasher,
    left: u64,
    tree_root: [u8; 32],
}

impl Proof {
    fn new(head: &MerkleHead) -> Self {
        let leaves = LeafHasher::new(LEAF_LEN as usize);
        Self { leaves, left: head.covered_len, tree_root: head.tree_root }
    }

    /// Takes the next bytes; those that the identity does not cover are not hashed.
    fn update(&mut self, bytes: &[u8]) {
        let len = self.left.min(bytes.len() as u64);
        self.leaves.update(&bytes[..len as usize]);
        self.left -= len;
    }

    fn holds(self) -> bool {
        self.left == 0
            && hashes_of(self.leaves.finish(), FAN_OUT as usize).last() == Some(&self.tree_root)
    }
}
