//! Contents of files: read, deduped, and where their bytes are.

pub(crate) mod gear; // a rolling hash, and hashes of windows
pub(crate) mod sound; // WAV, AIFF and other files of sound
pub(crate) mod fits; // headers of FITS files
pub(crate) mod pictures; // files of one uncompressed picture or array
pub(crate) mod samples; // the samples in a content
pub(crate) mod categorize; // what kind of data a content is
pub(crate) mod read; // bytes, holes, zero runs and digest in one pass
pub(crate) mod extents; // from content space to stream space
pub(crate) mod chunks; // deflate streams, rebuilt from contents
pub(crate) mod relocation; // from one space to another
pub(crate) mod tags; // which contents of the image that is continued are not the same
pub(crate) mod dedupe; // every distinct content once
