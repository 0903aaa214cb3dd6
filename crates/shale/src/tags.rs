//! Images of containers, all of a layout or archive: a snapshot for each tag.
//!
//! The first tag is packed, and the others are appended in the order in which the source lists
//! them. Files that several tags have are stored once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use shale_host::{Existing, Output, Progress, existing};
use shale_write::Report;

use crate::append::{AppendOptions, append};
use crate::create::create;
use crate::error::Error;
use crate::options::CreateOptions;
use shale_source::{Container, Input, InputKind};

/// What became of one tag.
#[derive(Debug)]
#[non_exhaustive]
pub struct TagReport {
    /// The tag, which is the name of the snapshot.
    pub tag: String,
    /// Report of the build.
    pub build: Report,
    /// Whether it was read back and compared.
    pub is_verified: bool,
}

/// A file that is removed unless it gets its name.
struct Partial(Option<PathBuf>);

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Packs all tags of `source` into a new image at `path`.
///
/// It is built under a hidden name beside `path`, which a kill leaves behind.
///
/// # Errors
/// The source has no tags, or one of them was not packed. Nothing is left then.
pub fn create_tags(
    source: &Input,
    path: &Path,
    options: &CreateOptions,
    progress: &dyn Progress,
) -> Result<Vec<TagReport>, Error> {
    let exists = || Error::from(shale_host::Error::Exists { path: path.to_owned() });
    match existing(path)? {
        Existing::Stream => return Err(Error::NotFile { path: path.to_owned() }),
        Existing::File if !options.overwrite => return Err(exists()),
        Existing::File | Existing::Nothing => {}
    }
    let tags = tags(source)?;
    let Some(name) = path.file_name() else { return Err(exists()) };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.partial", std::process::id()));
    let hidden = path.with_file_name(hidden);
    let mut partial = Partial(Some(hidden.clone()));
    let mut reports = Vec::with_capacity(tags.len());
    for tag in tags {
        let options = of_tag(options, &tag).overwrite(true);
        let inputs = std::slice::from_ref(source);
        let (build, is_verified) = if reports.is_empty() {
            let report = create(inputs, Output::Path(hidden.clone()), &options, progress)?;
            (report.build, report.verified.is_some())
        } else {
            let options = AppendOptions::default().create(options).reads_all(true);
            let report = append(&hidden, inputs, &options, progress)?;
            (report.build, report.verified.is_some())
        };
        reports.push(TagReport { tag, build, is_verified });
    }
    let flags = if options.overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match rustix::fs::renameat_with(CWD, &hidden, CWD, path, flags) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(exists()),
        Err(error) => return Err(Error::io("name", path)(error)),
    }
    partial.0 = None;
    Ok(reports)
}

/// Appends all tags of `source` to the image at `path`, a snapshot each. Gives each report to
/// `appended`.
///
/// # Errors
/// The source has no tags, or one of them was not packed. Those before it stay.
pub fn append_tags(
    path: &Path,
    source: &Input,
    options: &AppendOptions,
    progress: &dyn Progress,
    mut appended: impl FnMut(TagReport),
) -> Result<(), Error> {
    for tag in tags(source)? {
        let create = of_tag(&options.create, &tag);
        let options = AppendOptions { create, reads_all: true, ..options.clone() };
        let report = append(path, std::slice::from_ref(source), &options, progress)?;
        let is_verified = report.verified.is_some();
        appended(TagReport { tag, build: report.build, is_verified });
    }
    Ok(())
}

fn tags(source: &Input) -> Result<Vec<String>, Error> {
    let not_container = || Error::NoTags { path: source.name().to_owned() };
    let InputKind::Path(path) = &source.kind else { return Err(not_container()) };
    shale_foreign::oci::tags(path)?.ok_or_else(not_container)
}

/// The options to pack one tag.
fn of_tag(options: &CreateOptions, tag: &str) -> CreateOptions {
    let platform = match &options.source.container {
        Container::Tree { platform, .. } => platform.clone(),
        Container::Files => None,
    };
    let mut options = options.clone();
    options.source.container = Container::Tree { tag: Some(tag.to_owned()), platform };
    options.build.snapshot_name = tag.as_bytes().to_vec();
    options
}
