//! Stress by hand: several processes ask a copy of a tree and the tree itself, as much as wanted.
//!
//! usage: shale-stress SOURCE COPY [AMOUNT [PROCESSES [SEED]]]
//!
//! AMOUNT is a number of questions for each process, such as 5000, or a time. The default is 60s.
//!
//! Ends with status 1 at the first difference, which it prints with the seed that found it. The
//! same words with that seed and one process ask the same questions again.

use shale_tests::differential::{Task, compare};
use std::io::{Error, Result};
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| match words.get(at) {
        None => Ok(default),
        Some(word) => word.parse().map_err(|_| Error::other(format!("`{word}` is no number"))),
    };
    let run = || -> Result<()> {
        let [source, copy, ..] = words.as_slice() else {
            let usage = "usage: shale-stress SOURCE COPY [AMOUNT [PROCESSES [SEED]]]";
            return Err(Error::other(usage));
        };
        let amount = words.get(2).map_or("60s", String::as_str);
        let (processes, seed) = (number(3, 4)?, number(4, 1)?);
        if processes == 1 {
            let (source, copy) = (Path::new(source), Path::new(copy));
            let amount = amount.parse()?;
            let count = compare(&Task { source, copy, amount, seed })?;
            println!("seed {seed}: {count} answers, no difference");
            return Ok(());
        }
        let start = |n: u64| {
            // Not by its path: a build may put another program there in the meantime.
            let mut command = Command::new("/proc/self/exe");
            command.args([source, copy, amount, "1", &(seed + n).to_string()]);
            command.spawn()
        };
        let mut workers = (0..processes).map(start).collect::<Result<Vec<_>>>()?;
        let mut differ = 0;
        for worker in &mut workers {
            differ += u64::from(!worker.wait()?.success());
        }
        if differ > 0 {
            return Err(Error::other(format!("{differ} of {processes} found a difference")));
        }
        Ok(())
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shale-stress: {error}");
            ExitCode::FAILURE
        }
    }
}
