//! One file for each subcommand: it turns arguments into a call and the result into text.

mod select; // the entries that patterns select
pub mod parity; // parity
pub mod create; // sources into an image
pub mod tags; // a snapshot for each tag of images of containers
pub mod assemble; // what the commands that copy frames have in common
pub mod rewrite; // images anew, or with other metadata only
pub mod bundle; // one file that runs
pub mod append; // one more snapshot in an image
pub mod compact; // an image without what nothing needs
pub mod forget; // which snapshots are kept
pub mod merge; // several images as one
pub mod thin; // thin images, deltas and patches
pub mod split; // an image in parts
pub mod check; // checks for damage
pub mod mount; // mounts
pub mod serve; // images over HTTP and WebDAV
pub mod umount; // unmounts
pub mod mounts; // lists mounts
pub mod stats; // statistics of a mount
pub mod ls; // directories
pub mod tree; // directories as a tree
pub mod browse; // an image in a terminal
pub mod du; // sizes of directories
pub mod stat; // metadata of files
pub mod find; // entries that pass tests
pub mod grep; // files that contain a text
pub mod diff; // differences of two trees
pub mod snapshots; // snapshots of an image
pub mod cat; // contents of files
pub mod extract; // files out of an image
mod export_oci; // snapshots as images of containers
pub mod export; // an image into an archive
pub mod info; // size and storage of an image
pub mod sum; // checksums of files
pub mod report_page; // an HTML page about an image
pub mod repair; // repairs
pub mod sign; // keys and signatures
pub mod dump; // internal structures
#[cfg(feature = "remote")]
pub mod cache; // what is kept of images that are elsewhere
pub mod man; // man pages
