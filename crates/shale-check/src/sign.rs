//! Signatures over the identity of an image, and the files that hold keys and signatures.
//!
//! A signature states that the owner of a key vouches for an identity, and the identity determines
//! the bytes of the image. Verification tests both: the signature against keys that the caller
//! trusts, and every leaf of the image against the identity. An image never decides which keys to
//! trust: a key in the image is only compared with the caller's keys.
//!
//! A key file or detached signature is one line of text; `docs/integrity.md` defines the format.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use shale_codec::merkle::{LeafHasher, tree};
use shale_codec::signature::{PublicKey, SecretKey, is_signed};
use shale_codec::xxh3_64;
use shale_format::merkle::{FAN_OUT, LEAF_LEN};
use shale_format::signature::{SIGNATURE_LEN, Signature};
use shale_format::trailer::{PADDED_TO, TRAILER_SECTION_LEN};
use shale_format::{Identity, SectionHeader, SectionType, Trailer, hex};
use shale_host::{Cancel, Existing, OutputFile, Phase, Progress, existing};
use shale_read::files::{Bases, FilePlace, gather};
use shale_read::{ByteSource, FileSource, Image, OffsetChoice, Options};

use crate::error::{Error, SignProblem};

/// Bytes read of a key or signature file.
const TEXT_LEN_MAX: usize = 4096;
/// Bytes hashed at once.
const CHUNK_LEN: u64 = 1 << 20;
/// Most signatures of one image that are read.
const SIGNATURE_COUNT_MAX: usize = 1000;

/// Creates a key from the system's random numbers. Writes it to `path`, readable by its owner only,
/// and the public key to `path` with the suffix `.pub`. Returns the public key.
///
/// # Errors
/// One of the files exists already or cannot be written.
pub fn generate_key(path: &Path, comment: &str) -> Result<PublicKey, Error> {
    let mut seed = [0; 32];
    let mut filled = 0;
    while let Some(rest) = seed.get_mut(filled..)
        && !rest.is_empty()
    {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())
            .map_err(Error::io("take random bytes for", path))?;
    }
    let key = SecretKey::new(&seed);
    let mut public_path = path.as_os_str().to_owned();
    public_path.push(".pub");
    let comment = one_line(comment);
    let secret = format!("shale-secret-key ed25519 {} {comment}\n", hex::encode(&key.seed()));
    let public = format!("shale-public-key ed25519 {} {comment}\n", hex::encode(&key.public()));
    let put = |path: &Path, mode: u32, text: &str| -> Result<(), Error> {
        let mut options = File::options();
        options.write(true).create_new(true).mode(mode);
        let write = || -> io::Result<()> {
            let mut file = options.open(path)?;
            let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
            // A partial key is useless and would block the next attempt.
            written.inspect_err(|_| drop(std::fs::remove_file(path)))
        };
        write().map_err(Error::io("write the new key", path))
    };
    put(path, 0o600, &secret)?;
    if let Err(error) = put(Path::new(&public_path), 0o644, &public) {
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(key.public())
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

/// Reads a secret key.
///
/// # Errors
/// The file cannot be read or does not hold a secret key.
pub fn read_secret_key(path: &Path) -> Result<SecretKey, Error> {
    let words = words(path, "shale-secret-key")?;
    match words.first().and_then(|word| hex::decode(word)) {
        Some(seed) => Ok(SecretKey::new(&seed)),
        None => Err(wrong(path, "shale-secret-key")),
    }
}

/// Reads a public key.
///
/// # Errors
/// The file cannot be read or does not hold a public key.
pub fn read_public_key(path: &Path) -> Result<PublicKey, Error> {
    let words = words(path, "shale-public-key")?;
    words.first().and_then(|word| hex::decode(word)).ok_or_else(|| wrong(path, "shale-public-key"))
}

/// Reads a detached signature.
///
/// # Errors
/// The file cannot be read or does not hold a signature.
pub fn read_signature(path: &Path) -> Result<Signature, Error> {
    let words = words(path, "shale-signature")?;
    let read = || {
        let [public_key, identity, signature, ..] = words.as_slice() else { return None };
        Some(Signature {
            public_key: hex::decode(public_key)?,
            identity: Identity(hex::decode(identity)?),
            signature: hex::decode(signature)?,
        })
    };
    read().ok_or_else(|| wrong(path, "shale-signature"))
}

/// Formats a detached signature as text.
pub fn signature_text(signature: &Signature) -> String {
    format!(
        "shale-signature ed25519 {} {} {}\n",
        hex::encode(&signature.public_key),
        signature.identity,
        hex::encode(&signature.signature)
    )
}

/// Writes `signature` to the file at `path`, completely or not at all. With `replace`, an existing
/// file is replaced.
///
/// # Errors
/// The file exists and `replace` is false, or it cannot be written.
pub fn write_signature(path: &Path, signature: &Signature, replace: bool) -> Result<(), Error> {
    let text = signature_text(signature);
    let put = |mut file: &File| file.write_all(text.as_bytes()).map_err(Error::io("write", path));
    match existing(path)? {
        Existing::Stream => {
            let file = File::options().write(true).open(path);
            put(&file.map_err(Error::io("write to", path))?)
        }
        Existing::File if !replace => {
            Err(shale_host::Error::Exists { path: path.to_owned() }.into())
        }
        Existing::File | Existing::Nothing => {
            let output = OutputFile::create(path)?;
            put(output.file())?;
            output.sync()?;
            Ok(output.commit(replace)?)
        }
    }
}

/// Returns the words after `kind ed25519` in the file at `path`.
fn words(path: &Path, kind: &str) -> Result<Vec<String>, Error> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(TEXT_LEN_MAX as u64).read_to_end(&mut bytes))
        .map_err(Error::io("read", path))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some(kind) || words.next() != Some("ed25519") {
        return Err(wrong(path, kind));
    }
    Ok(words.map(str::to_owned).collect())
}

fn wrong(path: &Path, kind: &str) -> Error {
    Error::KeyFile { path: path.to_owned(), kind: kind.to_owned() }
}

/// How to sign and verify.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SignOptions {
    /// Where the image begins in its file.
    pub offset: OffsetChoice,
    /// Where the bases of thin images are, besides the directories of these.
    pub bases: Bases,
    /// Trust the image's Merkle tree: do not hash the image.
    pub skip_content: bool,
    /// Cancels the run.
    pub cancel: Cancel,
}

impl SignOptions {
    shale_host::setters! {
        offset: OffsetChoice,
        bases: Bases,
        skip_content: bool,
        cancel: Cancel,
    }
}

/// Signs the identity of the image at `path`, after hashing the image and comparing it with the
/// identity.
///
/// # Errors
/// The image cannot be read, has no identity, or its bytes do not match it.
pub fn sign(
    path: &Path,
    key: &SecretKey,
    options: &SignOptions,
    progress: &dyn Progress,
) -> Result<Signature, Error> {
    let image = open(path, options)?;
    let identity = proven(&image, path, options, progress)?;
    let signature = key.sign(&Signature::message(&identity));
    Ok(Signature { public_key: key.public(), identity, signature })
}

/// Appends `signature` to the image at `path`, in place. Neither the existing bytes nor the
/// identity change.
///
/// # Errors
/// Other data follows the image, or the file cannot be written; it is then as it was before.
pub fn embed_signature(
    path: &Path,
    signature: &Signature,
    options: &SignOptions,
) -> Result<(), Error> {
    let image = open(path, options)?;
    let refuse = |problem| Error::Sign { path: path.to_owned(), problem };
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(Error::io("open for writing", path))?;
    let file_len = file.metadata().map_err(Error::io("look at", path))?.len();
    let start = image.offset();
    let end = image.len();
    // Zeroes at the end of the last block are padding, and a padded image stays padded.
    let is_padded = file_len > start + end;
    let is_at_end = (start + end..start + end + PADDED_TO).contains(&file_len);
    if image.recovered().is_some() || !is_at_end {
        return Err(refuse(SignProblem::NotAtEnd));
    }
    let mut section_count = 0;
    for section in image.sections() {
        section?;
        section_count += 1;
    }
    let tag = image.superblock().image_tag();
    let section = |kind: SectionType, offset: u64, payload: &[u8]| {
        let header = SectionHeader {
            section_type: kind as u16,
            codec: 0,
            offset,
            stored_len: payload.len() as u64,
            plain_len: payload.len() as u64,
            image_tag: tag,
            payload_sum: xxh3_64(payload),
        };
        [&header.encode(xxh3_64)[..], payload].concat()
    };
    let own = section(SectionType::Signature, end, &signature.encode());
    let trailer_offset = end + own.len() as u64;
    let trailer = Trailer {
        image_len: trailer_offset + TRAILER_SECTION_LEN as u64,
        previous_trailer_offset: end - TRAILER_SECTION_LEN as u64,
        section_count: section_count + 1,
        ..*image.trailer()
    };
    let trailer = section(SectionType::Trailer, trailer_offset, &trailer.encode());
    let write = || -> io::Result<()> {
        file.write_all_at(&own, start + end)?;
        // The trailer makes the signature count, so it must be the last to reach the disk.
        file.sync_all()?;
        file.write_all_at(&trailer, start + trailer_offset)?;
        if is_padded {
            let end = start + trailer_offset + trailer.len() as u64;
            file.set_len(end)?;
            file.set_len(end.next_multiple_of(PADDED_TO))?;
        }
        file.sync_all()
    };
    write().map_err(|error| {
        let _ = file.set_len(start + end).and_then(|()| file.set_len(file_len));
        Error::io("append the signature to", path)(error)
    })
}

/// Returns all signatures in an image that this version can read. Costs one read for each section.
///
/// # Errors
/// A section cannot be read.
pub fn signatures(image: &Image) -> Result<Vec<Signature>, Error> {
    let mut found = Vec::new();
    for section in image.sections() {
        let section = section?;
        if section.section_type == SectionType::Signature as u16
            && section.stored_len == SIGNATURE_LEN as u64
            && found.len() < SIGNATURE_COUNT_MAX
        {
            let payload = image.section_payload(&section, SIGNATURE_LEN as u64)?;
            let signature = Signature::decode(&payload).map_err(shale_read::ReadError::from)?;
            found.extend(signature);
        }
    }
    Ok(found)
}

/// What was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The trusted key that signed.
    pub public_key: PublicKey,
    /// The identity that was signed and that the image has.
    pub identity: Identity,
}

/// Verifies that one of `keys` signed the image at `path`, by `detached` or by a signature in the
/// image, and that every byte of the image matches the signed identity.
///
/// # Errors
/// [`Error::Sign`] if none of `keys` signed the image, or if its bytes do not match the signature.
pub fn verify_signature(
    path: &Path,
    keys: &[PublicKey],
    detached: Option<&Signature>,
    options: &SignOptions,
    progress: &dyn Progress,
) -> Result<Verified, Error> {
    let source = source(path, options)?;
    verify_signature_in(source, path, keys, detached, options, progress)
}

/// As [`verify_signature`], for an image in any source; errors call it `name`.
///
/// # Errors
/// As [`verify_signature`].
pub fn verify_signature_in(
    source: Arc<dyn ByteSource>,
    name: &Path,
    keys: &[PublicKey],
    detached: Option<&Signature>,
    options: &SignOptions,
    progress: &dyn Progress,
) -> Result<Verified, Error> {
    // Damage must be noticed here, not repaired.
    let image = Image::open(source, Options::default().offset(options.offset).repair(false))?;
    let refuse = |problem| Error::Sign { path: name.to_owned(), problem };
    let Some((_, identity)) = image.identity()? else {
        return Err(refuse(SignProblem::NoIdentity));
    };
    let found = match detached {
        Some(signature) => vec![*signature],
        None => signatures(&image)?,
    };
    if found.is_empty() {
        return Err(refuse(SignProblem::NoSignature));
    }
    let good = found.iter().find(|signature| {
        keys.contains(&signature.public_key)
            && signature.identity == identity
            && is_signed(
                &signature.public_key,
                &Signature::message(&identity),
                &signature.signature,
            )
    });
    let Some(signature) = good else {
        return Err(refuse(SignProblem::NotTrusted { count: found.len(), identity }));
    };
    let proven = proven(&image, name, options, progress)?;
    Ok(Verified { public_key: signature.public_key, identity: proven })
}

fn open(path: &Path, options: &SignOptions) -> Result<Arc<Image>, Error> {
    let source = source(path, options)?;
    // Damage must be noticed here, not repaired.
    let read = Options::default().offset(options.offset).repair(false);
    Ok(Image::open(source, read)?)
}

/// Finds all files of an image.
fn source(path: &Path, options: &SignOptions) -> Result<Arc<dyn ByteSource>, Error> {
    let first = FileSource::open(path).map_err(Error::io("open", path))?;
    Ok(gather(Arc::new(first), &FilePlace::new(path), &options.bases)?.source)
}

/// Returns the identity of the image after hashing all its bytes.
fn proven(
    image: &Image,
    path: &Path,
    options: &SignOptions,
    progress: &dyn Progress,
) -> Result<Identity, Error> {
    let refuse = |problem| Error::Sign { path: path.to_owned(), problem };
    let Some((head, identity)) = image.identity()? else {
        return Err(refuse(SignProblem::NoIdentity));
    };
    let trailer = image.trailer();
    if (trailer.root_offset, trailer.root_section_len) != (head.root_offset, head.root_section_len)
    {
        return Err(refuse(SignProblem::OtherRoot));
    }
    if options.skip_content {
        return Ok(identity);
    }
    progress.phase(Phase::Sections);
    progress.found(0, head.covered_len);
    let mut leaves = LeafHasher::new(LEAF_LEN as usize);
    let (mut at, mut buf) = (0, Vec::new());
    while at < head.covered_len {
        options.cancel.check()?;
        let len = (head.covered_len - at).min(CHUNK_LEN);
        buf.resize(len as usize, 0);
        image.read_stored(at, &mut buf)?;
        leaves.update(&buf);
        at += len;
        progress.done(0, len);
    }
    if tree(leaves.finish(), FAN_OUT as usize).last() != Some(&head.tree_root) {
        return Err(refuse(SignProblem::OtherBytes));
    }
    Ok(identity)
}
