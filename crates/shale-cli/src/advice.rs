//! What to do after an error: the one place that maps errors of libraries to options and commands.
//!
//! A library error says what happened and to what. Only this crate knows the command line, so only
//! this crate can name an option that helps.

use std::io::{self, ErrorKind};

use shale::foreign::lacks;
use shale::read::{Fault, ReadError};
use shale::write::WriteError;
use shale::{CheckError, Error, ExtractError, HostError, ParityProblem, SignProblem};
use shale_fuse::MountError;

/// An option or command that helps, and the sentence that names it.
pub type Advice = (&'static str, String);

/// Returns what the user can do about an error, unless its message already names that option.
pub fn advice(error: &anyhow::Error, message: &str) -> Option<String> {
    let of_cause = error.chain().find_map(|cause| {
        let of_facade = cause.downcast_ref::<Error>().and_then(of_facade);
        let of_check = || cause.downcast_ref::<CheckError>().and_then(of_check);
        let of_extract = || cause.downcast_ref::<ExtractError>().and_then(of_extract);
        let of_host = || cause.downcast_ref::<HostError>().and_then(of_host);
        let of_read = || cause.downcast_ref::<ReadError>().and_then(of_read);
        let of_mount = || cause.downcast_ref::<MountError>().and_then(of_mount);
        let of_age = || cause.downcast_ref::<shale_age::Error>().and_then(of_age);
        let of_remote = || of_remote(cause);
        of_facade
            .or_else(of_age)
            .or_else(of_check)
            .or_else(of_extract)
            .or_else(of_host)
            .or_else(of_read)
            .or_else(of_mount)
            .or_else(of_remote)
    });
    let (name, advice) = of_cause.or_else(|| of_words(message))?;
    (!message.contains(name)).then_some(advice)
}

/// Advice for what an archive lacks, which its error says in words.
pub fn of_words(message: &str) -> Option<Advice> {
    let advice = [
        (lacks::PASSWORD, "--password-file", "name a file with its password: --password-file FILE"),
        (lacks::TAG, "--tag", "choose one with --tag, or use --all-tags for a snapshot of each"),
        (lacks::MEMORY, "--memory", "allow more with --memory SIZE, at most 2G for this"),
        (lacks::PLATFORM, "--platform", "choose one with --platform"),
    ];
    let found = advice.into_iter().find(|(words, ..)| message.contains(words));
    found.map(|(_, name, advice)| (name, advice.to_owned()))
}

fn of_facade(error: &Error) -> Option<Advice> {
    match error {
        Error::Host(error) => of_host(error),
        Error::Check(error) => of_check(error),
        Error::Extract(error) => of_extract(error),
        Error::Read(error) => of_read(error),
        Error::ParityNeedsAll { .. } => {
            Some(("--drop-parity", "use --drop-parity, or append to a file".into()))
        }
        Error::Write(WriteError::TemporaryFile(error)) => of_full_disk(error),
        Error::Write(WriteError::Memory { needed, is_limit, .. }) => {
            let mib = needed.div_ceil(1 << 20);
            Some(match is_limit {
                true => (
                    "--memory",
                    format!(
                        "use a lower level or a smaller source, raise the limit, or try \
                         --memory {mib}M, which may not suffice"
                    ),
                ),
                false => ("--memory", format!("use --memory {mib}M, or a lower level")),
            })
        }
        _ => None,
    }
}

fn of_age(error: &shale_age::Error) -> Option<Advice> {
    use shale_age::Error;
    Some(match error {
        Error::NoKey | Error::WrongKey { .. } => {
            ("--identity", "name the file with your secret key: --identity FILE".into())
        }
        Error::NoPassphrase | Error::WrongPassphrase => (
            "--passphrase-file",
            "name a file whose first line is it: --passphrase-file FILE".into(),
        ),
        error if error.is_damage() => ("copy", "use another copy of the file".into()),
        _ => return None,
    })
}

fn of_host(error: &HostError) -> Option<Advice> {
    Some(match error {
        HostError::Exists { .. } => {
            ("--force", "use another name, or --force to replace it".into())
        }
        HostError::Io { action, error, .. } if action.contains("temporary") => {
            return of_full_disk(error);
        }
        HostError::DirectoryName { .. } => ("slash at", "use a name without the slash".into()),
        HostError::NotReplaceable { .. } => ("another name", "use another name".into()),
        _ => return None,
    })
}

fn of_extract(error: &ExtractError) -> Option<Advice> {
    Some(match error {
        ExtractError::Host(error) => return of_host(error),
        ExtractError::Read(error) => return of_read(error),
        ExtractError::TargetsExist { .. } => {
            ("--overwrite", "use an empty directory, or --overwrite never, older or always".into())
        }
        _ => return None,
    })
}

fn of_check(error: &CheckError) -> Option<Advice> {
    let check = || ("shale check", "run `shale check` to see what is damaged".to_owned());
    Some(match error {
        CheckError::Host(error) => return of_host(error),
        CheckError::Read(error) => return of_read(error),
        CheckError::Parity { problem: ParityProblem::InterruptedWriter, .. } => {
            ("--force", "use --force to cut them off".into())
        }
        CheckError::Parity { problem: ParityProblem::Damaged, .. }
        | CheckError::Sign { problem: SignProblem::OtherBytes, .. } => check(),
        CheckError::Sign { problem: SignProblem::NoIdentity, .. } => {
            ("parity add", "`shale parity add` gives the image an identity".into())
        }
        CheckError::Sign { problem: SignProblem::NoSignature, .. } => {
            ("signature file", "name the file that holds one".into())
        }
        CheckError::Repair { .. } => (
            "--salvage",
            "use --salvage to keep what can be saved, or `shale extract --continue` to extract \
             the undamaged files"
                .into(),
        ),
        CheckError::Salvage { .. } => ("another copy", "get another copy".into()),
        _ => return None,
    })
}

/// Advice for temporary files on a full disk.
fn of_full_disk(error: &io::Error) -> Option<Advice> {
    let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    is_full.then(|| ("--temp-dir", "use --temp-dir to name a directory with more space".into()))
}

fn of_read(error: &ReadError) -> Option<Advice> {
    Some(match error.fault() {
        Fault::NotImage { .. } => {
            ("offset", "if other data precedes the image, use --offset".into())
        }
        Fault::Codec { .. } | Fault::Checksum { .. } => {
            ("shale check", "run `shale check` to see which files are damaged".into())
        }
        Fault::NoBase { .. } => {
            ("--base", "put the base beside the thin image, or name it with --base".into())
        }
        Fault::Thin { .. } => (
            "--thick",
            "`shale merge --thick` makes one whole image of a thin image and its base".into(),
        ),
        Fault::NoIdentity { .. } => {
            ("parity add", "`shale parity add` gives the image an identity".into())
        }
        Fault::NoSnapshot { .. } => {
            ("shale snapshots", "`shale snapshots` lists all snapshots of the image".into())
        }
        _ => return None,
    })
}

fn of_mount(error: &MountError) -> Option<Advice> {
    Some(match error {
        MountError::MountPointStale(path) | MountError::AlreadyMounted { path, .. } => {
            ("shale umount", format!("run `shale umount {}` first", path.display()))
        }
        MountError::KernelView(_) => ("--view", "use --view fuse".into()),
        MountError::Busy(path) => (
            "--lazy",
            format!("end the processes that `fuser -vm {}` shows, or use --lazy", path.display()),
        ),
        _ => return None,
    })
}

/// Advice for an object that is elsewhere, also where its error is that of a read.
#[cfg(feature = "remote")]
fn of_remote(cause: &(dyn std::error::Error + 'static)) -> Option<Advice> {
    use shale_remote::{Error, Reason};
    let inner = || cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<Error>();
    let signs = |what: &str| ("--no-sign-request", what.to_owned());
    Some(match &cause.downcast_ref::<Error>().or_else(inner)?.reason {
        Reason::Timeout { .. } => {
            ("--timeout", "check the network, or allow more time with --timeout".into())
        }
        Reason::Offline => ("--offline", "leave out --offline to use the network".into()),
        Reason::Denied { is_anonymous: true, .. } => {
            signs("leave out --no-sign-request to use your credentials")
        }
        Reason::NoCredentials(_) | Reason::Denied { may_be_anonymous: true, .. } => {
            signs("use --no-sign-request for a public object")
        }
        Reason::NotWritable => {
            ("upload it", "write a file and upload it with the tool of that server".into())
        }
        _ => return None,
    })
}

#[cfg(not(feature = "remote"))]
fn of_remote(_: &(dyn std::error::Error + 'static)) -> Option<Advice> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_found_below_context_and_not_repeated() {
        let error = || {
            let error = HostError::Exists { path: "a.shale".into() };
            anyhow::Error::from(error).context("cannot pack the source")
        };
        let found = advice(&error(), "a.shale exists").unwrap();
        assert!(found.contains("--force"), "{found}");
        assert_eq!(advice(&error(), "a.shale exists; use --force"), None);
        assert_eq!(advice(&anyhow::anyhow!("other"), "other"), None);
    }
}
