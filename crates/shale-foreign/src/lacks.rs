//! Words of errors about what only the caller can give or choose. Errors of entries are text, so a
//! caller that has an option for it finds these words in the text.

/// An entry or archive cannot be read without a password.
pub const PASSWORD: &str = "it is encrypted, and there is no password for it";
/// An archive holds several images of containers. A tag chooses one.
pub const TAG: &str = "it has several images";
/// The decompressor of an archive needs more memory than the caller allows.
pub const MEMORY: &str = "its decompressor needs more memory than is allowed";
/// It holds an image for several platforms. The name of one chooses it.
pub const PLATFORM: &str = "it has images for several platforms";
