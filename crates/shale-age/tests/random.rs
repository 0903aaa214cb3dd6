//! Any range of an encrypted file is that range of the plain one, from any number of threads and
//! whatever its length; a change of any byte and a cut anywhere are errors, and never other bytes.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use shale_age::{Decrypted, Encrypting, Error, Identities, Recipients};
use shale_read::{ByteSource, MemorySource};

const PUBLIC: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
const SECRET: &str = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
const CHUNK_LEN: usize = 64 << 10;

fn plain(len: usize) -> Vec<u8> {
    (0..len as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// An encrypted file, written in pieces of `piece` bytes.
fn sealed(plain: &[u8], piece: usize) -> Vec<u8> {
    let mut recipients = Recipients::default();
    recipients.add(PUBLIC).unwrap();
    let mut out = Encrypting::new(Vec::new(), &recipients).unwrap();
    plain.chunks(piece).for_each(|piece| out.write_all(piece).unwrap());
    out.finish().unwrap()
}

fn keys() -> Identities {
    let mut keys = Identities::default();
    keys.add_file(SECRET.as_bytes()).unwrap();
    keys
}

fn open(sealed: Vec<u8>) -> Result<Decrypted, Error> {
    Decrypted::open(Arc::new(MemorySource::new(sealed)), &keys())
}

#[test]
fn every_length_around_a_chunk_comes_back() {
    for len in [0, 1, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1, 20 * CHUNK_LEN, 40 * CHUNK_LEN + 7] {
        let plain = plain(len);
        let file = open(sealed(&plain, 10_007)).unwrap();
        assert_eq!(file.len(), len as u64);
        let mut found = vec![0; len];
        file.read_at(0, &mut found).unwrap();
        assert!(found == plain, "{len}");
        assert!(file.read_at(1, &mut vec![0; len]).is_err(), "beyond the end");
        assert!(file.read_at(u64::MAX, &mut [0; 2]).is_err());
    }
}

#[test]
fn a_cut_anywhere_is_noticed_when_the_file_is_opened() {
    let whole = sealed(&plain(3 * CHUNK_LEN + 100), 1 << 20);
    let around = |at: usize| at.saturating_sub(20)..(at + 20).min(whole.len());
    let payload = whole.len() - 3 * (CHUNK_LEN + 16) - 116;
    let ends = (0..4).map(|n| payload + n * (CHUNK_LEN + 16));
    for cut in ends.flat_map(around).chain(0..payload).chain(around(whole.len())) {
        let Err(error) = open(whole[..cut].to_vec()) else { panic!("cut at {cut}") };
        let is_named = error.is_damage() || (cut < 19 && matches!(error, Error::NotAge));
        assert!(is_named, "{cut}: {error}");
    }
    let boundary = open(whole[..payload + 2 * (CHUNK_LEN + 16)].to_vec());
    assert!(matches!(boundary, Err(Error::Truncated { .. })));
    // Two files, one after the other.
    assert!(open([whole.clone(), whole.clone()].concat()).is_err());
}

#[test]
fn threads_share_a_file_and_short_reads_share_a_chunk() {
    /// Counts reads.
    struct Counted(MemorySource, AtomicU64);
    impl ByteSource for Counted {
        fn len(&self) -> u64 {
            self.0.len()
        }
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.read_at(offset, buf)
        }
    }
    let plain = plain(10 * CHUNK_LEN);
    let source = Arc::new(Counted(MemorySource::new(sealed(&plain, 1 << 20)), AtomicU64::new(0)));
    let file = Decrypted::open(source.clone(), &keys()).unwrap();
    assert_eq!(source.1.swap(0, Ordering::Relaxed), 3, "header, salt, last chunk");
    for at in (0..CHUNK_LEN).step_by(4096) {
        file.read_at(at as u64, &mut [0; 4096]).unwrap();
    }
    assert_eq!(source.1.swap(0, Ordering::Relaxed), 1, "one chunk, once");
    file.read_at(CHUNK_LEN as u64, &mut vec![0; 8 * CHUNK_LEN]).unwrap();
    assert_eq!(source.1.swap(0, Ordering::Relaxed), 1, "a long read is one read");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (file, plain) = (&file, &plain);
            scope.spawn(move || {
                for n in 0..200 {
                    let at = (thread * 7919 + n * 30_011) % (9 * CHUNK_LEN);
                    let mut buf = vec![0; 1 + n * 300];
                    file.read_at(at as u64, &mut buf).unwrap();
                    assert!(buf == plain[at..at + buf.len()]);
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_a_byte_gives_other_bytes(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let plain = plain(2 * CHUNK_LEN + 500);
        let mut bytes = sealed(&plain, 1 << 20);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // Three sealed chunks, each with a tag of 16 bytes, end the file.
        let chunks_at = bytes.len() - plain.len() - 3 * 16;
        if let Ok(file) = open(bytes) {
            let mut found = vec![0; plain.len()];
            prop_assert!(file.read_at(0, &mut found).is_err(), "byte {at} does not count");
            // What is not in the damaged chunk is read.
            let mut here = vec![0; 100];
            let is_first = at < chunks_at + CHUNK_LEN + 16;
            let other = if is_first { CHUNK_LEN } else { 0 };
            file.read_at(other as u64, &mut here).unwrap();
            prop_assert!(here == plain[other..other + 100]);
        }
    }
}
