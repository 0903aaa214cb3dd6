//! All files of an image as one source.

use std::path::Path;
use std::sync::Arc;

use shale_codec::xxh3_64;
use shale_format::limits::THIN_DEPTH_MAX;
use shale_format::thin::THIN_HEAD_LEN_MAX;
use shale_format::{FormatError, ThinHead};

use crate::error::{ErrorContext, Fault, ReadError};
use crate::files::base::{BaseFacts, start_in};
use crate::files::parts::{Joined, PartName};
use crate::files::place::{Bases, FilePlace, Place};
use crate::storage::joined::JoinedSource;
use crate::storage::source::ByteSource;

/// Files that are tried as bases for one image, however they refer to each other.
const TRIED_MAX: usize = 64;
/// Bytes of the reasons why files are not the base, in a message.
const TRIED_TEXT_MAX: usize = 1200;

/// An image in one source.
pub struct Gathered {
    /// The bytes of the image.
    pub source: Arc<dyn ByteSource>,
    /// The base, if the image is thin.
    pub base: Option<BaseFacts>,
    /// Number of parts of the file that was named; 1 if it was not split.
    pub parts: u32,
}

/// Finds all files of the image whose first file is `first`, at `place`. Looks for the base of a
/// thin image among `bases`, which may be directories, and then beside it.
///
/// One read if it is an image in one file; a few reads more for each base and each part.
///
/// # Errors
/// A part is missing or wrong, the base is missing or another, a head is damaged, or a file cannot
/// be read.
pub fn gather(
    first: Arc<dyn ByteSource>,
    place: &dyn Place,
    bases: &Bases,
) -> Result<Gathered, ReadError> {
    Gatherer { bases, tried: 0, above: Vec::new() }.gather(first, place)
}

/// Opens all files of the image whose file, or whose first part, is at `path`. The base of a thin
/// image is looked for beside it.
///
/// # Errors
/// [`Fault::Open`] if the file cannot be opened; otherwise as [`gather`].
pub fn open_file(path: impl AsRef<Path>) -> Result<Gathered, ReadError> {
    let place = FilePlace::new(&path);
    match place.open() {
        Ok(source) => gather(source, &place, &Bases::default()),
        Err(error) => Err(Fault::Open { path: path.as_ref().to_owned(), error }.into()),
    }
}

struct Gatherer<'b> {
    bases: &'b Bases,
    /// Files that were tried as bases.
    tried: usize,
    /// Keys of the files whose base is looked for now, the named one first. Their number is the
    /// depth: none of them is the base of itself.
    above: Vec<String>,
}

impl Gatherer<'_> {
    /// As [`gather`].
    fn gather(
        &mut self,
        first: Arc<dyn ByteSource>,
        place: &dyn Place,
    ) -> Result<Gathered, ReadError> {
        let name = PartName::parse(&place.name());
        let joined = name.map(|name| Joined::open(Arc::clone(&first), place, &name)).transpose()?;
        let file = joined.as_ref().map_or(first, |joined| Arc::clone(&joined.source));
        let Some(head) = head_of(&*file)? else {
            if let Some(joined) = &joined {
                joined.check(&file, (0, 0))?;
            }
            return Ok(Gathered { source: file, base: None, parts: parts_of(place, &joined) });
        };
        self.above.push(place.key());
        let found = self.base(&head, place);
        self.above.pop();
        let (base, start, found) = found?;
        let ranges = vec![
            (base.source, start..start + head.base_len),
            (Arc::clone(&file), head.len()..file.len()),
        ];
        let joint = JoinedSource::new(ranges, head.base_len);
        let joint = joint.map_err(|error| Fault::Io { offset: 0, len: head.base_len, error })?;
        let source: Arc<dyn ByteSource> = Arc::new(joint);
        if let Some(joined) = &joined {
            joined.check(&source, (head.len(), head.base_len))?;
        }
        let facts = BaseFacts {
            base_len: head.base_len,
            identity: head.base_identity,
            head_len: head.len(),
            name: head.base_name,
            found,
            base: base.base.map(Box::new),
        };
        Ok(Gathered { source, base: Some(facts), parts: parts_of(place, &joined) })
    }

    /// Finds the base of a thin image: its source, where it begins there, and its place in words.
    fn base(
        &mut self,
        head: &ThinHead,
        place: &dyn Place,
    ) -> Result<(Gathered, u64, String), ReadError> {
        let missing = |tried: String| -> ReadError {
            Fault::NoBase {
                name: head.base_name.escape_ascii().to_string(),
                base_len: head.base_len,
                identity: head.base_identity,
                tried,
            }
            .into()
        };
        if self.above.len() > THIN_DEPTH_MAX {
            return Err(missing(format!(
                "nothing more, as it would be a chain of more than {THIN_DEPTH_MAX} thin images"
            )));
        }
        let name = &head.base_name[..];
        let mut places: Vec<Arc<dyn Place>> = Vec::new();
        for base in &self.bases.0 {
            places.push(base.inside(name).unwrap_or_else(|| Arc::clone(base)));
        }
        if !name.is_empty() {
            places.push(place.beside(name));
        }
        let mut tried = String::new();
        for place in places {
            if self.tried >= TRIED_MAX {
                return Err(missing(format!("{TRIED_MAX} files")));
            }
            self.tried += 1;
            match self.fit(head, &*place) {
                Ok((base, start)) => return Ok((base, start, place.shown())),
                Err(why) => {
                    let separator = if tried.is_empty() { "" } else { "; " };
                    tried += &format!("{separator}{}: {why}", place.shown());
                }
            }
        }
        if tried.is_empty() {
            tried = "no file, as the image does not name one".to_owned();
        }
        if tried.len() > TRIED_TEXT_MAX {
            let end = (0..=TRIED_TEXT_MAX).rev().find(|&at| tried.is_char_boundary(at));
            tried.truncate(end.unwrap_or(0));
            tried += " …";
        }
        Err(missing(tried))
    }

    /// Opens a file as the base, or returns why it is not.
    fn fit(&mut self, head: &ThinHead, place: &dyn Place) -> Result<(Gathered, u64), String> {
        if self.above.contains(&place.key()) {
            return Err("it needs a base itself, and would be its own".to_owned());
        }
        let source = place.open().map_err(|error| error.to_string())?;
        let base = self.gather(source, place).map_err(|error| error.to_string())?;
        let start = start_in(&base.source, head)?;
        Ok((base, start))
    }
}

fn parts_of(place: &dyn Place, joined: &Option<Joined>) -> u32 {
    let name = PartName::parse(&place.name()).filter(|_| joined.is_some());
    name.map_or(1, |name| name.count)
}

/// Reads the head of a thin image; `None` if the file is not thin.
fn head_of(file: &dyn ByteSource) -> Result<Option<ThinHead>, ReadError> {
    let mut bytes = vec![0; file.len().min(THIN_HEAD_LEN_MAX as u64) as usize];
    if !bytes.is_empty() {
        let len = bytes.len() as u64;
        file.read_at(0, &mut bytes).map_err(|error| Fault::Io { offset: 0, len, error })?;
    }
    match ThinHead::decode(&bytes, xxh3_64) {
        // Whoever opens it as an image says so, and may look for parity first.
        Err(FormatError::Version { .. } | FormatError::Features { .. }) => Ok(None),
        found => found.at(|| "head of a thin image".to_owned()),
    }
}
