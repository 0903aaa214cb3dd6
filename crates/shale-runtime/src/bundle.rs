//! The file that this program is the start of: its header, and where the image begins.
//!
//! Everything is read from `/proc/self/exe`, which stays the same file if another one gets its
//! name.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

use shale_codec::digest::xxh3_128;
use shale_format::Bundle;
use shale_format::FormatError;
use shale_format::bundle::{BUNDLE_BLOCK_LEN, EXECUTABLE_HEAD_LEN, bundle_offset, executable_len};
use shale_read::{FileSource, FrameCache, Identity, Image, OffsetChoice, Options, Workers};

use crate::failure::{During, Failure};

/// The running executable.
pub const OWN: &str = "/proc/self/exe";
/// Memory for decoded frames. The kernel caches what it was given, so this is for references.
const CACHE_BYTES_MAX: u64 = 96 << 20;
/// Memory for table pages.
const PAGE_BYTES_MAX: u64 = 32 << 20;

/// The bundle that runs.
pub struct OwnBundle {
    file: File,
    /// Absolute path of the file, without symlinks.
    pub path: PathBuf,
    /// The header.
    pub header: Bundle,
    /// Where the image begins in the file.
    pub image_offset: u64,
}

impl OwnBundle {
    /// Opens the bundle and reads its header.
    ///
    /// # Errors
    /// The executable cannot be read, nothing follows it, or the header is damaged.
    pub fn open() -> Result<Self, Failure> {
        let path = std::fs::read_link(OWN).during(format_args!("find {OWN}; is /proc mounted?"))?;
        let file = File::open(OWN).during(format_args!("read {}", path.display()))?;
        let file_len = file.metadata().during("look at the own file")?.len();
        let mut head = [0; EXECUTABLE_HEAD_LEN];
        file.read_exact_at(&mut head, 0).during("read the own head")?;
        let bare = || {
            Failure::new(
                "this is the bare runtime, and no image follows it: `shale bundle DIR -o FILE \
                 --run PROGRAM` makes a file that runs",
            )
        };
        let offset = executable_len(&head).and_then(bundle_offset).ok_or_else(bare)?;
        if offset >= file_len {
            return Err(bare());
        }
        let mut block = [0; BUNDLE_BLOCK_LEN];
        let len = (file_len - offset).min(BUNDLE_BLOCK_LEN as u64) as usize;
        file.read_exact_at(&mut block[..len], offset).during("read the bundle header")?;
        let header = Bundle::decode(&block[..len], shale_codec::xxh3_64);
        let header = header.map_err(|error| match error {
            FormatError::Field { field: "version", .. } => Failure::new(format!(
                "{error}: the bundle and its runtime are of different versions"
            )),
            _ => Failure::new(format!("{error}: the file is damaged, so get it again")),
        })?;
        Ok(Self { file, path, header, image_offset: offset + BUNDLE_BLOCK_LEN as u64 })
    }

    /// Opens the image: as one with the identity `expect` only, if that is given, and with
    /// `thread_count` threads that decode ahead.
    ///
    /// # Errors
    /// The image is damaged, of a newer version, or has another identity.
    pub fn image(
        &self,
        expect: Option<Identity>,
        thread_count: Option<usize>,
    ) -> Result<Arc<Image>, Failure> {
        let file = File::open(OWN).during("open the own file")?;
        let source = FileSource::new(file).during("read the own file")?;
        let mut options = Options::default()
            .offset(OffsetChoice::At(self.image_offset))
            .cache(FrameCache::new(CACHE_BYTES_MAX))
            .page_cache_bytes_max(PAGE_BYTES_MAX)
            .expect(expect);
        if let Some(count) = thread_count {
            options = options.workers(Workers::new(count));
        }
        let image = Image::open(Arc::new(source), options);
        image.map_err(|error| Failure::new(format!("the image in the bundle: {error}")))
    }

    /// Asks the kernel to read ahead what a start reads.
    pub fn warm(&self) {
        /// More than any start reads at once, and less than hurts a machine with little memory.
        const WARM_LEN_MAX: u64 = 64 << 20;
        let len = std::num::NonZeroU64::new(self.header.warm_len.min(WARM_LEN_MAX));
        if let Some(len) = len {
            let advice = rustix::fs::Advice::WillNeed;
            let _ = rustix::fs::fadvise(&self.file, self.image_offset, Some(len), advice);
        }
    }

    /// Returns what distinguishes a mount of this file from mounts of others: 32 digits that change
    /// with the file, its content and the identity that is expected.
    ///
    /// # Errors
    /// The file cannot be looked at.
    pub fn key(&self, expect: Option<Identity>) -> Result<String, Failure> {
        let found = self.file.metadata().during("look at the own file")?;
        let numbers = [
            found.dev().cast_signed(),
            found.ino().cast_signed(),
            found.size().cast_signed(),
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec(),
        ];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend(expect.map_or([0; 32], |identity| identity.0));
        Ok(format!("{:032x}", xxh3_128(&bytes)))
    }
}
