//! Every limit of the format, with its reason.
//!
//! A reader refuses values beyond a limit before it allocates for them. A writer does not produce
//! them.

/// Plain bytes of one frame. One frame is decoded whole, so this bounds a reader's allocation.
pub const FRAME_PLAIN_LEN_MAX: u64 = 64 << 20;
/// References of one frame. Each costs a decode on a random read.
pub const REFERENCE_COUNT_MAX: u32 = 16;
/// Longest chain of references below a frame; bounds recursion in every reader.
pub const REFERENCE_DEPTH_MAX: u8 = 8;
/// Plain bytes of all references of a frame together: one contiguous prefix is built from them.
pub const PREFIX_LEN_MAX: u64 = 128 << 20;
/// Stored bytes of one frames section; a writer buffers a section to write its header first.
pub const SECTION_FRAMES_STORED_LEN_TARGET: u64 = 16 << 20;
/// Stored bytes of one section of any type.
pub const SECTION_STORED_LEN_MAX: u64 = 1 << 40;
/// Pages of which each is compressed with the next as its prefix: each costs a read.
pub const PAGE_PREFIX_DEPTH_MAX: usize = 6;
/// Pages of which each patches the next, above those with prefixes: each costs a read.
pub const PAGE_PATCH_DEPTH_MAX: usize = 12;
/// Runs of hashes of a Merkle tree: the list is read whole before the first hash is.
pub const HASH_RUN_COUNT_MAX: u32 = 1024;
/// Plain bytes of the root section: read whole at open.
pub const ROOT_PLAIN_LEN_MAX: u64 = 16 << 20;
/// Earlier roots that a root needs, one after the other: each costs a read at open.
pub const ROOT_DEPTH_MAX: usize = 12;
/// Snapshots of one image: their records lie in the root.
pub const SNAPSHOT_COUNT_MAX: u32 = 65_536;
/// Bytes of a snapshot's name.
pub const SNAPSHOT_NAME_LEN_MAX: usize = 255;
/// Plain bytes of one table page.
pub const PAGE_PLAIN_LEN_MAX: u32 = 4 << 20;
/// Stored bytes of one table page; a page that grows is stored plain.
pub const PAGE_STORED_LEN_MAX: u32 = PAGE_PLAIN_LEN_MAX;
/// Bytes of a name: Linux NAME_MAX.
pub const NAME_LEN_MAX: usize = 255;
/// Bytes of a path below the root, components and slashes: four times Linux PATH_MAX. Trees beyond
/// PATH_MAX can only be reached directory by directory. A directory costs a builder the bytes of
/// its path, so this bounds what one deep chain of directories costs.
pub const PATH_LEN_MAX: usize = 16_384;
/// Bytes of a symlink's target: Linux PATH_MAX without the final zero.
pub const LINK_TARGET_LEN_MAX: usize = 4095;
/// Bytes of an xattr's name: Linux XATTR_NAME_MAX.
pub const XATTR_NAME_LEN_MAX: usize = 255;
/// Bytes of an xattr's value: Linux XATTR_SIZE_MAX.
pub const XATTR_VALUE_LEN_MAX: usize = 65_536;
/// Xattrs of one inode. Linux limits the list of names to 64 KiB, at least 3 bytes each.
pub const XATTR_COUNT_MAX: u64 = 65_536;
/// Size of one file: what a signed 64-bit file offset can address.
pub const FILE_LEN_MAX: u64 = i64::MAX as u64;
/// End of content space and of stream space: the values above mark holes and zero runs.
pub const SPACE_LEN_MAX: u64 = u64::MAX - 16;
/// Leaves of one parity group, and bodies of parity for it: this much is read to restore one leaf.
/// With parity of up to a fifteenth, data and parity fit a transform of 2^14.
pub const PARITY_GROUP_LEAVES_MAX: u64 = 15_360;
/// Chunks of the table of hashes before it is coded; its code has three times as many.
pub const PARITY_TABLE_CHUNKS_MAX: u64 = 8_192;
/// Parity sections that lead from one to the next. A writer makes each protect at least twice as
/// much as the next, so 64 are more than an image of 2^62 bytes needs.
pub const PARITY_SECTIONS_MAX: usize = 64;
/// Bytes of a rebuilt chunk, and plain bytes that it is rebuilt from. A chunk is rebuilt whole.
pub const CHUNK_LEN_MAX: u64 = 1 << 20;
/// Depth of containers in containers whose streams are rebuilt. Each level of depth costs a random
/// read a chunk.
pub const CHUNK_DEPTH_MAX: u64 = 3;
/// Probes of the search for matches while one chunk is rebuilt: a tenth of a second or less.
pub const CHUNK_PROBES_MAX: u64 = 1 << 25;
/// Thin images above a base that is whole. Each costs an open file, four reads at open and a step
/// at every read; it also ends a chain that leads back to itself.
pub const THIN_DEPTH_MAX: usize = 8;
