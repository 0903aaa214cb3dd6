//! `shale man`: man pages, generated from the definition of the command line, with examples and
//! references.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};

use crate::args::Arguments;
use crate::exit::{self, Exit};
use crate::report::Say;
use crate::text;

mod examples; // examples and related pages of each subcommand

/// Prints the page of `shale`, or writes the pages of all subcommands into a directory.
///
/// # Errors
/// The output cannot be written.
pub fn run(dir: Option<&Path>, say: &Say) -> anyhow::Result<Exit> {
    let command = Arguments::command().after_long_help(exit::table());
    let Some(dir) = dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        page.extend_from_slice(further(&[]).as_bytes());
        say.raw(&page)?;
        return Ok(Exit::Done);
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", text::path(dir)))?;
    let failed = || format!("cannot write man pages into {}", text::path(dir));
    clap_mangen::generate_to(command.clone(), dir).with_context(failed)?;
    append(&command, &mut Vec::new(), dir).with_context(failed)?;
    Ok(Exit::Done)
}

/// Appends examples and references to the pages of a command and its visible subcommands.
fn append(command: &Command, names: &mut Vec<String>, dir: &Path) -> std::io::Result<()> {
    let page = [&["shale".to_owned()][..], names].concat().join("-") + ".1";
    let mut file = std::fs::OpenOptions::new().append(true).open(dir.join(page))?;
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    file.write_all(further(&words).as_bytes())?;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        if below.get_name() != "help" {
            names.push(below.get_name().to_owned());
            append(below, names, dir)?;
            names.pop();
        }
    }
    Ok(())
}

/// The sections EXAMPLES and SEE ALSO of the page of a subcommand.
fn further(words: &[&str]) -> String {
    let (examples, pages) = examples::of(&words.join(" "));
    let mut out = String::new();
    if !examples.is_empty() {
        out += ".SH EXAMPLES\n";
    }
    for (line, meaning) in examples {
        out += &format!(".TP\n.B {}\n{meaning}\n", escaped(line));
    }
    out += ".SH \"SEE ALSO\"\n";
    let own = if words.is_empty() { &[][..] } else { &["shale(1)"] };
    let all: Vec<&str> = own.iter().chain(pages).copied().collect();
    for (index, page) in all.iter().enumerate() {
        let (name, section) = page.split_once('(').unwrap_or((page, "1)"));
        let end = if index + 1 < all.len() { "," } else { "" };
        out += &format!(".BR {} ({section}{end}\n", escaped(name));
    }
    out
}

/// Escapes what roff would interpret.
fn escaped(line: &str) -> String {
    line.replace('\\', "\\\\").replace('-', "\\-").replace('\'', "\\(aq")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_references_and_every_example_is_valid() {
        fn visit(command: &Command, names: &mut Vec<String>) {
            let name = names.join(" ");
            let (examples, pages) = examples::of(&name);
            assert!(!pages.is_empty(), "{name}: no references");
            for (line, _) in examples {
                for part in line.split('|').map(str::trim).filter(|part| part.contains("shale ")) {
                    let words = part[part.find("shale ").unwrap()..].split(['>', '<']).next();
                    let words = words.unwrap().replace(['\'', '"'], "");
                    <Arguments as clap::Parser>::try_parse_from(words.split_whitespace())
                        .unwrap_or_else(|error| panic!("{line}: {error}"));
                }
            }
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                names.push(below.get_name().to_owned());
                visit(below, names);
                names.pop();
            }
        }
        visit(&Arguments::command(), &mut Vec::new());
    }
}
