//! The recipients of a file: X25519 public keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::bech32_key;
use crate::error::Error;
use crate::header::Stanza;
use crate::secret::{FileKey, derive, random};

/// The first word of a stanza for an X25519 key.
pub(crate) const X25519: &str = "X25519";
/// What a key of a stanza is made for.
pub(crate) const X25519_PURPOSE: &[u8] = b"age-encryption.org/v1/X25519";

/// The public keys that a file is encrypted to: each of their owners can read it.
#[derive(Debug, Clone, Default)]
pub struct Recipients(Vec<PublicKey>);

impl Recipients {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a public key, `age1...`.
    ///
    /// # Errors
    /// It is not valid, or of a kind that is not supported.
    pub fn add(&mut self, text: &str) -> Result<(), Error> {
        let text = text.trim();
        let refuse = |what: &str| Err(Error::Key(format!("{what}: {}", text.escape_debug())));
        if let Some(key) = bech32_key::decode(text, "age") {
            let key = PublicKey::from(*key);
            if !self.0.contains(&key) {
                self.0.push(key);
            }
            return Ok(());
        }
        if text.to_ascii_uppercase().starts_with("AGE-SECRET-KEY-") {
            // Not shown again.
            let what = "a secret key is no recipient; `age-keygen -y FILE` prints its public key";
            return Err(Error::Key(what.to_owned()));
        }
        if text.starts_with("ssh-") {
            return refuse("SSH keys are not supported; make a key with `age-keygen`");
        }
        if text.starts_with("age1") && (text.len() != 62 || text[4..].contains('1')) {
            return refuse("only X25519 keys are supported, which are age1 and 58 characters");
        }
        refuse("not a valid recipient (age1...)")
    }

    /// Adds the keys of a file: one a line, and lines that begin with `#`.
    ///
    /// # Errors
    /// A line is not valid, or the file has no key.
    pub fn add_file(&mut self, text: &str) -> Result<(), Error> {
        let mut is_empty = true;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            is_empty = false;
            self.add(line).map_err(|error| Error::Key(format!("line {}: {error}", number + 1)))?;
        }
        if is_empty {
            return Err(Error::Key("it holds no recipient".to_owned()));
        }
        Ok(())
    }

    /// Encrypts the key of a file to each.
    pub(crate) fn wrap(&self, file_key: &FileKey) -> Result<Vec<Stanza>, Error> {
        self.0.iter().map(|recipient| wrap(file_key, recipient)).collect()
    }
}

fn wrap(file_key: &FileKey, recipient: &PublicKey) -> Result<Stanza, Error> {
    let mut bytes = Zeroizing::new([0; 32]);
    random(&mut *bytes)?;
    let secret = StaticSecret::from(*bytes);
    let share = PublicKey::from(&secret);
    let shared = secret.diffie_hellman(recipient);
    if !shared.was_contributory() {
        return Err(Error::Key("a recipient is a key that protects nothing".to_owned()));
    }
    let salt = [share.as_bytes().as_slice(), recipient.as_bytes()].concat();
    let key = derive(shared.as_bytes(), &salt, X25519_PURPOSE);
    let words = vec![X25519.to_owned(), STANDARD_NO_PAD.encode(share.as_bytes())];
    Ok(Stanza { words, body: file_key.wrap(&key) })
}
