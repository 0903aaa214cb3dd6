//! `shale man`: man pages, generated from the definition of the command line.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;

use crate::args::Arguments;
use crate::exit::{self, Exit};
use crate::report::Say;
use crate::text;

/// Prints the page of `shale`, or writes the pages of all subcommands into a directory.
///
/// # Errors
/// The output cannot be written.
pub fn run(dir: Option<&Path>, say: &Say) -> anyhow::Result<Exit> {
    let command = Arguments::command().after_long_help(exit::table());
    let Some(dir) = dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        say.raw(&page)?;
        return Ok(Exit::Done);
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", text::path(dir)))?;
    clap_mangen::generate_to(command, dir)
        .with_context(|| format!("cannot write man pages into {}", text::path(dir)))?;
    Ok(Exit::Done)
}
