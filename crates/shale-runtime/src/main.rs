//! The executable at the start of a bundle: mounts the image after it and becomes its program.
//!
//! One file is a bundle: this program, a header, an image. A start asks the driver of the same
//! bundle for its mount, or starts a driver; then it executes the program in its own place. So
//! exit code, signals and process ID need no passing on, and nothing of the runtime waits beside
//! the program except the driver. This program reads images: it has no encoder, no parser of
//! command lines and no code for networks.

mod failure; // errors and exit codes
mod bundle; // the file itself
mod trust; // signatures
mod words; // options of the runtime
mod system; // system calls that are not safe
mod link; // messages between a start and its driver
mod place; // directories and locks of the user
mod namespace; // mounts without any right
mod extract; // files out of the image
mod cache; // copies where nothing can be mounted
mod driver; // the process that serves
mod start; // a directory with the files
mod program; // the program in place of this one

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use bundle::OwnBundle;
use failure::{During, FAILED, Failure};
use shale_read::SnapshotChoice;
use words::Words;

/// `shale bundle` looks for these bytes, to see that a file is a runtime.
#[used]
static MARK: [u8; 24] = *b"ShaleFS bundle runtime 1";

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let called_as = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    let result = match called_as.to_str() {
        Some(driver::STARTER) => driver::run_starter(&words).map(|()| ExitCode::SUCCESS),
        Some(driver::DRIVER) => driver::run(&words).map(|()| ExitCode::SUCCESS),
        Some(namespace::PROBE) => namespace::run_probe(&words).map(|()| ExitCode::SUCCESS),
        _ => run(called_as.clone(), words),
    };
    result.unwrap_or_else(|failure| {
        let name = Path::new(&called_as).file_name().unwrap_or_default().to_string_lossy();
        let prefix = match name.starts_with("shale-runtime: ") {
            // A probe, whose caller prints the reason.
            true => String::new(),
            false => format!("{name}: "),
        };
        // If nobody can read it, nothing is left to do.
        let _ = writeln!(std::io::stderr(), "{prefix}{failure}");
        ExitCode::from(failure.code)
    })
}

fn run(called_as: OsString, words: Vec<OsString>) -> Result<ExitCode, Failure> {
    match words::parse(words)? {
        Words::Help => print(words::HELP),
        Words::Version => print(concat!("shale-runtime ", env!("CARGO_PKG_VERSION"), "\n")),
        Words::Offset => print(&format!("{}\n", OwnBundle::open()?.image_offset)),
        Words::Extract(pattern) => extract_files(pattern),
        Words::Signature(key) => signature(key),
        Words::Mount => {
            let own = OwnBundle::open()?;
            let directory = start::directory(&own, start::expected(&own)?, true)?;
            print(&format!("{}\n", directory.display()))?;
            // The driver sees the end of this process, whatever the signal.
            loop {
                std::thread::park();
            }
        }
        Words::Run(arguments) => {
            let own = OwnBundle::open()?;
            let directory = start::directory(&own, start::expected(&own)?, false)?;
            Err(program::become_program(&own, &directory, called_as, arguments))
        }
    }
}

fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).during("write")?;
    Ok(ExitCode::SUCCESS)
}

/// `--appimage-extract`.
fn extract_files(pattern: Option<OsString>) -> Result<ExitCode, Failure> {
    /// The name that scripts for AppImages know.
    const TARGET: &str = "squashfs-root";
    let own = OwnBundle::open()?;
    let image = own.image(start::expected(&own)?, Some(0))?;
    let tree = image.tree(&SnapshotChoice::Newest).during("read the image")?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut each = |path: &Path| {
        // What was extracted matters more than a reader that has gone.
        let _ = writeln!(out, "{TARGET}/{}", path.display());
    };
    let left_out = extract::extract(&tree, Path::new(TARGET), pattern.as_deref(), &mut each)?;
    let _ = out.flush();
    if left_out > 0 {
        let _ = writeln!(std::io::stderr(), "left out {left_out} devices, fifos and sockets");
    }
    Ok(ExitCode::SUCCESS)
}

/// `--appimage-signature`.
fn signature(key: Option<OsString>) -> Result<ExitCode, Failure> {
    let own = OwnBundle::open()?;
    let image = own.image(None, None)?;
    let Some(key) = key else {
        let lines = trust::described(&image)?;
        if lines.is_empty() {
            return Err(Failure { code: 1, message: "the image is not signed".to_owned() });
        }
        print(&format!("{}\n", lines.join("\n")))?;
        return print("this does not verify the image: name the key that you trust\n");
    };
    let check = || {
        let identity = trust::signed_identity(&image, &[trust::public_key(&key)?])?;
        trust::verify_all(&*own.image(Some(identity), None)?)?;
        print(&format!("verified: signed with this key, identity {identity}\n"))
    };
    // The answer is no, which is not a failure of the runtime.
    check().map_err(|failure| Failure {
        code: if failure.code == FAILED { 1 } else { failure.code },
        ..failure
    })
}
