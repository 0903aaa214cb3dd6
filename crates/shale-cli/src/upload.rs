//! Outputs that are objects in a store: written to a temporary file, verified there, then uploaded.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use shale::read::ByteSource;
use shale::{Below, Cancel, CreateOptions, Delivery, HostError, OutputFile, Phase, Progress};
use shale_remote::{Contents, Destination, Error, Reason, Replace, Watch};

use crate::exit::Misuse;
use crate::report::Say;
use crate::{elsewhere, text};

/// Bytes that are copied at once.
const COPY_LEN: usize = 1 << 20;

/// Makes a build write to the object of a URL. Returns the path of the temporary file, which never
/// gets that name. Fails at once if the object exists and may not be replaced.
///
/// # Errors
/// The store cannot be written to, or the object exists.
pub fn deliver(url: &Path, force: bool, options: &mut CreateOptions) -> anyhow::Result<PathBuf> {
    let destination = elsewhere::destination(url)?;
    if !force && destination.state()?.is_some() {
        return Err(HostError::Exists { path: elsewhere::shown(url).into() }.into());
    }
    let replace = if force { Replace::Anything } else { Replace::Nothing };
    let upload = Upload {
        shown: elsewhere::shown(url).into(),
        destination,
        replace,
        cancel: options.cancel.clone(),
    };
    options.delivery = Some(Arc::new(upload));
    Ok(temp_dir(options).join("image.shale"))
}

fn temp_dir(options: &CreateOptions) -> PathBuf {
    options.build.temp_dir.clone().unwrap_or_else(std::env::temp_dir)
}

/// A file on its way to its object.
#[derive(Debug)]
struct Upload {
    shown: PathBuf,
    destination: Destination,
    replace: Replace,
    cancel: Cancel,
}

impl Delivery for Upload {
    fn deliver(&self, file: &File, progress: &dyn Progress) -> Result<(), HostError> {
        let len = file.metadata().map_err(HostError::io("look at", &self.shown))?.len();
        let contents = Contents { copied_len: 0, file, range: 0..len };
        self.put(&contents, progress)
    }
}

impl Upload {
    fn put(&self, contents: &Contents<'_>, progress: &dyn Progress) -> Result<(), HostError> {
        progress.phase(Phase::Upload);
        progress.found(0, contents.copied_len + contents.range.end - contents.range.start);
        let watching = Watching { cancel: &self.cancel, progress };
        match self.destination.put(contents, &self.replace, &watching) {
            Ok(_) => Ok(()),
            Err(Error { reason: Reason::Cancelled, .. }) => Err(HostError::Cancelled),
            Err(Error { reason: Reason::Exists, .. }) => {
                Err(HostError::Exists { path: self.shown.clone() })
            }
            Err(Error { reason, .. }) => {
                Err(HostError::io("upload to", &self.shown)(io::Error::other(reason)))
            }
        }
    }
}

struct Watching<'a> {
    cancel: &'a Cancel,
    progress: &'a dyn Progress,
}

impl Watch for Watching<'_> {
    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    fn advance(&self, bytes: u64) {
        self.progress.done(0, bytes);
    }
}

/// An append to an object: the object as it was, and a temporary file for what is added.
pub struct Growing {
    upload: Upload,
    image: Arc<dyn ByteSource>,
    file: OutputFile,
}

impl Growing {
    /// Opens the object of a URL.
    ///
    /// # Errors
    /// It cannot be read or written to, is encrypted, or has no ETag.
    pub fn open(url: &Path, options: &CreateOptions, say: &Say) -> anyhow::Result<Self> {
        let destination = elsewhere::destination(url)?;
        let (image, etag) = elsewhere::open_state(url, say)?;
        let shown: PathBuf = elsewhere::shown(url).into();
        if shale_age::is_encrypted(&*image)? {
            bail!(Misuse(format!(
                "{}: `shale append` needs a plain image, and this one is encrypted",
                text::path(&shown)
            )));
        }
        let etag = etag.with_context(|| {
            format!("{}: the store has no ETag for it, so a change could be lost", shown.display())
        })?;
        let replace = Replace::Only(etag);
        let file = OutputFile::create(&temp_dir(options).join("append.shale"))?;
        let upload = Upload { shown, destination, replace, cancel: options.cancel.clone() };
        Ok(Self { upload, image, file })
    }

    /// The image and the file, for the append.
    ///
    /// # Errors
    /// The system has no more file handles.
    pub fn below(&self) -> io::Result<Below> {
        let file = Arc::new(self.file.file().try_clone()?);
        Ok(Below { image: Arc::clone(&self.image), file })
    }

    /// Replaces the object by itself and the last `added_len` bytes of the file.
    ///
    /// # Errors
    /// Somebody else changed the object, or it cannot be uploaded. The object is as it was.
    pub fn finish(&self, added_len: u64, progress: &dyn Progress) -> anyhow::Result<()> {
        let file = self.file.file();
        let len = file.metadata()?.len();
        let from = len.saturating_sub(added_len);
        // What the store cannot take over is fetched and sent.
        let copied_len = self.upload.destination.copied_len(from)?;
        let mut at = copied_len;
        let mut bytes = vec![0; COPY_LEN];
        while at < from {
            let piece = (from - at).min(COPY_LEN as u64) as usize;
            self.image.read_at(at, &mut bytes[..piece])?;
            file.write_all_at(&bytes[..piece], at)?;
            at += piece as u64;
        }
        Ok(self.upload.put(&Contents { copied_len, file, range: copied_len..len }, progress)?)
    }
}
