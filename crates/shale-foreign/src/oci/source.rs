//! The layers of an image as one source.

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use shale_codec::Hasher;
use shale_model::{EntrySource, InodeKind, Problem, Select, SourceEntry, SourceError};

use super::blobs::Blobs;
use super::fault::fault;
use super::manifest::{Image, Layer, LayerDigest};
use super::tree::{Fate, Fates, LayerEntry, LayeredTree, NewLayer, is_mark};
use crate::compression::Compression;
use crate::error::ForeignError;
use crate::selection::Selection;
use crate::stream::Input;
use crate::tar::{TarOptions, TarSource};

/// Bytes of a layer that tell how it is compressed.
const MAGIC_LEN: u64 = 16;

/// An image of a container, as one tree.
pub(super) struct OciSource {
    /// What errors call the image.
    name: Vec<u8>,
    blobs: Arc<Blobs>,
    layers: Vec<Layer>,
    seed: [u8; 32],
    fates: Fates,
    /// The layer that is read, and the number of its next entry.
    current: Option<TarSource>,
    next: LayerEntry,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

impl OciSource {
    /// Checks the digests of all layers, and finds out what is left of each.
    ///
    /// # Errors
    /// A layer is missing, damaged, or no tar archive.
    pub(super) fn new(
        name: &[u8],
        blobs: Arc<Blobs>,
        image: Image,
        select: Option<Arc<dyn Select>>,
    ) -> Result<Self, ForeignError> {
        let mut tree = LayeredTree::default();
        let mut first_names = HashMap::new();
        let mut hasher = Hasher::new();
        hasher.update(b"container image");
        hasher.update(image.digest.hex().as_bytes());
        for (number, layer) in (0..).zip(&image.layers) {
            check(&blobs, layer)?;
            let (LayerDigest::Stored(digest) | LayerDigest::Plain(digest)) = &layer.digest;
            hasher.update(digest.hex().as_bytes());
            let mut new = NewLayer::new(number);
            let Some(mut archive) = open(&blobs, layer)? else { continue };
            let mut sequence = 0;
            while let Some(entry) = archive.next_entry().map_err(|e| of_layer(layer, &e))? {
                let kind = entry.metadata.kind;
                let inode = entry.link.map(|link| link.inode);
                if let Some(inode) = inode {
                    first_names.entry((number, inode)).or_insert(sequence);
                }
                new.add(&entry.path, sequence, inode, kind);
                sequence += 1;
            }
            tree.put(new)?;
        }
        let mut selection = Selection::new(select);
        tree.retain(|path, kind| selection.takes(path, kind));
        Ok(Self {
            name: name.to_vec(),
            fates: tree.fates(&first_names),
            blobs,
            layers: image.layers,
            seed: *hasher.finalize().as_bytes(),
            current: None,
            next: LayerEntry { layer: 0, sequence: 0 },
            problems: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Ends the layer that is read.
    fn end_layer(&mut self) {
        if let Some(mut ended) = self.current.take() {
            self.problems.extend(problems_of(&mut ended));
            self.warnings.extend(ended.take_warnings());
        }
        self.next = LayerEntry { layer: self.next.layer + 1, sequence: 0 };
    }

    fn advance(&mut self) -> Result<Option<SourceEntry>, ForeignError> {
        loop {
            let Some(layer) = self.layers.get(self.next.layer as usize) else { return Ok(None) };
            if self.current.is_none() {
                self.current = open(&self.blobs, layer)?;
            }
            let entry = match &mut self.current {
                Some(archive) => archive.next_entry().map_err(|e| of_layer(layer, &e))?,
                None => None,
            };
            let Some(mut entry) = entry else {
                self.end_layer();
                continue;
            };
            let place = self.next;
            self.next.sequence += 1;
            match self.fates.of(place) {
                Some(Fate::Kept) if !is_mark(&entry.path) => {}
                Some(Fate::Named(path)) => entry.path.clone_from(path),
                _ => continue,
            }
            if let Some(link) = &mut entry.link {
                link.device = u64::from(place.layer);
            }
            debug_assert!(entry.link.is_some() || entry.metadata.kind == InodeKind::Directory);
            return Ok(Some(entry));
        }
    }
}

impl EntrySource for OciSource {
    fn seed(&self) -> [u8; 32] {
        self.seed
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        self.advance().map_err(|error| error.into_source(&self.name))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        let mut problems = std::mem::take(&mut self.problems);
        if let Some(current) = &mut self.current {
            problems.extend(problems_of(current));
        }
        problems
    }

    fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

/// The problems of a layer, without those of whiteouts: umoci writes whiteouts below a path that is
/// a file in the same layer, and the file hides all that is below it anyway.
fn problems_of(archive: &mut TarSource) -> impl Iterator<Item = Problem> {
    archive.take_problems().into_iter().filter(|problem| !is_mark(&problem.path))
}

/// Names the layer in an error of its archive.
fn of_layer(layer: &Layer, error: &SourceError) -> ForeignError {
    let text = error.to_string();
    match text.contains(&layer.path) {
        true => fault(text),
        false => fault(format!("{}: {text}", layer.path)),
    }
}

/// Opens a layer decompressed; the second value says how it is compressed.
fn plain(
    blobs: &Blobs,
    layer: &Layer,
) -> Result<(Box<dyn Read + Send>, Option<Compression>), ForeignError> {
    let missing = || {
        let what =
            format!("the layer {} is missing; the image was not copied as a whole", layer.path);
        fault(what)
    };
    let mut stream = blobs.open(&layer.path)?.ok_or_else(missing)?.stream;
    let mut head = Vec::new();
    let read = stream.by_ref().take(MAGIC_LEN).read_to_end(&mut head);
    read.map_err(|error| fault(format!("cannot read {}: {error}", layer.path)))?;
    let compression = Compression::detect(&head);
    Ok((Box::new(Cursor::new(head).chain(stream)), compression))
}

/// Checks that a layer is what its digest says.
fn check(blobs: &Blobs, layer: &Layer) -> Result<(), ForeignError> {
    let (stream, compression) = plain(blobs, layer)?;
    match (&layer.digest, compression) {
        (LayerDigest::Stored(digest), _) | (LayerDigest::Plain(digest), None) => {
            digest.check(stream, &layer.path)
        }
        (LayerDigest::Plain(digest), Some(compression)) => {
            let failed = |error| fault(format!("cannot decompress {}: {error}", layer.path));
            digest.check(compression.decoder(stream).map_err(failed)?, &layer.path)
        }
    }
}

/// Opens the archive of a layer; `None` if it is empty.
fn open(blobs: &Blobs, layer: &Layer) -> Result<Option<TarSource>, ForeignError> {
    let (stream, compression) = plain(blobs, layer)?;
    let failed = |error: SourceError| of_layer(layer, &error);
    let input = Input::open(Path::new(&layer.path), stream, compression).map_err(failed)?;
    if input.head.is_empty() {
        return Ok(None);
    }
    TarSource::read(input, TarOptions::default()).map(Some).map_err(failed)
}
