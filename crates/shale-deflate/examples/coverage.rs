//! Prints which streams of gzip and zlib files can be rebuilt: `coverage FILE...`.

use shale_deflate::{Limits, analyze};

fn main() {
    let limits = Limits::default();
    let (mut streams, mut whole, mut plain, mut rebuilt, mut failed) = (0, 0, 0u64, 0u64, 0u64);
    let mut models = std::collections::BTreeMap::<String, u64>::new();
    for path in std::env::args().skip(1) {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let start = match bytes.get(..4) {
            Some([0x1f, 0x8b, 8, flags]) => {
                let mut at = 10;
                if flags & 8 != 0 {
                    at += bytes[at..].iter().position(|&b| b == 0).unwrap_or(0) + 1;
                }
                at
            }
            Some([0x78, ..]) => 2,
            _ => 0,
        };
        streams += 1;
        match analyze(&bytes[start..], None, &limits) {
            Ok(found) => {
                let covered: usize = found.chunks.iter().map(|c| c.stream.len()).sum();
                if covered == found.stream_len {
                    whole += 1;
                } else {
                    println!("part {path}: {covered} of {} {:?}", found.stream_len, found.model);
                }
                plain += found.stream_len as u64;
                rebuilt += covered as u64;
                let m = found.model;
                *models
                    .entry(format!("{:?} {} {}", m.encoder, m.level, m.memory_level))
                    .or_default() += 1;
            }
            Err(error) => {
                println!("not {path}: {error}");
                plain += bytes.len() as u64;
                failed += 1;
            }
        }
    }
    println!(
        "{streams} streams, {whole} whole, {failed} not; {rebuilt} of {plain} bytes; {models:?}"
    );
}
