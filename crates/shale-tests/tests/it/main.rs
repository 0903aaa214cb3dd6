//! The promises of ShaleFS across its crates, one module each, in one program.
//!
//! A module changes no state of the process that another one uses: no current directory,
//! environment, umask or limit. What it measures is a process of its own. A test that cannot keep
//! to this is a program beside this folder.

mod long; // promises that take minutes, root, a network or FUSE: left out by `make check`
mod reads; // what reading decodes
mod redundancy; // what is there twice is stored once
mod golden; // images of earlier versions
mod samples; // sound and pictures as residuals
mod specification; // a second reader, written from the specification
mod vectors; // each step of reading an image
mod open; // where an image is found
mod damage; // damage is never data
mod salvage; // what parity does not cover
mod fuzz_smoke; // any bytes
mod bad_input; // messages, exit codes and what is left behind
mod choose; // what is taken of a source
mod append; // images that grow
mod thin; // images over others
mod append_safety; // and what ends that early
mod append_killed; // and what kills that at each of its writes
mod recompress; // compressed files as what is in them
mod assemble; // copies of images, in part or together
mod tar; // tar, in and out
mod archives; // archives that are refused, and why
mod against; // importers against the programs that know the formats
