//! What the promises of ShaleFS are tested with: trees, an oracle, the command, fuzz bodies.
//!
//! The tests themselves are in `tests/`, one file a promise. Nothing here is part of the product,
//! and the oracle shares no code with it: it sees trees through system calls only.

/// A small seeded generator of numbers and bytes.
pub mod random;
/// A tree as a list in memory, and how it becomes a tree on disk.
pub mod model;
/// The nasty tree: everything that is hard to keep.
pub mod nasty;
/// The oracle: what a tree is, as a sorted list that can be compared.
pub mod manifest;
/// What other formats and programs keep of a tree.
pub mod keep;
/// The `shale` command, its mounts, and other programs.
pub mod command;
/// Waits for events of the system.
pub mod wait;
/// All that a reader says about an image, as facts that can be compared.
pub mod walk;
/// Damage by chance, and the rule that every answer of a damaged image has to keep.
pub mod damage;
/// Bodies of the fuzz targets.
pub mod fuzz;
/// The oracle's view of an image through the library.
pub mod image;
/// The differential stress: a copy of a tree and the tree itself asked the same.
pub mod differential;
/// What reading an image costs, counted.
pub mod reads;
/// A limit on the memory of a process.
pub mod cgroup;
/// Importers against the programs that know the formats.
pub mod against;
/// Places where test trees are made.
pub mod places;
/// Seeds of the fuzz targets.
pub mod seeds;
/// A second reader of images, from the specification alone.
pub mod second_reader;
/// tar archives made by hand.
pub mod tar;
/// Images made by hand, for golden images of what the product does not write.
pub mod handmade;
/// Bodies of the fuzz targets of importers.
pub mod importers;
