//! The real binary, command by command: what it prints, for people and machines, what it leaves on
//! the disk, and which exit code it ends with.
//!
//! Whether contents and attributes come back whole is for the promise tests of the workspace; here
//! it is about the command.

mod bad; // wrong images, outputs and words
mod extract; // policies, patterns, damage, links in the way
mod listing; // ls, tree, stat, cat, info, dump, check
mod order; // where contents come to lie
mod hot_log; // what a mount lists for the next image
mod mount; // background, foreground, other names of the program
mod signal; // what is ignored stays ignored
mod threads; // where few are to be had
mod install; // where `make install` puts things
mod stage; // a folder with a tree and its image, and how to run the command
