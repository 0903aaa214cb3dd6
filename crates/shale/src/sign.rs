//! Signatures over the identity of an image, and the files that hold keys and signatures.
//!
//! A signature says that the owner of a key vouched for an identity; the identity says which bytes
//! the image has. Verifying does both: the signature against keys that the caller trusts, and every
//! leaf of the image against the identity. An image never says whom to trust: a key that lies
//! in it is compared with the caller's, nothing else.
//!
//! Keys and detached signatures are files of one line of text; `docs/integrity.md` has the format.

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
use shale_format::trailer::TRAILER_SECTION_LEN;
use shale_format::{Identity, SectionHeader, SectionType, Trailer};
use shale_read::{FileSource, Image, OffsetChoice, Options};

use crate::error::Error;
use crate::info::hex;
use crate::output::{Existing, OutputFile, existing};
use crate::progress::{Cancel, Phase, Progress};

/// Bytes of a key or signature file that are looked at.
const TEXT_LEN_MAX: usize = 4096;
/// Bytes hashed at once.
const CHUNK_LEN: u64 = 1 << 20;
/// Signatures of one image that are looked at.
const SIGNATURE_COUNT_MAX: usize = 1000;

/// Makes a key from the system's randomness and writes it to `path`, which must not exist and will
/// be readable by its owner only, and its public half to `path` with `.pub` behind. Gives the
/// public half.
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
    let secret = format!("shale-secret-key ed25519 {} {comment}\n", hex(&key.seed()));
    let public = format!("shale-public-key ed25519 {} {comment}\n", hex(&key.public()));
    let put = |path: &Path, mode: u32, text: &str| -> Result<(), Error> {
        let mut options = File::options();
        options.write(true).create_new(true).mode(mode);
        let write = || -> io::Result<()> {
            let mut file = options.open(path)?;
            let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
            // A part of a key is none, and would be in the way of the next attempt.
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
pub fn read_secret_key(path: &Path) -> Result<SecretKey, Error> {
    let words = words(path, "shale-secret-key")?;
    match words.first().and_then(|word| from_hex(word)) {
        Some(seed) => Ok(SecretKey::new(&seed)),
        None => Err(wrong(path, "shale-secret-key")),
    }
}

/// Reads a public key.
pub fn read_public_key(path: &Path) -> Result<PublicKey, Error> {
    let words = words(path, "shale-public-key")?;
    words.first().and_then(|word| from_hex(word)).ok_or_else(|| wrong(path, "shale-public-key"))
}

/// Reads a detached signature.
pub fn read_signature(path: &Path) -> Result<Signature, Error> {
    let words = words(path, "shale-signature")?;
    let read = || {
        let [public_key, identity, signature, ..] = words.as_slice() else { return None };
        Some(Signature {
            public_key: from_hex(public_key)?,
            identity: Identity(from_hex(identity)?),
            signature: from_hex(signature)?,
        })
    };
    read().ok_or_else(|| wrong(path, "shale-signature"))
}

/// A detached signature as text.
pub fn signature_text(signature: &Signature) -> String {
    format!(
        "shale-signature ed25519 {} {} {}\n",
        hex(&signature.public_key),
        signature.identity,
        hex(&signature.signature)
    )
}

/// Writes `signature` to the file at `path`, which is there whole or not at all; with `replace`,
/// instead of a file of that name.
pub fn write_signature(path: &Path, signature: &Signature, replace: bool) -> Result<(), Error> {
    let text = signature_text(signature);
    let put = |mut file: &File| file.write_all(text.as_bytes()).map_err(Error::io("write", path));
    match existing(path)? {
        Existing::Stream => {
            let file = File::options().write(true).open(path);
            put(&file.map_err(Error::io("write to", path))?)
        }
        Existing::File if !replace => Err(Error::Exists { path: path.to_owned() }),
        Existing::File | Existing::Nothing => {
            let output = OutputFile::create(path)?;
            put(output.file())?;
            output.sync()?;
            output.commit(replace)
        }
    }
}

/// The words behind `kind ed25519` in the file at `path`.
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

fn from_hex<const LEN: usize>(text: &str) -> Option<[u8; LEN]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * LEN {
        return None;
    }
    let mut bytes = [0; LEN];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: u8| char::from(at).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(bytes)
}

/// How to sign and verify.
#[derive(Debug, Clone, Default)]
pub struct SignOptions {
    /// Where the image begins in its file.
    pub offset: OffsetChoice,
    /// Trust the tree of the image to be right: do not hash the image.
    pub skip_content: bool,
    /// Ends the run.
    pub cancel: Cancel,
}

/// Signs the identity of the image at `path`, after its bytes were compared with it.
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

/// Appends `signature` to the image at `path`, in place; the bytes that are there are not changed,
/// nor is the identity.
pub fn embed_signature(
    path: &Path,
    signature: &Signature,
    options: &SignOptions,
) -> Result<(), Error> {
    let image = open(path, options)?;
    let refuse = |what: &str| Error::Sign { path: path.to_owned(), what: what.to_owned() };
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(Error::io("open for writing", path))?;
    let file_len = file.metadata().map_err(Error::io("look at", path))?.len();
    let start = image.offset();
    let end = image.len();
    if image.recovered().is_some() || file_len != start + end {
        return Err(refuse("something follows the image in its file, so nothing can be appended"));
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
        // The trailer makes it count, and has to be the last to reach the disk.
        file.sync_all()?;
        file.write_all_at(&trailer, start + trailer_offset)?;
        file.sync_all()
    };
    write().map_err(|error| {
        let _ = file.set_len(file_len);
        Error::io("append the signature to", path)(error)
    })
}

/// All signatures in an image that this version can read. One read for each section.
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
pub struct Verified {
    /// The key, one of those trusted, that signed.
    pub public_key: PublicKey,
    /// The identity that it signed and that the image has.
    pub identity: Identity,
}

/// Verifies that one of `keys` signed the image at `path`, by `detached` or by a signature in the
/// image, and that every byte of the image is what was signed.
pub fn verify_signature(
    path: &Path,
    keys: &[PublicKey],
    detached: Option<&Signature>,
    options: &SignOptions,
    progress: &dyn Progress,
) -> Result<Verified, Error> {
    let image = open(path, options)?;
    let refuse = |what: String| Error::Sign { path: path.to_owned(), what };
    let Some((_, identity)) = image.identity()? else {
        return Err(refuse("it has no Merkle tree, so nobody can have signed it".to_owned()));
    };
    let found = match detached {
        Some(signature) => vec![*signature],
        None => signatures(&image)?,
    };
    if found.is_empty() {
        return Err(refuse("it holds no signature; name the file of one".to_owned()));
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
        let count = found.len();
        let what = format!(
            "none of {count} signatures over its identity {identity} is by a key that is trusted"
        );
        return Err(refuse(what));
    };
    let proven = proven(&image, path, options, progress)?;
    Ok(Verified { public_key: signature.public_key, identity: proven })
}

fn open(path: &Path, options: &SignOptions) -> Result<Arc<Image>, Error> {
    let source = FileSource::open(path).map_err(Error::io("open", path))?;
    // Damage is to be seen here, not mended.
    let read = Options { offset: options.offset, repair: false, ..Options::default() };
    Ok(Image::open(Arc::new(source), read)?)
}

/// The identity of the image, after all its bytes were hashed and found to have it.
fn proven(
    image: &Image,
    path: &Path,
    options: &SignOptions,
    progress: &dyn Progress,
) -> Result<Identity, Error> {
    let refuse = |what: &str| Error::Sign { path: path.to_owned(), what: what.to_owned() };
    let Some((head, identity)) = image.identity()? else {
        return Err(refuse("it has no Merkle tree; `shale parity add` makes one"));
    };
    let trailer = image.trailer();
    if (trailer.root_offset, trailer.root_section_len) != (head.root_offset, head.root_section_len)
    {
        return Err(refuse("its trailer leads to another root than its tree is for"));
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
        return Err(refuse("its bytes are not those of its identity; `shale check` tells more"));
    }
    Ok(identity)
}
