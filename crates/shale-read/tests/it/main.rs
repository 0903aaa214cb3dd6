//! Tests of the crate through its public interface, in one program.

mod assemble; // images put together row by row, honest and hostile
mod open; // where images are found
mod identity; // images read under an expected identity
mod frames; // frames decoded once, within bounds
mod parts; // frames decoded in part
mod ahead; // frames decoded ahead and beside
mod content; // ranges and holes of files
mod far; // what is asked for ahead of a source that is far away
mod rebuilt; // deflate streams, rebuilt from contents
mod tree; // names, attributes, links and xattrs
mod order; // a directory has one name
mod end_to_end; // images of the real writer
mod damage; // each byte flipped, each cut
mod hostile; // right checksums, harmful rows
mod scrambled; // right checksums, scrambled rows
