//! Encrypted entries: AES as WinZip has it, and the old cipher of PKZIP, which protects nothing but
//! is what `zip -e` makes.

use std::io::{self, Read};

use aes::cipher::{KeyIvInit, StreamCipher};
use aes::{Aes128, Aes192, Aes256};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use crate::tree::le;

pub(super) const WRONG_PASSWORD: &str = "the password is wrong, or it is corrupt";

/// Rounds of the derivation of keys.
const ROUNDS: u32 = 1000;
/// Bytes that tell most wrong passwords.
const CHECK_LEN: usize = 2;
/// Bytes of the sum at the end.
const SUM_LEN: u64 = 10;
/// Bytes before data of the old cipher.
const OLD_HEAD_LEN: u64 = 12;

/// What the extra field of AES says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AesField {
    /// 2 if there is no checksum of the plain bytes.
    pub(super) version: u16,
    /// 1 to 3: keys of 128, 192 and 256 bits.
    pub(super) strength: u8,
    pub(super) method: u16,
}

impl AesField {
    /// Reads the body of the field.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let body = body.first_chunk::<7>()?;
        let (version, method) = (le(&body[..2]) as u16, le(&body[5..]) as u16);
        Some(Self { version, strength: body[4], method })
    }
}

/// Decrypts the `len` bytes of `stored` with AES.
///
/// # Errors
/// The password is wrong, or the bytes are corrupt.
pub(super) fn aes(
    field: AesField,
    password: &[u8],
    mut stored: impl Read + Send + 'static,
    len: u64,
) -> Result<Box<dyn Read + Send>, String> {
    let key_len = match field.strength {
        1 => 16,
        2 => 24,
        3 => 32,
        other => return Err(format!("it is encrypted with AES of the unknown strength {other}")),
    };
    let salt_len = key_len / 2;
    let head_len = (salt_len + CHECK_LEN) as u64;
    let Some(data_len) = len.checked_sub(head_len + SUM_LEN) else {
        return Err("its encrypted data are cut: corrupt".to_owned());
    };
    let mut head = vec![0; head_len as usize];
    stored.read_exact(&mut head).map_err(|error| error.to_string())?;
    let (salt, check) = head.split_at(salt_len);
    let mut keys = vec![0; 2 * key_len + CHECK_LEN];
    pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, ROUNDS, &mut keys);
    if &keys[2 * key_len..] != check {
        return Err(WRONG_PASSWORD.to_owned());
    }
    let (key, sum_key) = (&keys[..key_len], &keys[key_len..2 * key_len]);
    // The counter of the blocks begins at 1, its lowest byte first.
    let mut counter = [0; 16];
    counter[0] = 1;
    let wrong = |_| "keys of an impossible length".to_owned();
    let cipher: Box<dyn StreamCipher + Send> = match key_len {
        16 => Box::new(ctr::Ctr128LE::<Aes128>::new_from_slices(key, &counter).map_err(wrong)?),
        24 => Box::new(ctr::Ctr128LE::<Aes192>::new_from_slices(key, &counter).map_err(wrong)?),
        _ => Box::new(ctr::Ctr128LE::<Aes256>::new_from_slices(key, &counter).map_err(wrong)?),
    };
    let sum = Hmac::<Sha1>::new_from_slice(sum_key).map_err(|error| error.to_string())?;
    Ok(Box::new(OfAes { stored, left: data_len, cipher, sum: Some(sum) }))
}

struct OfAes<R> {
    stored: R,
    left: u64,
    cipher: Box<dyn StreamCipher + Send>,
    /// Taken when it was compared.
    sum: Option<Hmac<Sha1>>,
}

impl<R: Read> Read for OfAes<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.left.min(out.len() as u64) as usize;
        let len = self.stored.read(&mut out[..len])?;
        if len == 0 && self.left > 0 && !out.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= len as u64;
        if let Some(sum) = &mut self.sum {
            sum.update(&out[..len]);
        }
        if self.left == 0
            && let Some(sum) = self.sum.take()
        {
            let mut stored = [0; SUM_LEN as usize];
            self.stored.read_exact(&mut stored)?;
            if sum.verify_truncated_left(&stored).is_err() {
                let what = "corrupt: its encrypted bytes do not have their checksum";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        let cipher = self.cipher.try_apply_keystream(&mut out[..len]);
        cipher.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(len)
    }
}

/// Decrypts `stored` with the cipher of PKZIP. The last byte of its head is one of `checks`.
///
/// # Errors
/// The password is wrong, or the bytes are corrupt.
pub(super) fn old(
    password: &[u8],
    checks: [u8; 2],
    stored: impl Read + Send + 'static,
    len: u64,
) -> Result<Box<dyn Read + Send>, String> {
    if len < OLD_HEAD_LEN {
        return Err("its encrypted data are cut: corrupt".to_owned());
    }
    let mut plain = OfPkzip { stored, keys: Keys::new(password) };
    let mut head = [0; OLD_HEAD_LEN as usize];
    plain.read_exact(&mut head).map_err(|error| error.to_string())?;
    match checks.contains(&head[11]) {
        true => Ok(Box::new(plain)),
        false => Err(WRONG_PASSWORD.to_owned()),
    }
}

struct OfPkzip<R> {
    stored: R,
    keys: Keys,
}

impl<R: Read> Read for OfPkzip<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.stored.read(out)?;
        out[..len].iter_mut().for_each(|byte| *byte = self.keys.decrypt(*byte));
        Ok(len)
    }
}

/// The state of the cipher of PKZIP.
struct Keys([u32; 3]);

impl Keys {
    fn new(password: &[u8]) -> Self {
        let mut keys = Self([0x1234_5678, 0x2345_6789, 0x3456_7890]);
        password.iter().for_each(|&byte| keys.update(byte));
        keys
    }

    fn update(&mut self, byte: u8) {
        let [first, second, third] = &mut self.0;
        *first = crc_step(*first, byte);
        *second = second.wrapping_add(*first & 0xff).wrapping_mul(134_775_813).wrapping_add(1);
        *third = crc_step(*third, (*second >> 24) as u8);
    }

    fn decrypt(&mut self, byte: u8) -> u8 {
        let word = (self.0[2] | 2) as u16;
        let plain = byte ^ (word.wrapping_mul(word ^ 1) >> 8) as u8;
        self.update(plain);
        plain
    }
}

/// CRC-32 of one byte more, without the inversions at its ends.
fn crc_step(crc: u32, byte: u8) -> u32 {
    (0..8).fold(
        crc ^ u32::from(byte),
        |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        },
    )
}
