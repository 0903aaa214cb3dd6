//! `shale umount`.

use crate::args::Umount;
use crate::exit::Exit;

/// Unmounts.
pub fn run(args: &Umount) -> anyhow::Result<Exit> {
    shale_fuse::umount(&args.dir, args.lazy)?;
    Ok(Exit::Done)
}
