//! Snapshots as images of containers: an OCI image layout.
//!
//! One snapshot becomes an image of one layer. All snapshots become an image each, whose layers are
//! those of the one before and one more with what changed, so images share layers. Layers depend on
//! the trees only.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shale_codec::stream::StreamFormat;
use shale_extract::{ExportOptions, export_to_archive};
use shale_foreign::TarWriter;
use shale_foreign::oci::{LayoutWriter, OciConfig, OciLayer, whiteout};
use shale_foreign::tar::Times;
use shale_format::InodeKind;
use shale_host::{
    Cancel, Existing, Output, OutputFile, Phase, Progress, existing, sync_directory, thread_count,
};
use shale_query::{ChangeKind, DiffOptions, Side};
use shale_read::{Image, SnapshotChoice, TIME_ATIME, TIME_BTIME, TIME_CTIME, Tree};

use crate::error::Error;

/// How images of containers are written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OciOptions {
    /// What runs in the images.
    pub config: OciConfig,
    /// Write all snapshots, each as an image, and not one.
    pub all_snapshots: bool,
    /// The tag, if one snapshot is written; by default its name, or `latest`.
    pub tag: Option<String>,
    /// Compression of layers: gzip, zstd or none.
    pub compression: Option<StreamFormat>,
    /// Its level; `None` for the usual one.
    pub compression_level: Option<u32>,
    /// Threads that decode; 0 for one per processor.
    pub threads: usize,
    /// Replace an existing archive. A directory is never replaced.
    pub overwrite: bool,
    /// Directory of temporary files, where the output is a stream.
    pub temp_dir: Option<PathBuf>,
    /// Ends the run with [`shale_host::Error::Cancelled`].
    pub cancel: Cancel,
}

impl OciOptions {
    shale_host::setters! {
        config: OciConfig,
        all_snapshots: bool,
        tag: Option<String>,
        compression: Option<StreamFormat>,
        compression_level: Option<u32>,
        threads: usize,
        overwrite: bool,
        temp_dir: Option<PathBuf>,
        cancel: Cancel,
    }
}

impl Default for OciOptions {
    fn default() -> Self {
        Self {
            config: OciConfig::default(),
            all_snapshots: false,
            tag: None,
            compression: Some(StreamFormat::Gzip),
            compression_level: None,
            threads: 0,
            overwrite: false,
            temp_dir: None,
            cancel: Cancel::new(),
        }
    }
}

/// Where a layout is written to.
pub enum OciOutput<'a> {
    /// A new directory.
    Directory(PathBuf),
    /// A tar archive of the layout.
    Archive(Output<'a>),
}

/// What was written.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct OciReport {
    /// The tag of each image, and the number of its layers.
    pub images: Vec<(String, usize)>,
    /// Entries in all layers, without whiteouts.
    pub entries: u64,
    /// Whiteouts in all layers.
    pub whiteouts: u64,
    /// Bytes of files in all layers.
    pub file_bytes: u64,
    /// Bytes of all layers as they are stored.
    pub stored_bytes: u64,
    /// Entries, or parts of their metadata, that a layer cannot hold.
    pub left_out: Vec<(Vec<u8>, String)>,
    /// The number of all of these.
    pub left_out_count: u64,
}

/// Writes snapshots of `image` as images of containers.
///
/// # Errors
/// On any error nothing is left under the output's name; a stream holds the beginning of an
/// archive.
pub fn export_oci(
    image: &Arc<Image>,
    snapshot: &SnapshotChoice,
    output: OciOutput<'_>,
    options: &OciOptions,
    progress: &dyn Progress,
) -> Result<OciReport, Error> {
    let refuse = |what: String| shale_extract::Error::NotExportable { what };
    options.config.check().map_err(refuse)?;
    if !matches!(options.compression, None | Some(StreamFormat::Gzip | StreamFormat::Zstd)) {
        let what = "layers are compressed with gzip or zstd, or not at all".to_owned();
        return Err(refuse(what).into());
    }
    let chosen = match options.all_snapshots {
        true => (0..image.snapshots().len()).collect(),
        false => vec![image.snapshot_number(snapshot)?],
    };
    let tags = tags(image, &chosen, options);
    let all: Vec<(usize, String)> = chosen.into_iter().zip(tags).collect();
    match output {
        OciOutput::Directory(path) => to_directory(image, &all, &path, options, progress),
        OciOutput::Archive(Output::Stream(stream)) => {
            let beside = options.temp_dir.clone().unwrap_or_else(std::env::temp_dir);
            to_archive(image, &all, stream, &beside, options, progress)
        }
        OciOutput::Archive(Output::Path(path)) => match existing(&path)? {
            Existing::Stream => Err(Error::NotFile { path }),
            Existing::File if !options.overwrite => Err(shale_host::Error::Exists { path }.into()),
            Existing::File | Existing::Nothing => {
                let output = OutputFile::create(&path)?;
                let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let beside = beside.unwrap_or(Path::new("."));
                let mut file = output.file();
                let report = to_archive(image, &all, &mut file, beside, options, progress)?;
                progress.phase(Phase::Sync);
                output.sync()?;
                options.cancel.check()?;
                output.commit(options.overwrite)?;
                Ok(report)
            }
        },
    }
}

/// The tags of snapshots: their names, as far as tags may have such names.
fn tags(image: &Arc<Image>, chosen: &[usize], options: &OciOptions) -> Vec<String> {
    let newest = image.snapshots().len() - 1;
    let mut used = HashSet::new();
    let tag = |&number: &usize| {
        if let (Some(tag), false) = (&options.tag, options.all_snapshots) {
            return tag.clone();
        }
        let mut tag = tag_of(&image.snapshots()[number].name);
        if tag.is_empty() {
            tag = if number == newest { "latest".to_owned() } else { format!("snapshot-{number}") };
        }
        if !used.insert(tag.clone()) {
            tag = format!("{tag}-{number}");
            used.insert(tag.clone());
        }
        tag
    };
    chosen.iter().map(tag).collect()
}

/// A name as a tag: letters, digits, `_`, `.` and `-`, at most 100, and no mark in front.
fn tag_of(name: &[u8]) -> String {
    const LEN_MAX: usize = 100;
    let letter = |&byte: &u8| match byte {
        b'_' | b'.' | b'-' => byte as char,
        _ if byte.is_ascii_alphanumeric() => byte as char,
        _ => '-',
    };
    let tag: String = name.iter().map(letter).collect();
    tag.trim_start_matches(['.', '-']).chars().take(LEN_MAX).collect()
}

fn cannot_write<E: Into<std::io::Error>>(error: E) -> Error {
    Error::io("write", "the layout")(error)
}

/// A new directory that is removed unless it gets its name.
struct Hidden(Option<PathBuf>);

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn to_directory(
    image: &Arc<Image>,
    all: &[(usize, String)],
    path: &Path,
    options: &OciOptions,
    progress: &dyn Progress,
) -> Result<OciReport, Error> {
    let exists = || Error::from(shale_host::Error::Exists { path: path.to_owned() });
    if fs::symlink_metadata(path).is_ok() {
        return Err(exists());
    }
    let Some(name) = path.file_name() else { return Err(exists()) };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let mut hidden_name = std::ffi::OsString::from(".");
    hidden_name.push(name);
    hidden_name.push(format!(".{}.partial", std::process::id()));
    let hidden_path = parent.join(hidden_name);
    fs::create_dir(&hidden_path).map_err(Error::io("create", &hidden_path))?;
    let mut hidden = Hidden(Some(hidden_path.clone()));
    let mut layout = LayoutWriter::directory(&hidden_path).map_err(cannot_write)?;
    let report = write(image, all, &mut layout, options, progress)?;
    progress.phase(Phase::Sync);
    layout.finish().map_err(cannot_write)?;
    options.cancel.check()?;
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, &hidden_path, cwd, path, flags) {
        Ok(()) => {}
        Err(rustix::io::Errno::EXIST) => return Err(exists()),
        // The file system cannot promise it; the name was free a moment ago.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::rename(&hidden_path, path).map_err(Error::io("name", path))?;
        }
        Err(error) => return Err(Error::io("name", path)(error)),
    }
    hidden.0 = None;
    let parent = File::open(parent).map_err(Error::io("open the directory", parent))?;
    sync_directory(&parent).map_err(Error::io("write to disk", path))?;
    Ok(report)
}

fn to_archive(
    image: &Arc<Image>,
    all: &[(usize, String)],
    stream: &mut dyn Write,
    beside: &Path,
    options: &OciOptions,
    progress: &dyn Progress,
) -> Result<OciReport, Error> {
    let mut out = BufWriter::with_capacity(1 << 20, stream);
    let temporary = || {
        // Never committed: it is removed when its last handle is closed.
        let file = OutputFile::create(&beside.join("layer"));
        let file = file.map_err(std::io::Error::other)?;
        file.file().try_clone()
    };
    let mut layout = LayoutWriter::archive(Box::new(&mut out), Box::new(temporary));
    let report = write(image, all, &mut layout, options, progress)?;
    layout.finish().map_err(cannot_write)?;
    out.flush().map_err(cannot_write)?;
    Ok(report)
}

/// Writes the layers and images.
fn write(
    image: &Arc<Image>,
    all: &[(usize, String)],
    layout: &mut LayoutWriter<'_>,
    options: &OciOptions,
    progress: &dyn Progress,
) -> Result<OciReport, Error> {
    let mut report = OciReport::default();
    let mut layers: Vec<OciLayer> = Vec::new();
    let mut before: Option<Tree> = None;
    for (number, tag) in all {
        options.cancel.check()?;
        let tree = image.tree(&SnapshotChoice::Index(*number))?;
        let difference = before.as_ref().map(|before| difference(before, &tree)).transpose()?;
        let is_same = difference.as_ref().is_some_and(Difference::is_nothing);
        if !is_same {
            layers.push(layer(&tree, tag, difference, layout, (options, progress), &mut report)?);
        }
        layout.image(tag, &layers, &options.config).map_err(cannot_write)?;
        report.images.push((tag.clone(), layers.len()));
        before = Some(tree);
    }
    Ok(report)
}

/// Writes one layer: a tree, or its difference to the one before.
fn layer(
    tree: &Tree,
    tag: &str,
    difference: Option<Difference>,
    layout: &mut LayoutWriter<'_>,
    (options, progress): (&OciOptions, &dyn Progress),
    report: &mut OciReport,
) -> Result<OciLayer, Error> {
    let Difference { changed, removed } = difference.unwrap_or_default();
    let export = ExportOptions::default()
        .paths((!changed.is_empty()).then(|| Arc::new(changed)))
        .threads(options.threads)
        .cancel(options.cancel.clone());
    let kept = tree.snapshot().times_kept;
    let times = Times {
        access: kept & TIME_ATIME != 0,
        change: kept & TIME_CTIME != 0,
        birth: kept & TIME_BTIME != 0,
    };
    let compression = (options.compression, options.compression_level);
    let threads = thread_count(options.threads) as u32;
    let write = |out: &mut (dyn Write + Send)| -> Result<_, Error> {
        let mut archive = Box::new(TarWriter::new(out, times));
        for path in &removed {
            whiteout(&mut *archive, path).map_err(cannot_write)?;
        }
        Ok(export_to_archive(tree, archive, &export, progress)?)
    };
    let (layer, exported) = layout.layer(tag, compression, threads, write, cannot_write)?;
    report.entries += exported.entries;
    report.whiteouts += removed.len() as u64;
    report.file_bytes += exported.file_bytes;
    report.stored_bytes += layer.stored_len();
    report.left_out.extend(exported.left_out);
    report.left_out_count += exported.left_out_count;
    Ok(layer)
}

/// What a layer adds and takes away.
#[derive(Default)]
struct Difference {
    /// Paths that are in the layer, with the root; empty if all are.
    changed: HashSet<Vec<u8>>,
    /// Paths that are gone, without those below others that are gone.
    removed: BTreeSet<Vec<u8>>,
}

impl Difference {
    fn is_nothing(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Compares two trees of one image.
fn difference(old: &Tree, new: &Tree) -> Result<Difference, Error> {
    let mut options = DiffOptions::default();
    options.moves = false;
    let sides = (Side::Snapshot(old.clone()), Side::Snapshot(new.clone()));
    let (changes, _) = shale_query::diff(&sides.0, &sides.1, &options).map_err(|error| {
        let what = error.to_string();
        shale_extract::Error::NotExportable { what }
    })?;
    let mut difference = Difference::default();
    for change in changes {
        match change.kind {
            ChangeKind::Removed => {
                let above = |path: &[u8]| path.iter().rposition(|&byte| byte == b'/');
                let mut path = &change.path[..];
                let mut is_below = false;
                while let Some(at) = above(path) {
                    path = &path[..at];
                    is_below |= difference.removed.contains(path);
                }
                if !is_below {
                    difference.removed.insert(change.path);
                }
            }
            ChangeKind::Changed(aspects) => {
                let is_other_kind = aspects.contains(&shale_query::Aspect::Type);
                // What is below a directory that became a file is listed as removed before it.
                if is_other_kind {
                    difference.removed.insert(change.path.clone());
                }
                difference.changed.insert(change.path);
            }
            _ => {
                difference.changed.insert(change.path);
            }
        }
    }
    add_links(old, new, &mut difference)?;
    let is_root_same = {
        let (old, new) = (old.attributes(old.root_inode())?, new.attributes(new.root_inode())?);
        old.metadata() == new.metadata()
    };
    if !difference.is_nothing() || !is_root_same {
        difference.changed.insert(Vec::new());
    }
    Ok(difference)
}

/// Adds all names of an inode if one of them is in the layer, or if its names are others than
/// before: a hard link leads to a name in the same layer.
fn add_links(old: &Tree, new: &Tree, difference: &mut Difference) -> Result<(), Error> {
    let before: HashSet<Vec<Vec<u8>>> = links(old)?.into_values().collect();
    for names in links(new)?.into_values() {
        let is_touched = names.iter().any(|name| difference.changed.contains(name));
        if is_touched || !before.contains(&names) {
            difference.changed.extend(names);
        }
    }
    Ok(())
}

/// The names of inodes that have several, in order.
fn links(tree: &Tree) -> Result<BTreeMap<u64, Vec<Vec<u8>>>, Error> {
    let mut links: HashMap<u64, Vec<Vec<u8>>> = HashMap::new();
    let mut walk = tree.walk(tree.root_inode())?;
    while let Some(visit) = walk.advance()? {
        let attributes = &visit.attributes;
        if attributes.kind != InodeKind::Directory && attributes.link_count > 1 {
            links.entry(attributes.inode).or_default().push(visit.path.to_vec());
        }
    }
    Ok(links.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::tag_of;

    #[test]
    fn names_become_tags() {
        assert_eq!(tag_of(b"2026-01-02T03:04:05Z"), "2026-01-02T03-04-05Z");
        assert_eq!(tag_of(b".a/b"), "a-b");
        assert_eq!(tag_of(b""), "");
        assert_eq!(tag_of(&[b'a'; 300]).len(), 100);
    }
}
