//! Signatures of the image, and the keys that are trusted.
//!
//! A signature covers the image and not the runtime before it: whoever can change the file can
//! change this check as well. It protects against damage and against a mix-up, and who does not
//! trust the file checks it with an installed `shale verify`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use shale_codec::signature::{PublicKey, is_signed};
use shale_format::signature::SIGNATURE_LEN;
use shale_format::{SectionType, Signature};
use shale_read::{Identity, Image};

use crate::failure::{During, Failure};

/// Bytes read of a key file.
const KEY_LEN_MAX: u64 = 4096;
/// Most signatures of one image that are read.
const SIGNATURE_COUNT_MAX: usize = 1000;
/// Bytes verified at once.
const CHUNK_LEN: u64 = 1 << 20;

/// Reads a public key: a file that `shale keygen` wrote, or its 64 hexadecimal digits.
///
/// # Errors
/// It is neither.
pub fn public_key(word: &OsStr) -> Result<PublicKey, Failure> {
    if let Some(key) = digits(word.as_bytes()) {
        return Ok(key);
    }
    let shown = word.to_string_lossy();
    let mut bytes = Vec::new();
    let file = File::open(word).and_then(|file| file.take(KEY_LEN_MAX).read_to_end(&mut bytes));
    file.during(format_args!("read the key {shown}"))?;
    let mut words = bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let is_key = words.next() == Some(b"shale-public-key") && words.next() == Some(b"ed25519");
    let key = words.next().and_then(digits).filter(|_| is_key);
    key.ok_or_else(|| {
        Failure::new(format!(
            "{shown} does not hold a public key: the line `shale-public-key ed25519 ...` is expected"
        ))
    })
}

fn digits(text: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 64)?;
    text.parse::<Identity>().ok().map(|bytes| bytes.0)
}

/// Returns the signatures in the image.
///
/// # Errors
/// A section is damaged.
pub fn signatures(image: &Image) -> Result<Vec<Signature>, Failure> {
    let mut found = Vec::new();
    for section in image.sections() {
        let section = section.during("read the image")?;
        if section.section_type == SectionType::Signature as u16
            && section.stored_len == SIGNATURE_LEN as u64
            && found.len() < SIGNATURE_COUNT_MAX
        {
            let payload = image.section_payload(&section, SIGNATURE_LEN as u64);
            let signature = Signature::decode(&payload.during("read a signature")?);
            found.extend(signature.during("read a signature")?);
        }
    }
    Ok(found)
}

/// Returns the identity of the image, which one of `keys` signed. An image that is opened with this
/// identity verifies every byte that it uses.
///
/// # Errors
/// The image has no identity, or none of the keys signed it.
pub fn signed_identity(image: &Image, keys: &[PublicKey]) -> Result<Identity, Failure> {
    let identity = image.identity().during("read the identity of the image")?;
    let Some((_, identity)) = identity else {
        return Err(Failure::new("the image has no identity, so nobody can sign it"));
    };
    let found = signatures(image)?;
    match found.iter().any(|it| keys.contains(&it.public_key) && is_good(it, &identity)) {
        true => Ok(identity),
        false if found.is_empty() => Err(Failure::new("the image is not signed")),
        false => Err(Failure::new("the image is not signed with the key that is trusted")),
    }
}

fn is_good(signature: &Signature, identity: &Identity) -> bool {
    signature.identity == *identity
        && is_signed(&signature.public_key, &Signature::message(identity), &signature.signature)
}

/// Returns a line for each signature: its key, and whether it is one of this image.
///
/// # Errors
/// The image is damaged.
pub fn described(image: &Image) -> Result<Vec<String>, Failure> {
    let identity = image.identity().during("read the identity of the image")?;
    let lines = signatures(image)?.into_iter().map(|signature| {
        let is_good = identity.as_ref().is_some_and(|(_, own)| is_good(&signature, own));
        let key: String = signature.public_key.iter().map(|b| format!("{b:02x}")).collect();
        format!("ed25519 {key} {}", if is_good { "signed this image" } else { "does not fit" })
    });
    Ok(lines.collect())
}

/// Reads every byte that the identity covers. `image` must have been opened with that identity.
///
/// # Errors
/// A byte is not the one that was signed.
pub fn verify_all(image: &Image) -> Result<(), Failure> {
    let identity = image.identity().during("read the identity of the image")?;
    let covered_len = identity.map_or(0, |(head, _)| head.covered_len);
    let (mut at, mut buf) = (0, Vec::new());
    while at < covered_len {
        buf.resize((covered_len - at).min(CHUNK_LEN) as usize, 0);
        image.read_stored(at, &mut buf).during("verify the image")?;
        at += buf.len() as u64;
    }
    Ok(())
}
