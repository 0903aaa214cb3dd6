//! Web servers for tests: nginx, and one that misbehaves as told.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use rustix::process::{Pid, Signal};

use crate::stage::{Stage, is_root, wait_until};

/// nginx, serving the directory of a stage on a port of this machine.
pub struct Nginx {
    dir: PathBuf,
    port: u16,
}

impl Nginx {
    /// `None` if this machine has no nginx. `more` are further lines for the server.
    pub fn new(stage: &Stage, more: &str) -> Option<Self> {
        let program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"]
            .into_iter()
            .find(|path| fs::exists(path).unwrap());
        let Some(program) = program else {
            println!("skipped: nginx is missing");
            return None;
        };
        let dir = stage.path("nginx");
        fs::create_dir(&dir).unwrap();
        let user = if is_root() { "user root;" } else { "" };
        let root = fs::canonicalize(stage.path("")).unwrap();
        let (d, root) = (dir.display(), root.display());
        // The port may be taken by another program before nginx takes it.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let text = format!(
                "{user} worker_processes 1; pid {d}/pid; error_log {d}/error; events {{}}\n\
                 http {{ log_format short '$status $body_bytes_sent $connection';\n\
                 access_log {d}/log short;\n\
                 client_body_temp_path {d}/1; proxy_temp_path {d}/2; fastcgi_temp_path {d}/3;\n\
                 uwsgi_temp_path {d}/4; scgi_temp_path {d}/5;\n\
                 server {{ listen 127.0.0.1:{port}; root {root}; {more} }} }}\n"
            );
            fs::write(dir.join("conf"), text).unwrap();
            // It goes into the background when it listens.
            let mut nginx = Command::new(program);
            nginx.arg("-e").arg(dir.join("error")).arg("-c").arg(dir.join("conf"));
            if nginx.output().unwrap().status.success() {
                return Some(Self { dir, port });
            }
        }
        panic!("{}", fs::read_to_string(dir.join("error")).unwrap());
    }

    pub fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }

    /// Number of answers so far, and the bytes of their bodies, once there are `count` of them.
    pub fn answers(&self, count: usize) -> (usize, u64) {
        let lines = || fs::read_to_string(self.dir.join("log")).unwrap();
        wait_until("the answers are not in the log", || lines().lines().count() >= count);
        let log = lines();
        let bytes = log.lines().map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap());
        (log.lines().count(), bytes.sum())
    }

    /// Number of connections that answers were sent on.
    pub fn connections(&self) -> usize {
        let log = fs::read_to_string(self.dir.join("log")).unwrap();
        let connections = log.lines().map(|line| line.split(' ').nth(2).unwrap());
        connections.collect::<HashSet<_>>().len()
    }

    /// Begins to count again.
    pub fn forget_answers(&self) {
        fs::File::options().write(true).open(self.dir.join("log")).unwrap().set_len(0).unwrap();
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.dir.join("pid")).unwrap_or_default();
        if let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
    }
}

/// How a server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rude {
    /// It sends the whole file, whatever is asked for.
    NoRanges,
    /// It ends each answer after this many bytes.
    Cuts(usize),
    /// It accepts connections and never answers.
    Silent,
    /// Every answer has another ETag.
    Changes,
    /// It sends the bytes after those that were asked for, and says so.
    Elsewhere,
    /// The first answers are errors with this status.
    Fails(u16, usize),
    /// It changes a byte in the middle of this answer.
    Garbles(usize),
    /// It compresses, or says so.
    Compresses,
}

/// A server that misbehaves.
pub struct RudeServer {
    port: u16,
    pub requests: Arc<AtomicUsize>,
}

impl RudeServer {
    /// Serves `bytes` until the test program ends.
    pub fn new(bytes: Vec<u8>, how: Rude) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let (counter, bytes) = (Arc::clone(&requests), Arc::new(bytes));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (counter, bytes) = (Arc::clone(&counter), Arc::clone(&bytes));
                // The client may hang up at any moment.
                std::thread::spawn(move || drop(answer(stream, &bytes, how, &counter)));
            }
        });
        Self { port, requests }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/x.shale", self.port)
    }
}

fn answer(
    mut stream: TcpStream,
    bytes: &[u8],
    how: Rude,
    requests: &AtomicUsize,
) -> std::io::Result<()> {
    let mut range = None;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let line = line?.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("range: bytes=") {
            let (start, end) = value.trim().split_once('-').unwrap();
            range = Some(match start {
                "" => bytes.len().saturating_sub(end.parse().unwrap())..bytes.len(),
                start => {
                    start.parse().unwrap()..(end.parse::<usize>().unwrap() + 1).min(bytes.len())
                }
            });
        }
        if line.is_empty() {
            break;
        }
    }
    let n = requests.fetch_add(1, SeqCst);
    let mut range = range.unwrap_or(0..bytes.len());
    let mut status = "206 Partial Content".to_owned();
    let mut etag = "\"one\"".to_owned();
    let mut more = "";
    match how {
        Rude::NoRanges => (status, range) = ("200 OK".to_owned(), 0..bytes.len()),
        Rude::Silent => {
            // Until the client hangs up.
            let _ = BufReader::new(stream).lines().next();
            return Ok(());
        }
        Rude::Changes => etag = format!("\"{n}\""),
        Rude::Elsewhere => range = range.start + 1..range.end + 1,
        Rude::Fails(code, count) if n < count => status = format!("{code} No"),
        Rude::Compresses => more = "content-encoding: gzip\r\n",
        _ => {}
    }
    let mut body = bytes.get(range.clone()).unwrap_or_default().to_vec();
    if how == Rude::Garbles(n) {
        let middle = body.len() / 2;
        body[middle] ^= 0x10;
    }
    write!(
        stream,
        "HTTP/1.1 {status}\r\netag: {etag}\r\ncontent-length: {}\r\ncontent-range: bytes \
         {}-{}/{}\r\n{more}connection: close\r\n\r\n",
        range.len(),
        range.start,
        range.end - 1,
        bytes.len()
    )?;
    if let Rude::Cuts(len) = how {
        body.truncate(len);
    }
    stream.write_all(&body)
}
