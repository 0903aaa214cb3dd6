//! Bodies about images in several files: thin images and names of parts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shale_codec::xxh3_64;
use shale_format::thin::THIN_HEAD_LEN_MAX;
use shale_format::{Identity, ThinHead};
use shale_read::files::{Bases, PartName, Place, gather};
use shale_read::{ByteSource, MemorySource};

use crate::walk::{facts, small_options};

/// The base that any thin image may name.
const BASE: &[u8] = include_bytes!("../../../../testdata/images/0.3-tiny.shale");

/// Bytes in memory at a place that leads to the base, and to itself.
struct Memory {
    bytes: Vec<u8>,
}

impl Place for Memory {
    fn open(&self) -> io::Result<Arc<dyn ByteSource>> {
        Ok(Arc::new(MemorySource::new(self.bytes.clone())))
    }

    fn name(&self) -> Vec<u8> {
        b"thin".to_vec()
    }

    fn beside(&self, name: &[u8]) -> Arc<dyn Place> {
        assert!(!name.contains(&b'/') && name != b"..", "a name leads elsewhere");
        // An even name is the base, an odd one the file itself: a circle.
        let bytes = if name.len().is_multiple_of(2) { BASE.to_vec() } else { self.bytes.clone() };
        Arc::new(Self { bytes })
    }

    fn shown(&self) -> String {
        "memory".to_owned()
    }

    /// No file is known again, so that a circle goes on to the limit.
    fn key(&self) -> String {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        COUNT.fetch_add(1, Relaxed).to_string()
    }
}

/// Takes any bytes as a thin image, with its sums made right, and reads all of it. The second time
/// its head leads to a base that fits, so that a search gets behind it.
pub fn thin(bytes: &[u8]) {
    if let Some(name) = PartName::parse(bytes) {
        assert_eq!(name.to_bytes(), bytes, "a part has two names");
    }
    let mut image = bytes.to_vec();
    super::mend_sums(&mut image);
    read(&image);
    let head = &image[..image.len().min(THIN_HEAD_LEN_MAX)];
    let Ok(Some(found)) = ThinHead::decode(head, xxh3_64) else { return };
    let again = found.encode(xxh3_64).expect("what was decoded can be encoded");
    assert_eq!(again.len() as u64, found.len());
    let whole = shale_read::Image::open(Arc::new(MemorySource::new(BASE)), small_options());
    let whole = whole.expect("the golden image opens");
    let (_, identity) = whole.identity().expect("it is whole").expect("it has an identity");
    let fitting = ThinHead {
        image_id: whole.superblock().image_id,
        base_len: whole.len(),
        base_identity: Identity(identity.0),
        base_name: b"base".to_vec(),
    };
    let tail = image.get(found.len() as usize..).unwrap_or_default();
    read(&[&fitting.encode(xxh3_64).expect("it is a name")[..], tail].concat());
}

fn read(bytes: &[u8]) {
    let place = Memory { bytes: bytes.to_vec() };
    let source = place.open().expect("memory opens");
    let Ok(found) = gather(source, &place, &Bases::default()) else { return };
    if let Some(base) = &found.base {
        assert!(found.source.base_len() == base.base_len && base.depth() <= 8);
    }
    let Ok(facts_now) = facts(found.source.clone(), small_options()) else { return };
    let again = facts(found.source, small_options());
    assert!(again.is_ok_and(|again| again.answers == facts_now.answers));
}

/// A thin image over the base: one more snapshot that has nothing new would do, but a file gives a
/// search more to change.
pub fn thin_seeds() -> Vec<Vec<u8>> {
    let folder = crate::places::disk();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("source")).expect("the folder is new");
    std::fs::write(path("source/file"), "a new file\n".repeat(40)).expect("the folder is there");
    std::fs::write(path("base"), BASE).expect("the folder is there");
    let mut command = crate::command::shale(["create", "-q"]);
    command.arg(path("source")).arg("--base").arg(path("base")).arg("-o").arg(path("thin"));
    crate::command::expect_code(&mut command, 0);
    vec![std::fs::read(path("thin")).expect("it was made"), b"a.02-of-12".to_vec()]
}
