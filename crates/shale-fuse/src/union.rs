//! Several views as one tree: later ones lie on top of earlier ones.
//!
//! A name is looked up in the layers from the top. The first layer that has it decides, except that
//! directories of the same path become one. A layer hides names of the layers below it by
//! *whiteouts*: a character device 0:0 under that name (overlayfs), or any entry `.wh.NAME` (OCI).
//! It hides everything below one of its directories if that directory is *opaque*: it has the
//! attribute `trusted.overlay.opaque` or `user.overlay.opaque` with the value `y`, or the entry
//! `.wh..wh..opq`. Whiteouts, names that begin with `.wh.`, and the attributes of overlayfs are not
//! part of the tree.
//!
//! Every layer has a range of inode numbers of its own, so that numbers are stable and hard links
//! within a layer stay hard links. A directory has the number of its topmost part.

mod layer; // one of the views
mod directory; // the parts of a merged directory
mod listing; // the entries of a merged directory

use crate::view::{Attributes, Entry, ROOT, Seek, Totals, View, ViewError, XattrUse};
use directory::{Directories, Directory};
use layer::{Layer, MARK, Part, is_directory, is_of_overlay, is_whiteout};
use listing::Listing;
use std::sync::Arc;

/// Most layers, which their keys of contents allow.
const LAYERS_MAX: usize = 1 << 15;

/// Several views as one tree.
pub struct Union {
    /// From the bottom to the top.
    layers: Vec<Layer>,
    root: Arc<Directory>,
    directories: Directories,
}

impl Union {
    /// Lays `views` on top of each other; the last one is on top. Asks each about its root.
    ///
    /// # Errors
    /// There are no views, or too many; the root of a view cannot be read.
    pub fn new(views: Vec<Arc<dyn View>>) -> Result<Self, ViewError> {
        if !(1..LAYERS_MAX).contains(&views.len()) {
            return Err(ViewError::NotFound);
        }
        let mut layers = Vec::with_capacity(views.len());
        let mut base = ROOT;
        for view in views {
            let inode_count = view.totals().inode_count;
            let has_xattrs = view.xattr_use().any;
            layers.push(Layer { view, base, inode_count, has_xattrs });
            let next = base.checked_add(inode_count);
            base = next.ok_or_else(|| ViewError::Damaged("too many inodes".to_owned()))?;
        }
        let mut parts = Vec::new();
        for (number, layer) in layers.iter().enumerate().rev() {
            parts.push(Part { layer: number, inode: ROOT });
            if layer.is_opaque(ROOT)? {
                break;
            }
        }
        let root = Arc::new(Directory::new(ROOT, parts));
        Ok(Self { layers, root, directories: Directories::default() })
    }

    /// Returns the layer of a number, and the inode there.
    fn locate(&self, number: u64) -> Result<(&Layer, u64), ViewError> {
        let after = self.layers.partition_point(|layer| layer.base < number);
        let layer = match number {
            // The attributes of the root are those of the topmost one.
            ROOT => self.layers.last().map(|layer| (layer, ROOT)),
            _ => after.checked_sub(1).map(|at| (&self.layers[at], number - self.layers[at].base)),
        };
        layer.filter(|(layer, inode)| *inode <= layer.inode_count).ok_or(ViewError::NotFound)
    }

    /// Returns the parts of a directory.
    fn directory(&self, number: u64) -> Result<Arc<Directory>, ViewError> {
        if number == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        if let Some(directory) = self.directories.get(number) {
            return Ok(directory);
        }
        let (layer, inode) = self.locate(number)?;
        if !is_directory(&layer.view.attributes(inode)?) {
            return Err(ViewError::NotDirectory);
        }
        let path = layer.view.path(inode);
        let path = path.ok_or_else(|| ViewError::Damaged("its path is not known".to_owned()))?;
        let mut directory = Arc::clone(&self.root);
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            match self.find(&directory, name)? {
                Some(FoundName { directory: Some(below), .. }) => directory = below,
                _ => return Err(ViewError::NotFound),
            }
        }
        // Another directory lies at this path, and hides the one that was meant.
        if directory.number != number {
            return Err(ViewError::NotFound);
        }
        Ok(directory)
    }

    /// Finds a name in a directory. Remembers the parts of a directory that it finds.
    fn find(&self, within: &Directory, name: &[u8]) -> Result<Option<FoundName>, ViewError> {
        if name.starts_with(MARK) {
            return Ok(None);
        }
        let mut topmost: Option<Attributes> = None;
        let mut parts = Vec::new();
        let last = within.parts.len() - 1;
        for (index, part) in within.parts.iter().enumerate() {
            let layer = &self.layers[part.layer];
            match layer.view.lookup(part.inode, name)? {
                Some(found) if is_whiteout(&found) => break,
                Some(found) if is_directory(&found) => {
                    layer.check_whole(found.inode)?;
                    parts.push(Part { layer: part.layer, inode: found.inode });
                    if topmost.is_none() {
                        topmost = Some(layer.ours(found)?);
                    }
                    if index < last && layer.is_opaque(found.inode)? {
                        break;
                    }
                }
                Some(found) => {
                    if topmost.is_none() {
                        let attributes = layer.ours(found)?;
                        return Ok(Some(FoundName { attributes, directory: None }));
                    }
                    break;
                }
                None => {}
            }
            if index < last && layer.hides(part.inode, name)? {
                break;
            }
        }
        let Some(attributes) = topmost else { return Ok(None) };
        let directory = match self.directories.get(attributes.inode) {
            Some(known) => known,
            None => self.directories.add(Directory::new(attributes.inode, parts)),
        };
        Ok(Some(FoundName { attributes, directory: Some(directory) }))
    }
}

/// A name that was found.
struct FoundName {
    attributes: Attributes,
    /// The parts of a directory; `None` for other kinds.
    directory: Option<Arc<Directory>>,
}

impl View for Union {
    fn attributes(&self, inode: u64) -> Result<Attributes, ViewError> {
        let (layer, inode) = self.locate(inode)?;
        layer.ours(layer.view.attributes(inode)?)
    }

    fn lookup(&self, directory: u64, name: &[u8]) -> Result<Option<Attributes>, ViewError> {
        let within = self.directory(directory)?;
        Ok(self.find(&within, name)?.map(|found| found.attributes))
    }

    fn parent(&self, directory: u64) -> Result<u64, ViewError> {
        if directory == ROOT {
            return Ok(ROOT);
        }
        let (layer, inode) = self.locate(directory)?;
        let parent = layer.view.parent(inode)?;
        if parent == ROOT {
            return Ok(ROOT);
        }
        // A layer further up may have that directory, too, and then gives it its number.
        let path = layer.view.path(parent);
        let path = path.ok_or_else(|| ViewError::Damaged("its path is not known".to_owned()))?;
        let mut above = Arc::clone(&self.root);
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            match self.find(&above, name)? {
                Some(FoundName { directory: Some(below), .. }) => above = below,
                _ => return Err(ViewError::NotFound),
            }
        }
        Ok(above.number)
    }

    fn list(
        &self,
        directory: u64,
        first: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), ViewError> {
        let directory = self.directory(directory)?;
        let listing = match directory.listing() {
            Some(listing) => listing,
            None => {
                let listing = Listing::of(&self.layers, &directory.parts)?;
                self.directories.keep(&directory, listing)
            }
        };
        listing.each(&self.layers, &directory.parts, first, each)
    }

    fn link_target(&self, inode: u64) -> Result<Vec<u8>, ViewError> {
        let (layer, inode) = self.locate(inode)?;
        layer.view.link_target(inode)
    }

    fn xattr_names(&self, inode: u64, each: &mut dyn FnMut(&[u8])) -> Result<(), ViewError> {
        let (layer, inode) = self.locate(inode)?;
        layer.view.xattr_names(inode, &mut |name| {
            if !is_of_overlay(name) {
                each(name);
            }
        })
    }

    fn xattr(&self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, ViewError> {
        if is_of_overlay(name) {
            return Ok(None);
        }
        let (layer, inode) = self.locate(inode)?;
        layer.view.xattr(inode, name)
    }

    fn read(&self, inode: u64, offset: u64, buf: &mut [u8]) -> Result<usize, ViewError> {
        let (layer, inode) = self.locate(inode)?;
        layer.check_whole(inode)?;
        layer.view.read(inode, offset, buf)
    }

    fn read_ready(&self, inode: u64, buf: &mut [u8]) -> Result<bool, ViewError> {
        let (layer, inode) = self.locate(inode)?;
        layer.check_whole(inode)?;
        layer.view.read_ready(inode, buf)
    }

    fn seek(&self, inode: u64, offset: u64, what: Seek) -> Result<Option<u64>, ViewError> {
        let (layer, inode) = self.locate(inode)?;
        layer.view.seek(inode, offset, what)
    }

    fn totals(&self) -> Totals {
        let mut sum = Totals { len: 0, inode_count: 1 };
        for totals in self.layers.iter().map(|layer| layer.view.totals()) {
            sum.len = sum.len.saturating_add(totals.len);
            sum.inode_count = sum.inode_count.saturating_add(totals.inode_count);
        }
        sum
    }

    fn xattr_use(&self) -> XattrUse {
        let none = XattrUse { any: false, acl: false, trusted: false };
        self.layers.iter().fold(none, |sum, layer| {
            let of = layer.view.xattr_use();
            XattrUse {
                any: sum.any | of.any,
                acl: sum.acl | of.acl,
                trusted: sum.trusted | of.trusted,
            }
        })
    }

    fn generation(&self) -> u32 {
        self.layers.iter().fold(0x554E_494F, |hash: u32, layer| {
            hash.rotate_left(5).wrapping_mul(0x0100_0193) ^ layer.view.generation()
        })
    }

    fn id(&self) -> [u8; 16] {
        let fold =
            |hash: u128, layer: &Layer| hash.rotate_left(11) ^ u128::from_le_bytes(layer.view.id());
        self.layers.iter().fold(0x554E_494F, fold).to_le_bytes()
    }

    fn path(&self, inode: u64) -> Option<Vec<u8>> {
        let (layer, inode) = self.locate(inode).ok()?;
        layer.view.path(inode)
    }

    fn layout(&self, inode: u64) -> Result<Option<String>, ViewError> {
        let (layer, inode) = self.locate(inode)?;
        layer.view.layout(inode)
    }

    fn content_key(&self, inode: u64) -> Result<u64, ViewError> {
        const KEY_BITS: u32 = 48;
        let (layer, theirs) = self.locate(inode)?;
        let key = layer.view.content_key(theirs)?;
        let number = self.layers.partition_point(|other| other.base < layer.base) as u64;
        // Layers do not share contents. A key that is too large for this is not shared at all.
        Ok(match key >> KEY_BITS {
            0 => number << KEY_BITS | key,
            _ => 1 << 63 | inode,
        })
    }

    fn rest(&self) {
        self.directories.clear();
        self.layers.iter().for_each(|layer| layer.view.rest());
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut sum: Vec<(&'static str, u64)> = Vec::new();
        for (name, value) in self.layers.iter().flat_map(|layer| layer.view.counters()) {
            match sum.iter_mut().find(|(known, _)| *known == name) {
                // The layers of a mount share the cache of frames.
                Some((_, known)) if name == "frame_cache_bytes" => *known = value.max(*known),
                Some((_, known)) => *known = known.saturating_add(value),
                None => sum.push((name, value)),
            }
        }
        sum
    }
}
