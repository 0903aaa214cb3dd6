//! The terminal: raw mode and the other screen while the browser runs, and the way back.
//!
//! The way back is taken when [`Terminal`] is dropped, when a panic begins, before the process
//! stops for the shell, and after SIGTERM, SIGINT, SIGHUP or SIGQUIT, which end the loop. SIGKILL
//! cannot be caught; `reset` helps then.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::pipe;

use super::keys::{Key, parse};

/// What the loop waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A key.
    Key(Key),
    /// The size changed, or the time is over.
    Redraw,
    /// The shell wants the terminal for itself.
    Stop,
    /// The program is asked to end.
    End,
}

/// The terminal, as long as the browser has it.
pub struct Terminal {
    /// Signals that change the picture, stop the process, and end it.
    resized: UnixStream,
    stopped: UnixStream,
    ended: UnixStream,
    keys: VecDeque<Key>,
}

/// The modes to go back to, while the browser has the terminal.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// The other screen, without a cursor, and back. Lines are not wrapped: a character may be wider
/// than thought.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// How long the rest of a key may take after ESC; else ESC is the key.
const ESCAPE_PATIENCE: Duration = Duration::from_millis(40);

impl Terminal {
    /// Whether there is one, for keys and for the picture.
    pub fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Takes the terminal.
    ///
    /// # Errors
    /// Its modes cannot be set, or a signal cannot be handled.
    pub fn enter() -> io::Result<Self> {
        let receiver = |signals: &[i32]| -> io::Result<UnixStream> {
            let (receiver, sender) = UnixStream::pair()?;
            receiver.set_nonblocking(true)?;
            for &signal in signals {
                pipe::register(signal, sender.try_clone()?)?;
            }
            Ok(receiver)
        };
        let terminal = Self {
            resized: receiver(&[SIGWINCH, SIGCONT])?,
            stopped: receiver(&[SIGTSTP])?,
            ended: receiver(&[SIGTERM, SIGINT, SIGHUP, SIGQUIT])?,
            keys: VecDeque::new(),
        };
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // First, so that the message can be seen.
                leave();
                before(panic);
            }));
        });
        take()?;
        Ok(terminal)
    }

    /// Columns and lines. A terminal that does not know has 80 by 24.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (usize::from(size.ws_col), usize::from(size.ws_row))
            }
            _ => (80, 24),
        }
    }

    /// Shows a picture.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show(&mut self, picture: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(picture.as_bytes())?;
        out.flush()
    }

    /// Waits for what comes next, at most so long.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn wait(&mut self, patience: Option<Duration>) -> io::Result<Event> {
        if let Some(key) = self.keys.pop_front() {
            return Ok(Event::Key(key));
        }
        let stdin = io::stdin();
        let mut sources = [
            PollFd::new(&self.ended, PollFlags::IN),
            PollFd::new(&self.stopped, PollFlags::IN),
            PollFd::new(&self.resized, PollFlags::IN),
            PollFd::new(&stdin, PollFlags::IN),
        ];
        match poll(&mut sources, patience.map(timespec).as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Event::Redraw),
            Err(error) => return Err(error.into()),
        }
        let [ended, stopped, resized, typed] = sources.map(|source| !source.revents().is_empty());
        if ended {
            return Ok(Event::End);
        }
        if stopped {
            drain(&self.stopped);
            return Ok(Event::Stop);
        }
        if resized {
            drain(&self.resized);
            return Ok(Event::Redraw);
        }
        if typed && !self.read_keys()? {
            // The terminal was closed.
            return Ok(Event::End);
        }
        Ok(self.keys.pop_front().map_or(Event::Redraw, Event::Key))
    }

    /// A key that was read with others.
    ///
    /// # Errors
    /// None.
    pub fn next_key(&mut self) -> io::Result<Option<Key>> {
        Ok(self.keys.pop_front())
    }

    /// Gives the terminal back, stops the process, and takes it again when the shell goes on.
    ///
    /// # Errors
    /// The modes cannot be set.
    pub fn stop(&mut self) -> io::Result<()> {
        leave();
        kill_process(getpid(), Signal::STOP)?;
        take()
    }

    /// Reads the keys that are there. Returns false at the end of the input.
    fn read_keys(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 1024];
        let mut len = rustix::io::read(io::stdin(), &mut bytes)?;
        if len == 0 {
            return Ok(false);
        }
        // ESC is a key, or the first byte of many.
        if bytes[len - 1] == 0x1b && len < bytes.len() {
            let stdin = io::stdin();
            let mut source = [PollFd::new(&stdin, PollFlags::IN)];
            if poll(&mut source, Some(&timespec(ESCAPE_PATIENCE))).is_ok_and(|count| count > 0) {
                len += rustix::io::read(io::stdin(), &mut bytes[len..])?;
            }
        }
        self.keys.extend(parse(&bytes[..len]));
        Ok(true)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

fn drain(mut receiver: &UnixStream) {
    let mut bytes = [0; 64];
    while matches!(receiver.read(&mut bytes), Ok(1..)) {}
}

/// Sets raw mode and shows the other screen.
fn take() -> io::Result<()> {
    let before = tcgetattr(io::stdin())?;
    let mut raw = before.clone();
    raw.make_raw();
    tcsetattr(io::stdin(), OptionalActions::Flush, &raw)?;
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
    let mut out = io::stdout().lock();
    out.write_all(ENTER.as_bytes())?;
    out.flush()
}

/// Goes back to what was before. Does nothing if the browser does not have the terminal.
fn leave() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(before) = before else { return };
    // If the terminal is gone, there is nothing to go back to.
    let mut out = io::stdout().lock();
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &before);
}
