//! Measures codecs on given files: ratio, and speeds both ways.
//!
//! Files (and what is below given directories, in the order of names) are laid end to end and cut
//! into frames. Each frame's prefix is what comes right before it, as many bytes as asked for.
//! Every frame is decoded and compared. Speeds are plain bytes per second of this thread's time on
//! a processor, so that other work on the machine counts little.
//!
//! ```text
//! cargo run --release -p shale-codec --example measure -- \
//!     --frame 256 --prefix 1024 --total 8192 --filter bcj-x86 \
//!     --codec zstd:19 --codec lzma:9 /usr/lib
//! ```
//!
//! Sizes are in KiB. Without `--codec`, one setting or two of each codec is measured. With
//! `--sample`, it says instead how each frame looks to `looks_incompressible`, against what
//! zstd:3 makes of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use shale_codec::{Codec, Decoder, Encoder, Filter, Settings, looks_incompressible};

const CODECS: &[&str] = &[
    "lz4",
    "lz4:hc=9",
    "zstd:3",
    "zstd:12",
    "zstd:19",
    "zstd:22",
    "lzma:6",
    "lzma:9e",
    #[cfg(feature = "brotli-encoder")]
    "brotli:9",
    #[cfg(feature = "brotli-encoder")]
    "brotli:11",
];

struct Options {
    frame_len: usize,
    prefix_len: usize,
    total_len: usize,
    filter: Filter,
    codecs: Vec<Settings>,
    is_sampling: bool,
    paths: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let result = options().and_then(|options| {
        let bytes = gather(&options)?;
        let frames = bytes.len().div_ceil(options.frame_len);
        println!("{} bytes in {frames} frames, filter {}", bytes.len(), options.filter);
        if options.is_sampling {
            return sample(&options, &bytes);
        }
        println!(
            "{:>24} {:>8} {:>10} {:>10} {:>11} {:>11}",
            "codec", "ratio", "enc MB/s", "dec MB/s", "enc memory", "bytes"
        );
        options.codecs.iter().try_for_each(|settings| measure(&options, *settings, &bytes))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("measure: {message}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        frame_len: 256 << 10,
        prefix_len: 0,
        total_len: 8 << 20,
        filter: Filter::None,
        codecs: Vec::new(),
        is_sampling: false,
        paths: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let kib = |text: String| {
            let number: usize = text.parse().map_err(|_| format!("`{text}` is not a size"))?;
            Ok::<usize, String>(number << 10)
        };
        match arg.as_str() {
            "--frame" => options.frame_len = kib(value()?)?.max(1),
            "--prefix" => options.prefix_len = kib(value()?)?,
            "--total" => options.total_len = kib(value()?)?,
            "--filter" => {
                let name = value()?;
                options.filter =
                    Filter::from_name(&name).ok_or_else(|| format!("no filter `{name}`"))?;
            }
            "--codec" => {
                let settings: Settings = value()?.parse().map_err(|error| format!("{error}"))?;
                options.codecs.push(settings);
            }
            "--sample" => options.is_sampling = true,
            _ if arg.starts_with("--") => return Err(format!("no option {arg}")),
            _ => options.paths.push(arg.into()),
        }
    }
    if options.codecs.is_empty() {
        options.codecs = CODECS.iter().filter_map(|text| text.parse().ok()).collect();
    }
    if options.paths.is_empty() {
        return Err("name files or directories to measure on".to_owned());
    }
    Ok(options)
}

/// The bytes of the files, up to the total.
fn gather(options: &Options) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut stack: Vec<PathBuf> = options.paths.iter().rev().cloned().collect();
    while let Some(path) = stack.pop() {
        if out.len() >= options.total_len {
            break;
        }
        let error = |error: std::io::Error| format!("{}: {error}", path.display());
        let kind = std::fs::symlink_metadata(&path).map_err(error)?.file_type();
        if kind.is_dir() {
            let mut below: Vec<PathBuf> = std::fs::read_dir(&path)
                .map_err(error)?
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<_, _>>()
                .map_err(error)?;
            below.sort_by(|one, other| other.cmp(one));
            stack.extend(below);
        } else if kind.is_file() {
            out.extend(read(&path).map_err(error)?);
        }
    }
    out.truncate(options.total_len);
    Ok(out)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    std::fs::read(path)
}

fn measure(options: &Options, settings: Settings, bytes: &[u8]) -> Result<(), String> {
    let mut encoder = Encoder::new(settings).map_err(|error| error.to_string())?;
    let mut decoder = Decoder::new();
    let starts = (0..bytes.len()).step_by(options.frame_len);
    let cut = |start: usize| {
        let end = (start + options.frame_len).min(bytes.len());
        (&bytes[start.saturating_sub(options.prefix_len)..start], &bytes[start..end])
    };
    let filtered = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        options.filter.apply(&mut bytes);
        bytes
    };
    let mut frames = Vec::new();
    let mut encode_sec = 0.0;
    let mut stored_len = 0;
    for start in starts.clone() {
        let (prefix, plain) = cut(start);
        let mut stored = Vec::with_capacity(2 * plain.len());
        let clock = Clock::start();
        let (prefix, plain) = (filtered(prefix), filtered(plain));
        encoder.encode(&prefix, &plain, &mut stored).map_err(|error| error.to_string())?;
        encode_sec += clock.sec();
        // Larger than plain is stored plain.
        stored_len += stored.len().min(plain.len());
        stored.shrink_to_fit();
        frames.push(stored);
    }
    let mut decode_sec = 0.0;
    let mut failed_count = 0;
    let mut decoded = Vec::with_capacity(options.frame_len);
    for (start, stored) in starts.zip(&frames) {
        let (prefix, plain) = cut(start);
        let prefix = filtered(prefix);
        decoded.clear();
        let clock = Clock::start();
        let result = decoder.decode(settings.codec, &prefix, stored, plain.len(), &mut decoded);
        options.filter.reverse(&mut decoded);
        decode_sec += clock.sec();
        if result.is_err() || decoded != plain {
            failed_count += 1;
        }
    }
    let mb = bytes.len() as f64 / 1e6;
    let memory_len = settings.encoder_memory_len(options.frame_len, options.prefix_len);
    println!(
        "{:>24} {:>8.3} {:>10.2} {:>10.1} {:>8} KiB {stored_len:>11}{}",
        settings.to_string(),
        bytes.len() as f64 / stored_len as f64,
        mb / encode_sec,
        mb / decode_sec,
        memory_len >> 10,
        if failed_count > 0 { format!(", {failed_count} FRAMES FAILED") } else { String::new() }
    );
    Ok(())
}

fn sample(options: &Options, bytes: &[u8]) -> Result<(), String> {
    let settings = Settings::new(Codec::Zstd, 3).map_err(|error| error.to_string())?;
    let mut encoder = Encoder::new(settings).map_err(|error| error.to_string())?;
    // For each verdict, frames and by how many per cent they compress.
    let mut counts = [[0u32; 6]; 2];
    let mut look_sec = 0.0;
    for plain in bytes.chunks(options.frame_len) {
        let clock = Clock::start();
        let verdict = looks_incompressible(plain);
        look_sec += clock.sec();
        let mut stored = Vec::new();
        encoder.encode(&[], plain, &mut stored).map_err(|error| error.to_string())?;
        let saved = 100.0 - 100.0 * stored.len() as f64 / plain.len() as f64;
        let class = [1.0, 2.0, 5.0, 10.0, 30.0].iter().filter(|limit| saved >= **limit).count();
        counts[usize::from(verdict)][class] += 1;
    }
    println!("frames by what zstd:3 saves of them, in per cent");
    println!(
        "{:>16} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        "", "<1", "1..2", "2..5", "5..10", "10..30", ">=30"
    );
    for (name, row) in ["compressible", "incompressible"].iter().zip(counts) {
        print!("{name:>16}");
        row.iter().for_each(|count| print!(" {count:>7}"));
        println!();
    }
    println!("{:.0} us a look", look_sec * 1e6 / bytes.chunks(options.frame_len).len() as f64);
    Ok(())
}

/// This thread's time on a processor.
struct Clock(f64);

impl Clock {
    fn start() -> Clock {
        Clock(cpu_sec())
    }

    fn sec(&self) -> f64 {
        cpu_sec() - self.0
    }
}

fn cpu_sec() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
