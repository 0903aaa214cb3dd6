//! Which frames each frame is compressed against.

pub(crate) mod inverted_index; // for each value, the lists that contain it
pub(crate) mod co_read_sets; // frames that are read together for one content
pub(crate) mod choice; // what references are chosen for, and what is chosen
pub(crate) mod sketch; // samples of what frames are made of
pub(crate) mod constraints; // what every choice must keep to
pub(crate) mod postings; // which frames share which fingerprints
pub(crate) mod cover; // a greedy cover: how deep each frame may be
pub(crate) mod assign; // the references of each frame
pub(crate) mod improve; // local search
pub(crate) mod search; // cover, assignment and local search together
pub(crate) mod stage; // connects the choice with the pipeline
