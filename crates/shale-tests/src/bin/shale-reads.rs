//! What reading an image costs, by counters.
//!
//! usage: shale-reads IMAGE [DIRECTORY...]
//!
//! Reads each directory in path order with a cache of 512 MiB, then 1,000 files by chance with a
//! cold cache each, and prints plain bytes decoded.

use std::path::Path;
use std::process::ExitCode;

use shale_read::ReadError;
use shale_tests::reads;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((image, directories)) = words.split_first() else {
        eprintln!("usage: shale-reads IMAGE [DIRECTORY...]");
        return ExitCode::FAILURE;
    };
    let run = || -> Result<(), ReadError> {
        for directory in directories {
            let cost = reads::in_order(Path::new(image), directory)?;
            println!(
                "{directory}: {} bytes wanted, {} decoded, {:.2} a byte",
                cost.wanted_bytes,
                cost.decoded_bytes,
                cost.share()
            );
        }
        let costs = reads::at_random(Path::new(image), 1000, 1)?;
        let decoded = |percent: usize| costs[(costs.len() - 1) * percent / 100].decoded_bytes;
        let mean = costs.iter().map(|cost| cost.decoded_bytes).sum::<u64>() / costs.len() as u64;
        println!(
            "1,000 files by chance, bytes decoded: mean {mean}, median {}, p99 {}, most {}",
            decoded(50),
            decoded(99),
            decoded(100)
        );
        Ok(())
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shale-reads: {error}");
            ExitCode::FAILURE
        }
    }
}
