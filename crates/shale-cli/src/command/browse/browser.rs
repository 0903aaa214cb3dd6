//! What the browser shows, and what each key does.

use std::path::{Path, PathBuf};

use anyhow::Context;
use shale::listing::{Entry, resolve};
use shale::read::{Attributes, InodeKind, SnapshotChoice, Tree};

use super::extraction::Extraction;
use super::keys::Key;
use super::place::{ENTRIES_MAX, OpenDirectory, moved, top_for};
use super::preview::{Preview, TEXT_LEN_MAX};
use super::search::{Search, contains};
use crate::attributes::Columns;
use crate::{size, text};

/// Lines of the screen that are not for what is shown.
pub const FRAME_LINES: usize = 3;
/// Columns by which text moves sideways.
const SIDE_STEP: usize = 16;
/// Longest text that is typed.
const PROMPT_LEN_MAX: usize = 1000;

/// The browser.
pub struct Browser {
    /// Name of the image.
    pub image: String,
    pub tree: Tree,
    /// The directories from the root to the one that is shown.
    pub places: Vec<OpenDirectory>,
    /// What is over the directory, if anything.
    pub over: Over,
    /// What is typed, if anything.
    pub prompt: Option<Prompt>,
    /// What happened last.
    pub message: String,
    pub columns: Columns,
    extraction: Option<Extraction>,
    /// The last text that was searched for in a directory or in a file.
    wanted: String,
    /// Lines for what is shown.
    height: usize,
    has_ended: bool,
}

/// What is shown instead of a directory.
pub enum Over {
    Nothing,
    Preview(Box<Preview>),
    Search(Box<Search>),
    /// The snapshots, and the cursor among them.
    Snapshots {
        cursor: usize,
        top: usize,
    },
    Help,
}

/// A question, and the answer so far.
pub struct Prompt {
    pub kind: PromptKind,
    pub text: String,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptKind {
    /// A text in names of the directory, or in lines of the file.
    Search,
    /// A text in all names.
    Find,
    /// Where to extract to.
    Extract,
}

impl PromptKind {
    /// The question.
    pub fn label(self) -> &'static str {
        match self {
            Self::Search => "search: ",
            Self::Find => "find in all directories: ",
            Self::Extract => "extract into directory: ",
        }
    }
}

impl Browser {
    /// Shows the root.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn new(tree: Tree, image: &Path) -> anyhow::Result<Self> {
        let root = OpenDirectory::open(&tree, tree.root_inode(), Vec::new());
        let places = vec![root.with_context(|| text::path(image))?];
        Ok(Self {
            image: text::path(image),
            tree,
            places,
            over: Over::Nothing,
            prompt: None,
            message: String::new(),
            columns: Columns::new(true, false),
            extraction: None,
            wanted: String::new(),
            height: 1,
            has_ended: false,
        })
    }

    /// The directory that is shown.
    pub fn place(&self) -> &OpenDirectory {
        // The root is never left.
        &self.places[self.places.len() - 1]
    }

    fn place_mut(&mut self) -> &mut OpenDirectory {
        let last = self.places.len() - 1;
        &mut self.places[last]
    }

    /// Shows a message.
    pub fn say(&mut self, message: String) {
        self.message = text::safe(&message);
    }

    /// Whether the user is done.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether a search goes on.
    pub fn is_searching(&self) -> bool {
        matches!(&self.over, Over::Search(search) if search.is_running())
    }

    /// Whether an extraction runs.
    pub fn is_extracting(&self) -> bool {
        self.extraction.is_some()
    }

    /// Ends what runs.
    pub fn cancel(&mut self) {
        if let Some(mut extraction) = self.extraction.take()
            && let Some(result) = extraction.cancel()
        {
            self.message = result;
        }
    }

    /// Goes on with what runs.
    pub fn work(&mut self) {
        if let Over::Search(search) = &mut self.over {
            search.step();
        }
        if let Some(result) = self.extraction.as_mut().and_then(Extraction::result) {
            self.message = result;
            self.extraction = None;
        }
    }

    /// Fits what is shown to the terminal.
    pub fn fit(&mut self, width: usize, height: usize) {
        let height = height.saturating_sub(FRAME_LINES).max(1);
        self.height = height;
        let place = self.place_mut();
        place.top = top_for(place.cursor, place.top, height);
        match &mut self.over {
            Over::Preview(preview) => preview.fit(width, height),
            Over::Search(search) => search.fit(height),
            Over::Snapshots { cursor, top } => *top = top_for(*cursor, *top, height),
            Over::Nothing | Over::Help => {}
        }
    }

    /// Does what a key says.
    pub fn key(&mut self, key: Key) {
        if key == Key::Ctrl('c') {
            self.cancel();
            self.has_ended = true;
            return;
        }
        if self.prompt.is_some() {
            return self.typed(key);
        }
        self.message.clear();
        let is_aside = self.is_aside();
        match (&mut self.over, key) {
            (_, Key::Char('q')) => {
                self.cancel();
                self.has_ended = true;
            }
            (Over::Help, _) => self.over = Over::Nothing,
            (_, Key::Escape) if self.extraction.is_some() => self.cancel(),
            (_, Key::Char('?')) => self.over = Over::Help,
            (Over::Search(search), Key::Escape) if search.is_running() => search.stop(),
            (Over::Nothing, Key::Escape) => {}
            (_, Key::Escape | Key::Left | Key::Char('h') | Key::Backspace) if !is_aside => {
                self.back();
            }
            (_, Key::Char('/')) => self.ask(PromptKind::Search, String::new()),
            (_, Key::Char('f')) => self.ask(PromptKind::Find, String::new()),
            (_, Key::Char('e')) => self.ask_where(),
            (_, Key::Char('s')) => self.snapshots(),
            (_, Key::Char('n')) => self.search_on(false),
            (_, Key::Char('N')) => self.search_on(true),
            (Over::Preview(preview), Key::Char('x')) => preview.toggle(),
            (Over::Preview(preview), Key::Right | Key::Char('l')) => preview.left += SIDE_STEP,
            (Over::Preview(preview), Key::Left | Key::Char('h')) => {
                preview.left = preview.left.saturating_sub(SIDE_STEP);
            }
            (_, Key::Enter | Key::Right | Key::Char('l')) => self.open(),
            (_, key) => self.go(key),
        }
    }

    /// Whether text is moved sideways, so that `left` moves it back.
    fn is_aside(&self) -> bool {
        matches!(&self.over, Over::Preview(preview) if preview.left > 0)
    }

    /// Moves the cursor, or the text.
    fn go(&mut self, key: Key) {
        let page = self.height as isize;
        let by = match key {
            Key::Up | Key::Char('k') => -1,
            Key::Down | Key::Char('j') => 1,
            Key::PageUp | Key::Ctrl('b') => -page,
            Key::PageDown | Key::Ctrl('f') | Key::Char(' ') => page,
            Key::Home | Key::Char('g') => isize::MIN,
            Key::End | Key::Char('G') => isize::MAX,
            _ => return,
        };
        match &mut self.over {
            Over::Nothing => {
                let place = self.place_mut();
                place.cursor = moved(place.cursor, by, place.entries.len());
            }
            Over::Preview(preview) => preview.scroll(by),
            Over::Search(search) => search.cursor = moved(search.cursor, by, search.found.len()),
            Over::Snapshots { cursor, .. } => {
                *cursor = moved(*cursor, by, self.tree.image().snapshots().len());
            }
            Over::Help => {}
        }
    }

    /// Leaves what is shown.
    fn back(&mut self) {
        match self.over {
            Over::Nothing if self.places.len() > 1 => {
                self.places.pop();
            }
            Over::Nothing => {}
            _ => self.over = Over::Nothing,
        }
    }

    /// Opens what is at the cursor.
    fn open(&mut self) {
        match &self.over {
            Over::Nothing => {
                let place = self.place();
                let Some(entry) = place.selected() else { return };
                let (path, entry) = (place.path_of(entry), entry.clone());
                self.open_entry(path, &entry);
            }
            Over::Search(search) => {
                let Some((path, _)) = search.found.get(search.cursor) else { return };
                let path = path.clone();
                self.go_to(&path);
            }
            Over::Snapshots { cursor, .. } => {
                let cursor = *cursor;
                self.choose(cursor);
            }
            Over::Preview(_) | Over::Help => {}
        }
    }

    fn open_entry(&mut self, path: Vec<u8>, entry: &Entry) {
        // A link opens what it leads to.
        let found = match entry.attributes.kind {
            InodeKind::Symlink => match resolve(&self.tree, &path, true) {
                Ok(found) => found,
                Err(error) => return self.say(error.to_string()),
            },
            _ => entry.attributes,
        };
        match found.kind {
            InodeKind::Directory => match OpenDirectory::open(&self.tree, found.inode, path) {
                Ok(place) => {
                    if place.is_cut {
                        let shown = size::count(ENTRIES_MAX as u64);
                        self.say(format!("the first {shown} entries are shown"));
                    }
                    self.places.push(place);
                }
                Err(error) => self.say(error.to_string()),
            },
            InodeKind::File => self.preview(path, found),
            kind => {
                let what = crate::attributes::kind_name(kind);
                self.say(format!("a {what} has no content"));
            }
        }
    }

    fn preview(&mut self, path: Vec<u8>, attributes: Attributes) {
        match Preview::open(&self.tree, attributes, path) {
            Ok(preview) => {
                if preview.is_cut() {
                    let shown = size::show(TEXT_LEN_MAX as u64);
                    self.say(format!("the first {shown} are shown; x shows all bytes"));
                }
                self.over = Over::Preview(Box::new(preview));
            }
            Err(error) => self.say(error.to_string()),
        }
    }

    /// Shows the directory of a path, with the cursor on it.
    fn go_to(&mut self, path: &[u8]) {
        self.over = Over::Nothing;
        self.places.truncate(1);
        let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
        for (index, name) in names.iter().enumerate() {
            self.place_mut().select(name);
            if index + 1 == names.len() {
                return;
            }
            let place = self.place();
            let Some(entry) = place.selected().filter(|entry| entry.name == *name) else { return };
            let (path, inode) = (place.path_of(entry), entry.attributes.inode);
            match OpenDirectory::open(&self.tree, inode, path) {
                Ok(place) => self.places.push(place),
                Err(error) => return self.say(error.to_string()),
            }
        }
    }

    fn snapshots(&mut self) {
        let count = self.tree.image().snapshots().len();
        let current = self.snapshot_number();
        self.over = Over::Snapshots { cursor: current.unwrap_or(count.saturating_sub(1)), top: 0 };
    }

    /// The number of the snapshot that is shown.
    pub fn snapshot_number(&self) -> Option<usize> {
        let mut all = self.tree.image().snapshots().iter();
        all.position(|snapshot| snapshot == self.tree.snapshot())
    }

    /// Shows another snapshot, at the same directory as far as it is there.
    fn choose(&mut self, number: usize) {
        let path = self.place().path.clone();
        let opened = self.tree.image().tree(&SnapshotChoice::Index(number)).and_then(|tree| {
            let root = OpenDirectory::open(&tree, tree.root_inode(), Vec::new())?;
            Ok((tree, root))
        });
        match opened {
            Ok((tree, root)) => {
                (self.tree, self.places, self.over) = (tree, vec![root], Over::Nothing);
                if !path.is_empty() {
                    self.go_to(&[&path[..], b"/."].concat());
                }
            }
            Err(error) => self.say(error.to_string()),
        }
    }

    fn ask(&mut self, kind: PromptKind, text: String) {
        self.prompt = Some(Prompt { kind, text });
    }

    fn ask_where(&mut self) {
        if self.extraction.is_some() {
            return self.say("an extraction runs; Esc ends it".to_owned());
        }
        if self.chosen().is_none() {
            return self.say("there is nothing to extract here".to_owned());
        }
        self.ask(PromptKind::Extract, ".".to_owned());
    }

    /// The path that would be extracted.
    fn chosen(&self) -> Option<Vec<u8>> {
        match &self.over {
            Over::Nothing => {
                let place = self.place();
                place.selected().map(|entry| place.path_of(entry))
            }
            Over::Preview(preview) => Some(preview.path.clone()),
            Over::Search(search) => search.found.get(search.cursor).map(|(path, _)| path.clone()),
            Over::Snapshots { .. } | Over::Help => None,
        }
    }

    /// A key while something is typed.
    fn typed(&mut self, key: Key) {
        let Some(prompt) = &mut self.prompt else { return };
        match key {
            Key::Escape => self.prompt = None,
            Key::Backspace if prompt.text.is_empty() => self.prompt = None,
            Key::Backspace => _ = prompt.text.pop(),
            Key::Ctrl('u') => prompt.text.clear(),
            Key::Char(char) if prompt.text.len() < PROMPT_LEN_MAX => prompt.text.push(char),
            Key::Enter => {
                let Some(Prompt { kind, text }) = self.prompt.take() else { return };
                self.message.clear();
                match kind {
                    PromptKind::Search => {
                        self.wanted = text;
                        self.search_on(false);
                    }
                    PromptKind::Find if text.is_empty() => {}
                    PromptKind::Find => match Search::new(&self.tree, text) {
                        Ok(search) => self.over = Over::Search(Box::new(search)),
                        Err(error) => self.say(error.to_string()),
                    },
                    PromptKind::Extract => self.extract(&PathBuf::from(text)),
                }
            }
            _ => {}
        }
    }

    /// Goes to the next name or line with the text that was searched for.
    fn search_on(&mut self, is_backwards: bool) {
        let wanted = self.wanted.clone();
        if wanted.is_empty() {
            return self.say("nothing was searched for yet; / searches".to_owned());
        }
        let is_found = match &mut self.over {
            Over::Preview(preview) => preview.find(&wanted, is_backwards),
            Over::Nothing => {
                let place = self.place_mut();
                let count = place.entries.len();
                // Around the end, to the one at the cursor again.
                let mut places = (1..=count).map(|step| match is_backwards {
                    false => (place.cursor + step) % count,
                    true => (place.cursor + count - step) % count,
                });
                let found = places.find(|&at| contains(&place.entries[at].name, &wanted));
                place.cursor = found.unwrap_or(place.cursor);
                found.is_some()
            }
            Over::Search(_) | Over::Snapshots { .. } | Over::Help => return,
        };
        if !is_found {
            self.say(format!("not found: {wanted}"));
        }
    }

    fn extract(&mut self, directory: &Path) {
        let Some(path) = self.chosen() else { return };
        match Extraction::start(&self.tree, &path, directory) {
            Ok(extraction) => {
                self.extraction = Some(extraction);
                self.say(format!("extracting {}; Esc ends it", text::escape(&path)));
            }
            Err(error) => self.say(format!("cannot start a thread: {error}")),
        }
    }
}
