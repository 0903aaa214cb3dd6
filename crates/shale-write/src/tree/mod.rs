//! Names and attributes: taken in in any order, read in the order of the tables.

pub(crate) mod record; // an entry in temporary storage
pub(crate) mod store; // blocks of records, in memory or a file
pub(crate) mod paged; // records changed in any order, in memory or a file
pub(crate) mod links; // inodes that may have several names
pub(crate) mod sets; // distinct sets of extended attributes
pub(crate) mod batch; // some thousand entries, sorted and packed
pub(crate) mod runs; // sorted runs, and many read as one
pub(crate) mod queue; // numbers on their way from one depth to the next
pub(crate) mod seal; // adds the directories that paths imply
pub(crate) mod builder; // takes entries in
pub(crate) mod breadth_first; // reads the tree in the order of the tables
