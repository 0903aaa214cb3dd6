//! `shale browse`: walk through an image in a terminal, look at files, search and extract.
//!
//! One thread draws and waits for keys, signals and a new size of the terminal. It reads the image
//! itself, so what is shown is what was read and verified. A search goes on between keys, an
//! extraction in a thread of its own; both can be ended. However the program ends, the terminal is
//! as it was before: see `terminal.rs`.

mod terminal; // the terminal: its modes, its size, what happens to it
mod keys; // bytes of the terminal as keys
mod cells; // text in columns of the terminal
mod place; // a directory that is shown
mod preview; // a file that is shown
mod search; // paths that contain a text
mod extraction; // files out of the image
mod browser; // what is shown and what keys do
mod draw; // the picture of it

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::bail;
use shale::read::{Log, Options};

use crate::args::ImageArgs;
use crate::exit::{Exit, Misuse};
use crate::open;
use crate::report::Say;
use browser::Browser;
use terminal::{Event, Terminal};

/// While an extraction runs, its end is looked for this often.
const EXTRACTION_STEP: Duration = Duration::from_millis(100);

/// Shows an image until the user ends it.
///
/// # Errors
/// Standard input or output is not a terminal, or the image cannot be opened.
pub fn run(args: &ImageArgs, say: &Say) -> anyhow::Result<Exit> {
    if say.json {
        bail!(Misuse("`browse` is for people; use `ls`, `find` and `cat` in scripts".to_owned()));
    }
    if !Terminal::is_there() {
        bail!(Misuse("`browse` needs a terminal; use `ls`, `find` and `cat` elsewhere".to_owned()));
    }
    // What the reader has to say must not be written over the picture.
    let said = Arc::new(Mutex::new(String::new()));
    let log = {
        let said = Arc::clone(&said);
        Log(Arc::new(move |line: &str| {
            line.clone_into(&mut said.lock().unwrap_or_else(PoisonError::into_inner));
        }))
    };
    let tree = open::tree(args, Options::default().log(log), say)?;
    let mut browser = Browser::new(tree, &args.image)?;
    let mut terminal = Terminal::enter()?;
    loop {
        let line = std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
        if !line.is_empty() {
            browser.say(line);
        }
        let (width, height) = terminal.size();
        browser.fit(width, height);
        terminal.show(&draw::picture(&browser, width, height))?;
        let patience = match () {
            () if browser.is_searching() => Some(Duration::ZERO),
            () if browser.is_extracting() => Some(EXTRACTION_STEP),
            () => None,
        };
        match terminal.wait(patience)? {
            Event::Key(key) => {
                browser.key(key);
                // Keys that came meanwhile, such as of a held arrow, are one picture.
                while let Some(key) = terminal.next_key()? {
                    browser.key(key);
                }
            }
            Event::Redraw => {}
            Event::Stop => terminal.stop()?,
            Event::End => {
                browser.cancel();
                return Ok(Exit::Interrupted);
            }
        }
        browser.work();
        if browser.has_ended() {
            return Ok(Exit::Done);
        }
    }
}
