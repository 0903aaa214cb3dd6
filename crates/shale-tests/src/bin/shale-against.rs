//! Reads changed archives by the importers and by the programs that know the formats.
//!
//! usage: shale-against FORMAT|all AMOUNT SEED [FOLDER]
//!
//! AMOUNT is a number of archives for each format (`200`) or a time (`60s`). Ends with status 1 if
//! an importer panics, if an archive that was not changed is read differently, if the memory of
//! this process passes 256 MiB, or if an archive takes a minute of CPU time. With FOLDER, changed
//! archives that are read differently are kept there and are a failure, too; they depend on the
//! versions of the programs, so that only people can judge them.

use shale_tests::against::{FORMATS, Format, PANICKED, Verdict, change, compare, format, seeds};
use shale_tests::random::Random;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Memory that an importer may need beside what it is given.
const MEMORY_KIB_MAX: u64 = 256 << 10;
/// An archive for which this process computes longer hangs.
const HANG: Duration = Duration::from_secs(60);
/// So does one for which it waits longer, however busy the machine is.
const STUCK: Duration = Duration::from_secs(1800);
/// How often the watchdog looks.
const WATCH: Duration = Duration::from_secs(5);

/// How long a format is tried.
#[derive(Clone, Copy)]
enum Amount {
    Cases(u64),
    Time(Duration),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [which, amount, seed, rest @ ..] = &words[..] else {
        eprintln!("usage: shale-against FORMAT|all AMOUNT SEED [FOLDER]");
        return ExitCode::from(2);
    };
    let amount = match amount.strip_suffix('s').map(str::parse) {
        Some(Ok(seconds)) => Amount::Time(Duration::from_secs(seconds)),
        _ => Amount::Cases(amount.parse().unwrap_or(100)),
    };
    let seed = seed.parse().unwrap_or(1);
    let keep = rest.first().map(Path::new);
    // A panic of an importer is counted, not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let (done, watched) = channel();
    std::thread::spawn(move || {
        let (mut start, mut computed) = (Instant::now(), cpu_time());
        loop {
            match watched.recv_timeout(WATCH) {
                Ok(()) => (start, computed) = (Instant::now(), cpu_time()),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let computes = cpu_time().saturating_sub(computed);
                    if computes > HANG || start.elapsed() > STUCK {
                        let waited = start.elapsed().as_secs();
                        eprintln!(
                            "an archive takes {} s of CPU time, {waited} s in all",
                            computes.as_secs()
                        );
                        std::process::exit(1);
                    }
                }
            }
        }
    });
    let formats: Vec<&Format> = match format(which) {
        Some(format) => vec![format],
        None => FORMATS.iter().collect(),
    };
    let mut count = 0;
    for format in formats {
        count += run(format, amount, seed, keep, &done);
    }
    let memory = memory_kib();
    println!("peak memory {} MiB", memory >> 10);
    count += u64::from(memory > MEMORY_KIB_MAX);
    if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tries a format, and tells `done` of each archive. Returns the number of differences.
fn run(format: &Format, amount: Amount, seed: u64, keep: Option<&Path>, done: &Sender<()>) -> u64 {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let seeds = seeds(format, folder.path());
    if seeds.is_empty() {
        println!("skipped: no program makes {}", format.name);
        return 0;
    }
    let start = Instant::now();
    let (mut cases, mut compared, mut differences) = (0, 0, 0);
    // What was not changed must be read the same.
    for bytes in &seeds {
        let verdict = compare(format, bytes, folder.path());
        if verdict != Verdict::Same {
            println!("{}, unchanged: {verdict:?}", format.name);
            // Not every version of a program reads all that the library for RAR writes.
            differences += u64::from(verdict != Verdict::Refused);
        }
        let _ = done.send(());
    }
    loop {
        match amount {
            Amount::Cases(end) if cases >= end => break,
            Amount::Time(end) if start.elapsed() >= end => break,
            _ => {}
        }
        let number = seed.wrapping_mul(1_000_000_007).wrapping_add(cases);
        let mut random = Random::new(number);
        let which = random.below(seeds.len() as u64) as usize;
        let bytes = change(format, &seeds[which], &mut random);
        let memory = memory_kib();
        let verdict = compare(format, &bytes, folder.path());
        compared += u64::from(verdict != Verdict::Refused);
        if memory <= MEMORY_KIB_MAX && memory_kib() > MEMORY_KIB_MAX {
            println!("{}, case {number}: more than {} MiB", format.name, MEMORY_KIB_MAX >> 10);
            keep_case(keep, number, format, &bytes);
        }
        if let Verdict::Different(what) = verdict {
            println!("{}, case {number}: {what}", format.name);
            differences += u64::from(keep.is_some() || what == PANICKED);
            keep_case(keep, number, format, &bytes);
        }
        cases += 1;
        // The watchdog ends with the process, not before.
        let _ = done.send(());
    }
    println!(
        "{}: {cases} archives in {} s, {compared} read by both, {differences} of them differently",
        format.name,
        start.elapsed().as_secs()
    );
    differences
}

/// Keeps an archive for people to look at.
fn keep_case(folder: Option<&Path>, number: u64, format: &Format, bytes: &[u8]) {
    if let Some(folder) = folder {
        let _ = std::fs::create_dir_all(folder);
        let _ = std::fs::write(folder.join(format!("{number}.{}", format.name)), bytes);
    }
}

/// The CPU time of this process, without that of the programs it runs.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The most memory that this process ever had.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}
