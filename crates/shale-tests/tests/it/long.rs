//! Promises whose tests take minutes or need root, a network or FUSE. `make check` leaves them out.

mod round_trip; // what was packed comes back
mod determinism; // same input, same bytes
mod debian; // a whole Debian system comes back
mod extremes; // so does what is far beyond the usual
mod kernel_view; // the kernel view is the same tree
mod snapshots; // all snapshots of an image, and several images as one
mod confined; // a driver gives up what it does not need
mod forest; // a directory of a million entries
mod faulty_source; // a source that fails
mod stress; // many readers at once
mod small_files; // few requests for many small files
mod memory; // a build stays within its memory
mod damage_random; // damage by chance
mod killed; // commands that are killed
mod as_user; // what an ordinary user may have
mod foreign; // images and archives of other formats
mod export; // an image as an archive
mod export_images; // an image as EROFS, ISO 9660 and 7z
mod containers; // images of containers
mod more_cases; // what a quick run only samples
