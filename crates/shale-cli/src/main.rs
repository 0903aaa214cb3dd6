//! The `shale` command: arguments in, text and exit codes out.
//!
//! The crates `shale` and `shale-fuse` do all the work; this crate translates arguments into calls
//! and results into text. The program names `mkfs.shale`, `mount.shale` and `fsck.shale` select a
//! subcommand and the exit codes that their callers expect.

mod exit; // exit codes
mod size; // sizes, shares and durations as text
mod text; // names escaped for terminals, and as JSON
mod time; // dates and times as text
mod owners; // names of users and groups
mod attributes; // modes, lines of listings and JSON of an inode
mod args; // the command line
mod habits; // words of similar programs
mod name; // the program names mount.shale, mkfs.shale and fsck.shale
mod advice; // what to do after an error of a library
mod report; // messages, errors and JSON
mod bar; // progress
mod signal; // Ctrl-C and other signals
mod memory; // how much memory there is, and the end of it
mod input; // sources, filter rules and metadata of a build
mod foreign; // formats of files that are not images
mod elsewhere; // images by URL
#[cfg(feature = "remote")]
mod upload; // objects in stores as outputs
mod sealed; // images that are encrypted
mod open; // images by path or URL
mod command; // one file for each subcommand

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Arguments, Command};
use exit::{Dialect, Exit};
use report::Say;

fn main() -> ExitCode {
    let (words, dialect) = match name::translate(std::env::args_os().collect()) {
        Ok(translated) => translated,
        // `mount -f` asks a helper to do everything except the mount itself.
        Err(name::Fake) => return ExitCode::SUCCESS,
    };
    let arguments = match parse(&words) {
        Ok(arguments) => arguments,
        Err(error) => {
            let wrong = error.use_stderr();
            let is_json = wrong && words.iter().any(|word| word == "--json");
            match habits::message(&words, &error) {
                message if is_json => {
                    let message = message.unwrap_or_else(|| error.to_string());
                    report::to_stderr_as_json("error", &message, None, Some(Exit::Usage));
                }
                Some(message) => report::to_stderr(&format!("shale: {message}")),
                None => drop(error.print()),
            }
            let exit = if wrong { Exit::Usage } else { Exit::Done };
            return ExitCode::from(dialect.code(exit));
        }
    };
    let dialect = match arguments.command {
        Command::Diff(_) | Command::Grep(_) => Dialect::Answer,
        _ => dialect,
    };
    let say = Say::new(&arguments);
    let exit = match run(&arguments, &say) {
        Ok(exit) => exit,
        Err(error) => say.failure(&error),
    };
    ExitCode::from(dialect.code(exit))
}

fn parse(words: &[OsString]) -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command();
    let matches = command.try_get_matches_from_mut(words)?;
    let arguments = Arguments::from_arg_matches(&matches);
    let mut arguments = arguments.map_err(|error| error.format(&mut command))?;
    arguments.complete(&matches);
    Ok(arguments)
}

fn run(arguments: &Arguments, say: &Say) -> anyhow::Result<Exit> {
    signal::outlive_size_limit()?;
    memory::say_if_it_ends()?;
    elsewhere::set(&arguments.remote)?;
    sealed::set(&arguments.keys)?;
    open::set_bases(&arguments.bases.base)?;
    let exit = command(arguments, say);
    for line in elsewhere::costs() {
        say.detail(line);
    }
    exit
}

fn command(arguments: &Arguments, say: &Say) -> anyhow::Result<Exit> {
    match &arguments.command {
        Command::Create(args) | Command::Rewrite(args) => {
            let inputs = match &args.manifest {
                Some(manifest) => vec![input::manifest(manifest, &args.how.input)?],
                None => input::inputs(&args.sources)?,
            };
            let is_rewrite = matches!(arguments.command, Command::Rewrite(_));
            if let ([base], false) = (&arguments.bases.base[..], is_rewrite) {
                return command::thin::create(&inputs, base, args, say);
            }
            command::thin::only_one_base(&arguments.bases.base, is_rewrite)?;
            match arguments.command {
                _ if args.how.all_tags => command::tags::create(&inputs, args, say),
                Command::Rewrite(_) => command::rewrite::run(&inputs, args, say),
                _ => {
                    let options = (&args.how, &args.target);
                    command::create::run(&inputs, &args.output, options, false, say)
                }
            }
        }
        Command::Mkfs(args) => {
            let inputs = input::inputs(std::slice::from_ref(&args.source))?;
            command::create::run(&inputs, &args.image, (&args.how, &args.target), false, say)
        }
        Command::Append(args) if args.how.all_tags => command::tags::append(args, say),
        Command::Bundle(args) => command::bundle::run(args, say),
        Command::Append(args) => command::append::run(args, say),
        Command::Compact(args) => command::compact::run(args, say),
        Command::Forget(args) => command::forget::run(args, say),
        Command::Merge(args) => command::merge::run(args, say),
        Command::Delta(args) => command::thin::delta(args, say),
        Command::Patch(args) => command::thin::patch(args, say),
        Command::Split(args) => command::split::run(args, say),
        Command::Mount(args) => command::mount::run(args, say),
        Command::Serve(args) => command::serve::run(args, say),
        Command::Umount(args) => command::umount::run(args, say),
        Command::Ls(args) => command::ls::run(args, say),
        Command::Tree(args) => command::tree::run(args, say),
        Command::Browse(args) => command::browse::run(args, say),
        Command::Du(args) => command::du::run(args, say),
        Command::Stat(args) => command::stat::run(args, say),
        Command::Find(args) => command::find::run(args, say),
        Command::Grep(args) => command::grep::run(args, say),
        Command::Diff(args) => command::diff::run(args, say),
        Command::Snapshots(args) => command::snapshots::run(args, say),
        Command::Cat(args) => command::cat::run(args, say),
        Command::Extract(args) => command::extract::run(args, say),
        Command::Export(args) => command::export::run(args, say),
        Command::Info(args) => command::info::run(args, say),
        Command::Report(args) => command::report_page::run(args, say),
        Command::Sum(args) => command::sum::run(args, say),
        Command::Check(args) => command::check::run(args, say),
        Command::Repair(args) => command::repair::run(args, say),
        Command::Parity(args) => command::parity::run(args, say),
        Command::Keygen { key, comment } => command::sign::keygen(key, comment, say),
        Command::Sign(args) => command::sign::sign(args, say),
        Command::Verify(args) => command::sign::verify(args, say),
        Command::Dump(args) => command::dump::run(args, say),
        #[cfg(feature = "remote")]
        Command::Cache(args) => command::cache::run(args, say),
        Command::Mounts => command::mounts::run(say),
        Command::Stats(args) => command::stats::run(args, say),
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "shale", &mut out);
            say.raw(&out)?;
            Ok(Exit::Done)
        }
        Command::Man { dir } => command::man::run(dir.as_deref(), say),
        Command::ExitCodes => {
            say.raw(exit::table().as_bytes())?;
            Ok(Exit::Done)
        }
    }
}
