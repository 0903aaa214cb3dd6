//! Images of containers, out: an OCI image layout, as a directory or as a tar archive of one.
//!
//! The caller gives the tar archives of the layers, which may serve several images, and says what
//! runs in each image. The bytes depend on what is given alone: the time of creation is always
//! 1970.
//!
//! Source: the image specification of OCI 1.1, its parts image layout, manifest and configuration.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use shale_codec::stream::{Finish, StreamFormat};
use shale_format::hex;
use shale_model::{InodeKind, Metadata, Timestamp};

use crate::archive::{Archive, ArchiveEntry};
use crate::tar::{TarWriter, Times};

const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
/// The time of creation: the specification lets it be absent, and umoci 0.4 needs it.
const NEVER: &str = "1970-01-01T00:00:00Z";
/// Bytes that are copied at a time.
const BUFFER_LEN: usize = 1 << 20;

/// What runs in an image, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciConfig {
    /// Operating system and architecture, such as `linux/arm64` or `linux/arm/v7`.
    pub platform: String,
    /// The program that runs, with its first arguments.
    pub entrypoint: Vec<String>,
    /// The arguments, or the program where there is no entry point.
    pub cmd: Vec<String>,
    /// Variables of the environment, `NAME=VALUE`.
    pub env: Vec<String>,
    /// The directory in which it runs.
    pub working_dir: Option<String>,
    /// The user as whom it runs.
    pub user: Option<String>,
    /// Labels, each `NAME=VALUE`.
    pub labels: Vec<String>,
}

impl Default for OciConfig {
    fn default() -> Self {
        Self {
            platform: "linux/amd64".to_owned(),
            entrypoint: Vec::new(),
            cmd: Vec::new(),
            env: Vec::new(),
            working_dir: None,
            user: None,
            labels: Vec::new(),
        }
    }
}

impl OciConfig {
    /// Checks the platform, the variables and the labels.
    ///
    /// # Errors
    /// What is not valid.
    pub fn check(&self) -> Result<(), String> {
        let parts: Vec<&str> = self.platform.split('/').collect();
        if !(2..=3).contains(&parts.len()) || parts.iter().any(|part| part.is_empty()) {
            return Err(format!("`{}` is not a platform such as linux/arm64", self.platform));
        }
        let named = |text: &&String| text.split_once('=').is_none_or(|(name, _)| name.is_empty());
        if let Some(text) = self.env.iter().chain(&self.labels).find(named) {
            return Err(format!("`{text}` is not NAME=VALUE"));
        }
        Ok(())
    }

    /// The configuration of an image with these layers.
    fn document(&self, layers: &[OciLayer]) -> Value {
        let mut config = Map::new();
        let lists = [("Entrypoint", &self.entrypoint), ("Cmd", &self.cmd), ("Env", &self.env)];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            config.insert(name.to_owned(), list.clone().into());
        }
        for (name, text) in [("WorkingDir", &self.working_dir), ("User", &self.user)] {
            if let Some(text) = text {
                config.insert(name.to_owned(), text.clone().into());
            }
        }
        if !self.labels.is_empty() {
            let pairs = self.labels.iter().filter_map(|label| label.split_once('='));
            let labels: Map<String, Value> =
                pairs.map(|(name, value)| (name.to_owned(), value.into())).collect();
            config.insert("Labels".to_owned(), labels.into());
        }
        let diffs: Vec<String> =
            layers.iter().map(|layer| format!("sha256:{}", layer.plain_digest)).collect();
        let history: Vec<Value> = layers
            .iter()
            .map(|layer| json!({ "created": NEVER, "comment": layer.comment }))
            .collect();
        let mut document = self.platform();
        document.insert("created".to_owned(), NEVER.into());
        document.insert("config".to_owned(), config.into());
        document.insert("rootfs".to_owned(), json!({ "type": "layers", "diff_ids": diffs }));
        document.insert("history".to_owned(), history.into());
        document.into()
    }

    fn platform(&self) -> Map<String, Value> {
        let names = ["os", "architecture", "variant"];
        let parts = names.into_iter().zip(self.platform.split('/'));
        parts.map(|(name, part)| (name.to_owned(), part.into())).collect()
    }
}

/// A blob of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Blob {
    /// SHA-256 of its bytes, in hexadecimal digits.
    digest: String,
    len: u64,
}

impl Blob {
    fn descriptor(&self, media_type: &str) -> Map<String, Value> {
        let mut descriptor = Map::new();
        descriptor.insert("mediaType".to_owned(), media_type.into());
        descriptor.insert("digest".to_owned(), format!("sha256:{}", self.digest).into());
        descriptor.insert("size".to_owned(), self.len.into());
        descriptor
    }
}

/// A layer that was written, for the images that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciLayer {
    blob: Blob,
    media_type: String,
    /// SHA-256 of the tar archive before it was compressed.
    plain_digest: String,
    comment: String,
}

impl OciLayer {
    /// Bytes of the layer as it is stored.
    pub fn stored_len(&self) -> u64 {
        self.blob.len
    }
}

/// Writes a layout.
pub struct LayoutWriter<'w> {
    place: Destination<'w>,
    /// Digests of the blobs so far, as an archive must not have one twice.
    written: Vec<String>,
    manifests: Vec<Value>,
}

/// Where the files of the layout go.
enum Destination<'w> {
    Directory(PathBuf),
    /// To a tar archive. Blobs are first written to temporary files, because their lengths come
    /// before them.
    Archive {
        tar: Box<TarWriter<Box<dyn Write + 'w>>>,
        temporary: Temporary<'w>,
    },
}

/// Makes a temporary file, readable and writable.
pub type Temporary<'w> = Box<dyn FnMut() -> io::Result<File> + 'w>;

impl<'w> LayoutWriter<'w> {
    /// Writes a layout into an empty directory.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn directory(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path.join("blobs/sha256"))?;
        Ok(Self::new(Destination::Directory(path.to_owned())))
    }

    /// Writes a layout to a tar archive.
    pub fn archive(out: Box<dyn Write + 'w>, temporary: Temporary<'w>) -> Self {
        let tar = Box::new(TarWriter::new(out, Times::default()));
        Self::new(Destination::Archive { tar, temporary })
    }

    fn new(place: Destination<'w>) -> Self {
        Self { place, written: Vec::new(), manifests: Vec::new() }
    }

    /// Writes a layer: the tar archive that `write` gives. `compression` is that of the layer, with
    /// its level.
    ///
    /// # Errors
    /// Those of `write`, and of the output by `failed`.
    pub fn layer<T, E>(
        &mut self,
        comment: &str,
        (compression, level): (Option<StreamFormat>, Option<u32>),
        threads: u32,
        write: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, E>,
        failed: impl Fn(io::Error) -> E,
    ) -> Result<(OciLayer, T), E> {
        let mut file = self.temporary().map_err(&failed)?;
        let mut stored = Hashed::new(io::BufWriter::with_capacity(BUFFER_LEN, &mut file));
        let (plain, result) = match compression {
            None => {
                let mut plain = Hashed::new(&mut stored);
                let result = write(&mut plain)?;
                (plain.digest(), result)
            }
            Some(format) => {
                let encoder = format.encoder(&mut stored, level, threads).map_err(&failed)?;
                let mut plain = Hashed::new(Encoder(encoder));
                let result = write(&mut plain)?;
                let digest = plain.digest();
                plain.out.0.finish().map_err(&failed)?;
                (digest, result)
            }
        };
        stored.out.flush().map_err(&failed)?;
        let blob = Blob { digest: stored.digest(), len: stored.len };
        drop(stored);
        self.keep(file, &blob).map_err(&failed)?;
        let suffix = compression.map_or(String::new(), |format| format!("+{}", format.name()));
        let layer = OciLayer {
            blob,
            media_type: format!("{LAYER_TYPE}{suffix}"),
            plain_digest: plain,
            comment: comment.to_owned(),
        };
        Ok((layer, result))
    }

    /// Writes an image of these layers, from the bottom to the top.
    ///
    /// # Errors
    /// The output fails.
    pub fn image(&mut self, tag: &str, layers: &[OciLayer], config: &OciConfig) -> io::Result<()> {
        let config_blob = self.document(&config.document(layers))?;
        let described: Vec<Value> =
            layers.iter().map(|layer| layer.blob.descriptor(&layer.media_type).into()).collect();
        let manifest = self.document(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": config_blob.descriptor(CONFIG_TYPE),
            "layers": described,
        }))?;
        let mut descriptor = manifest.descriptor(MANIFEST_TYPE);
        descriptor.insert("platform".to_owned(), config.platform().into());
        let annotations = json!({ "org.opencontainers.image.ref.name": tag });
        descriptor.insert("annotations".to_owned(), annotations);
        self.manifests.push(descriptor.into());
        Ok(())
    }

    /// Writes the index.
    ///
    /// # Errors
    /// The output fails.
    pub fn finish(mut self) -> io::Result<()> {
        let index = json!({
            "schemaVersion": 2,
            "mediaType": INDEX_TYPE,
            "manifests": std::mem::take(&mut self.manifests),
        });
        self.file("index.json", &index.to_string().into_bytes())?;
        self.file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        match self.place {
            Destination::Directory(path) => {
                for name in ["blobs/sha256", "blobs", ""] {
                    File::open(path.join(name))?.sync_all()?;
                }
                Ok(())
            }
            Destination::Archive { tar, .. } => tar.finish(),
        }
    }

    /// Writes a document as a blob.
    fn document(&mut self, value: &Value) -> io::Result<Blob> {
        let bytes = value.to_string().into_bytes();
        let blob = Blob { digest: hex::encode(&Sha256::digest(&bytes)), len: bytes.len() as u64 };
        if self.is_new(&blob) {
            self.file(&path_of(&blob), &bytes)?;
        }
        Ok(blob)
    }

    fn is_new(&mut self, blob: &Blob) -> bool {
        let is_new = !self.written.contains(&blob.digest);
        if is_new {
            self.written.push(blob.digest.clone());
        }
        is_new
    }

    /// The file that a blob is written to before its name is known.
    fn temporary(&mut self) -> io::Result<File> {
        match &mut self.place {
            Destination::Directory(path) => {
                let path = path.join("blobs/sha256/.layer");
                File::options().read(true).write(true).create(true).truncate(true).open(path)
            }
            Destination::Archive { temporary, .. } => temporary(),
        }
    }

    /// Gives a blob its name.
    fn keep(&mut self, mut file: File, blob: &Blob) -> io::Result<()> {
        let is_new = self.is_new(blob);
        match &mut self.place {
            Destination::Directory(path) => {
                file.sync_all()?;
                let from = path.join("blobs/sha256/.layer");
                fs::rename(from, path.join(path_of(blob)))
            }
            Destination::Archive { .. } if !is_new => Ok(()),
            Destination::Archive { tar, .. } => {
                file.rewind()?;
                put(tar, &path_of(blob), blob.len, &mut file)
            }
        }
    }

    /// Writes a short file.
    fn file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        match &mut self.place {
            Destination::Directory(place) => {
                let mut file = File::create(place.join(path))?;
                file.write_all(bytes)?;
                file.sync_all()
            }
            Destination::Archive { tar, .. } => put(tar, path, bytes.len() as u64, &mut &bytes[..]),
        }
    }
}

impl std::fmt::Debug for LayoutWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayoutWriter").field("written", &self.written).finish_non_exhaustive()
    }
}

fn path_of(blob: &Blob) -> String {
    format!("blobs/sha256/{}", blob.digest)
}

/// Adds a regular file to an archive.
fn put<W: Write>(
    tar: &mut TarWriter<W>,
    path: &str,
    len: u64,
    from: &mut dyn Read,
) -> io::Result<()> {
    let metadata = file_of(len);
    let data = 0..len;
    let ranges = &std::slice::from_ref(&data)[..usize::from(len > 0)];
    tar.entry(&plain_entry(path.as_bytes(), &metadata, ranges))?;
    let mut buffer = vec![0; BUFFER_LEN];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => tar.data(&buffer[..len])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    tar.end_entry()
}

/// Metadata of a regular file of the layout.
fn file_of(len: u64) -> Metadata {
    let never = Timestamp::default();
    Metadata {
        kind: InodeKind::File,
        permissions: 0o644,
        uid: 0,
        gid: 0,
        mtime: never,
        atime: never,
        ctime: never,
        btime: never,
        len,
        device: 0,
    }
}

fn plain_entry<'e>(
    path: &'e [u8],
    metadata: &'e Metadata,
    data: &'e [std::ops::Range<u64>],
) -> ArchiveEntry<'e> {
    ArchiveEntry {
        path,
        metadata,
        link_count: 1,
        inode: 0,
        xattrs: &[],
        target: &[],
        hard_link: None,
        data,
        content: 0,
        is_repeat: false,
    }
}

/// Adds a whiteout to the archive of a layer: what lower layers have at `path` is gone.
///
/// # Errors
/// The output fails.
pub fn whiteout(archive: &mut dyn Archive, path: &[u8]) -> io::Result<()> {
    let name_at = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let path = [&path[..name_at], b".wh.", &path[name_at..]].concat();
    let metadata = file_of(0);
    archive.entry(&plain_entry(&path, &metadata, &[]))?;
    archive.end_entry()
}

/// Hashes and counts what is written.
struct Hashed<W> {
    out: W,
    hasher: Sha256,
    len: u64,
}

impl<W> Hashed<W> {
    fn new(out: W) -> Self {
        Self { out, hasher: Sha256::new(), len: 0 }
    }

    fn digest(&self) -> String {
        hex::encode(&self.hasher.clone().finalize())
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        self.hasher.update(&bytes[..len]);
        self.len += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

struct Encoder<'w>(Box<dyn Finish + 'w>);

impl Write for Encoder<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Flushing before the end would only make the stream longer.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_valid_is_told() {
        let config = OciConfig::default();
        assert_eq!(config.check(), Ok(()));
        for platform in ["", "linux", "linux/", "a/b/c/d"] {
            assert!(OciConfig { platform: platform.to_owned(), ..config.clone() }.check().is_err());
        }
        for env in ["A", "=b"] {
            assert!(OciConfig { env: vec![env.to_owned()], ..config.clone() }.check().is_err());
        }
    }

    #[test]
    fn an_archive_has_each_blob_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        {
            let temporary = || tempfile::tempfile_in(folder.path());
            let mut layout = LayoutWriter::archive(Box::new(&mut out), Box::new(temporary));
            let mut layers = Vec::new();
            for _ in 0..2 {
                let write = |out: &mut (dyn Write + Send)| out.write_all(b"same");
                let layer = layout.layer("", (None, None), 1, write, |error| error).unwrap().0;
                layers.push(layer);
            }
            assert_eq!(layers[0], layers[1]);
            layout.image("one", &layers, &OciConfig::default()).unwrap();
            layout.image("two", &layers, &OciConfig::default()).unwrap();
            layout.finish().unwrap();
        }
        let blobs = out.windows(13).filter(|window| *window == b"blobs/sha256/").count();
        assert_eq!(blobs, 3, "a layer, a configuration and a manifest");
    }
}
