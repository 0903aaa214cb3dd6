//! Keys that open a file: X25519 secret keys, and passphrases.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::bech32_key;
use crate::error::Error;
use crate::header::{Header, MAGIC, Stanza};
use crate::limits::WORK_FACTOR_MAX;
use crate::recipient::{X25519, X25519_PURPOSE};
use crate::secret::{FileKey, derive};

/// The first word of a stanza for a passphrase.
const SCRYPT: &str = "scrypt";
/// What a key from a passphrase is made for.
const SCRYPT_PURPOSE: &[u8] = b"age-encryption.org/v1/scrypt";

/// A passphrase, which no debug output shows.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// Takes the bytes of a passphrase.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }
}

/// Secret keys and passphrases, which are tried in turn.
#[derive(Clone, Default)]
pub struct Identities {
    keys: Vec<StaticSecret>,
    passphrases: Vec<Passphrase>,
}

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identities(..)")
    }
}

impl Identities {
    /// True if there is neither a key nor a passphrase.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.passphrases.is_empty()
    }

    /// Adds a passphrase.
    pub fn add_passphrase(&mut self, passphrase: Passphrase) {
        self.passphrases.push(passphrase);
    }

    /// Adds the keys of a file as `age-keygen` writes it: `AGE-SECRET-KEY-1...`, one a line, and
    /// lines that begin with `#`.
    ///
    /// # Errors
    /// A line is not valid, a kind of key is not supported, or the file has no key. No message
    /// shows what is in the file.
    pub fn add_file(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::Key(what.to_owned()));
        if bytes.starts_with(MAGIC) || bytes.starts_with(b"-----BEGIN AGE ENCRYPTED FILE") {
            return refuse(
                "it is itself encrypted; decrypt it with `age -d` to a safe place first",
            );
        }
        if bytes.starts_with(b"-----BEGIN ") {
            return refuse("SSH keys are not supported; use a key of `age-keygen`");
        }
        let Ok(text) = str::from_utf8(bytes) else { return refuse("it is not a text of keys") };
        let had = self.keys.len();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = number + 1;
            match bech32_key::decode(line, "age-secret-key-") {
                Some(key) => self.keys.push(StaticSecret::from(*key)),
                None if line.to_ascii_uppercase().starts_with("AGE-PLUGIN-") => {
                    return refuse(&format!("line {number}: keys of plugins are not supported"));
                }
                None if line.starts_with("age1") => {
                    return refuse(&format!(
                        "line {number} is a public key; the secret key begins with AGE-SECRET-KEY-1"
                    ));
                }
                None => {
                    return refuse(&format!("line {number} is not a key (AGE-SECRET-KEY-1...)"));
                }
            }
        }
        match self.keys.len() == had {
            true => refuse("it holds no key (AGE-SECRET-KEY-1...)"),
            false => Ok(()),
        }
    }

    /// Finds the key of the file with this header, and checks the header with it.
    pub(crate) fn open(&self, header: &Header) -> Result<FileKey, Error> {
        let is_kind = |stanza: &&Stanza, kind: &str| stanza.words[0] == kind;
        if let Some(stanza) = header.stanzas.iter().find(|stanza| is_kind(stanza, SCRYPT)) {
            // Otherwise the owner of one key could make others believe that only they read it.
            if header.stanzas.len() > 1 {
                return Err(Error::Header("a passphrase stands beside other recipients"));
            }
            return self.open_with_passphrase(header, stanza);
        }
        if self.is_empty() {
            return Err(Error::NoKey);
        }
        for stanza in header.stanzas.iter().filter(|stanza| is_kind(stanza, X25519)) {
            let share = share_of(stanza)?;
            for key in &self.keys {
                if let Some(file_key) = unwrap(key, &share, stanza)? {
                    header.check(&file_key)?;
                    return Ok(file_key);
                }
            }
        }
        Err(Error::WrongKey { recipients: kinds(header) })
    }

    fn open_with_passphrase(&self, header: &Header, stanza: &Stanza) -> Result<FileKey, Error> {
        let bad = || Error::Header("a passphrase is not stored as it should be");
        let [_, salt, factor] = &stanza.words[..] else { return Err(bad()) };
        let salt: [u8; 16] =
            STANDARD_NO_PAD.decode(salt).ok().and_then(|it| it.try_into().ok()).ok_or_else(bad)?;
        let is_number = !factor.starts_with('0') && factor.bytes().all(|it| it.is_ascii_digit());
        let factor: u32 = factor.parse().ok().filter(|_| is_number).ok_or_else(bad)?;
        if stanza.body.len() != 32 {
            return Err(bad());
        }
        if self.passphrases.is_empty() {
            return Err(Error::NoPassphrase);
        }
        let allowed = u8::try_from(factor).ok().filter(|factor| *factor <= WORK_FACTOR_MAX);
        let allowed = allowed.ok_or(Error::WorkFactor(factor))?;
        let params = scrypt::Params::new(allowed, 8, 1).map_err(|_| bad())?;
        for passphrase in &self.passphrases {
            let mut key = Zeroizing::new([0; 32]);
            let salt = [SCRYPT_PURPOSE, &salt].concat();
            scrypt::scrypt(&passphrase.0, &salt, &params, &mut *key).map_err(|_| bad())?;
            if let Some(file_key) = FileKey::unwrap(&key, &stanza.body) {
                header.check(&file_key)?;
                return Ok(file_key);
            }
        }
        Err(Error::WrongPassphrase)
    }
}

/// The public key that was made for one stanza.
fn share_of(stanza: &Stanza) -> Result<PublicKey, Error> {
    let bad = || Error::Header("the key of a recipient is not valid");
    let [_, share] = &stanza.words[..] else { return Err(bad()) };
    let share = STANDARD_NO_PAD.decode(share).map_err(|_| bad())?;
    let share: [u8; 32] = share.try_into().map_err(|_| bad())?;
    match stanza.body.len() {
        32 => Ok(PublicKey::from(share)),
        _ => Err(bad()),
    }
}

/// Decrypts the key of a file. Returns `None` if the stanza is for another key.
fn unwrap(
    key: &StaticSecret,
    share: &PublicKey,
    stanza: &Stanza,
) -> Result<Option<FileKey>, Error> {
    let shared = key.diffie_hellman(share);
    if !shared.was_contributory() {
        return Err(Error::Header("the key of a recipient is not valid"));
    }
    let salt = [share.as_bytes().as_slice(), PublicKey::from(key).as_bytes()].concat();
    let key = derive(shared.as_bytes(), &salt, X25519_PURPOSE);
    Ok(FileKey::unwrap(&key, &stanza.body))
}

/// The kinds of recipients of a file, in words.
fn kinds(header: &Header) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for stanza in &header.stanzas {
        let kind = stanza.words[0].as_str();
        // `age` and others add stanzas that belong to nobody, so that nobody relies on the number.
        if !kind.ends_with("-grease") {
            *counts.entry(kind).or_default() += 1;
        }
    }
    let shown = counts.into_iter().take(5).map(|(kind, count)| match kind {
        X25519 => format!("{count} X25519 {}", if count == 1 { "key" } else { "keys" }),
        kind => {
            let kind: String = kind.chars().take(40).collect();
            format!("{count} of the kind {kind}, which is not supported")
        }
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { "nobody".to_owned() } else { shown.join(" and ") }
}
