//! The `shale` command: arguments in, text and exit codes out.
//!
//! Everything that is done is done by the crates `shale` and `shale-fuse`; here are only words.
//! The names `mkfs.shale`, `mount.shale` and `fsck.shale` select a subcommand and its dialect of
//! exit codes.

mod name; // other names of the program: mount.shale and its kin
mod args; // what can be asked for
mod exit; // what is answered to the shell
mod size; // 64K, 1MiB
mod text; // names for people and machines
mod report; // where lines, errors and JSON go
mod bar; // progress on a terminal and elsewhere
mod signal; // Ctrl-C and its kin
mod input; // what to pack, as arguments say it
mod order; // in which order contents are laid
mod open; // an image from its path
mod command; // one file a subcommand

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Arguments, Command};
use exit::Exit;
use report::Say;

fn main() -> ExitCode {
    let (words, dialect) = match name::translate(std::env::args_os().collect()) {
        Ok(translated) => translated,
        // mount(8) asks helpers to go through the motions only.
        Err(name::Fake) => return ExitCode::SUCCESS,
    };
    let arguments = match parse(&words) {
        Ok(arguments) => arguments,
        Err(error) => {
            let wrong = error.use_stderr();
            let _ = error.print();
            let exit = if wrong { Exit::Usage } else { Exit::Done };
            return ExitCode::from(dialect.code(exit));
        }
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
    match &arguments.command {
        Command::Create(args) | Command::Rewrite(args) => {
            let inputs = match &args.manifest {
                Some(manifest) => vec![input::manifest(manifest, &args.how.input)?],
                None => input::inputs(&args.sources)?,
            };
            command::create::run(&inputs, &args.output, &args.how, say)
        }
        Command::Mkfs(args) => {
            let inputs = input::inputs(std::slice::from_ref(&args.source))?;
            command::create::run(&inputs, &args.image, &args.how, say)
        }
        Command::Mount(args) => command::mount::run(args, say),
        Command::Umount(args) => command::umount::run(args),
        Command::Ls(args) => command::ls::run(args, say),
        Command::Tree(args) => command::tree::run(args, say),
        Command::Stat(args) => command::stat::run(args, say),
        Command::Cat(args) => command::cat::run(args, say),
        Command::Extract(args) => command::extract::run(args, say),
        Command::Export(args) => command::export::run(args, say),
        Command::Info(args) => command::info::run(args, say),
        Command::Check(args) => command::check::run(args, say),
        Command::Repair(args) => command::repair::run(args, say),
        Command::Parity(args) => command::parity::run(args, say),
        Command::Keygen { key, comment } => command::sign::keygen(key, comment, say),
        Command::Sign(args) => command::sign::sign(args, say),
        Command::Verify(args) => command::sign::verify(args, say),
        Command::Dump(args) => command::dump::run(args, say),
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
