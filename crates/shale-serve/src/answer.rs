//! An answer: its head, and a body of known length or in chunks.

use std::io::{self, BufWriter, Write};
use std::net::TcpStream;

/// Bytes collected before they are sent.
const BUFFER_LEN: usize = 64 << 10;

/// Headers of every answer: nothing that is served may run, or be taken for another type.
const ALWAYS: &str = "x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n\
     content-security-policy: default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; \
     media-src 'self'; sandbox allow-downloads\r\n";

/// The connection, for one answer.
pub(crate) struct Reply<'s> {
    out: BufWriter<&'s TcpStream>,
    /// The client asked for the head only.
    is_head: bool,
    /// The client understands chunks.
    knows_chunks: bool,
    /// More headers of this answer.
    pub(crate) more: Vec<(&'static str, String)>,
    pub(crate) keeps_alive: bool,
}

impl<'s> Reply<'s> {
    pub(crate) fn new(
        stream: &'s TcpStream,
        is_head: bool,
        knows_chunks: bool,
        keeps_alive: bool,
    ) -> Self {
        let out = BufWriter::with_capacity(BUFFER_LEN, stream);
        Self { out, is_head, knows_chunks, more: Vec::new(), keeps_alive }
    }

    /// True if no body is wanted.
    pub(crate) fn is_head(&self) -> bool {
        self.is_head
    }

    fn head(&mut self, status: u16, kind: &str, body: Option<u64>) -> io::Result<()> {
        write!(self.out, "HTTP/1.1 {status} {}\r\n{ALWAYS}", reason(status))?;
        if !kind.is_empty() {
            write!(self.out, "content-type: {kind}\r\n")?;
        }
        for (name, value) in &self.more {
            // A name of the image must not end a line.
            let value: String = value.chars().filter(|c| !c.is_control()).collect();
            write!(self.out, "{name}: {value}\r\n")?;
        }
        match body {
            Some(len) => write!(self.out, "content-length: {len}\r\n")?,
            None if self.knows_chunks => self.out.write_all(b"transfer-encoding: chunked\r\n")?,
            None => self.keeps_alive = false,
        }
        if !self.keeps_alive {
            self.out.write_all(b"connection: close\r\n")?;
        }
        self.out.write_all(b"\r\n")
    }

    /// Sends a whole answer.
    pub(crate) fn whole(mut self, status: u16, kind: &str, body: &[u8]) -> io::Result<bool> {
        self.head(status, kind, Some(body.len() as u64))?;
        if !self.is_head {
            self.out.write_all(body)?;
        }
        self.out.flush()?;
        Ok(self.keeps_alive)
    }

    /// Sends an answer without a body.
    pub(crate) fn empty(mut self, status: u16) -> io::Result<bool> {
        // An answer that says "not changed" has the length of what did not change, so it has none.
        match status {
            204 | 304 => {
                write!(self.out, "HTTP/1.1 {status} {}\r\n", reason(status))?;
                for (name, value) in &self.more {
                    write!(self.out, "{name}: {value}\r\n")?;
                }
                self.out.write_all(b"\r\n")?;
            }
            _ => self.head(status, "", Some(0))?,
        }
        self.out.flush()?;
        Ok(self.keeps_alive)
    }

    /// Sends an answer whose body `write` writes, of `len` bytes or, without a length, in chunks.
    /// If `write` fails, the connection ends before the body does.
    pub(crate) fn stream(
        mut self,
        status: u16,
        kind: &str,
        len: Option<u64>,
        write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> io::Result<bool> {
        self.head(status, kind, len)?;
        if !self.is_head {
            if len.is_none() && self.knows_chunks {
                let mut chunks = Chunks { out: &mut self.out, held: Vec::new() };
                write(&mut chunks)?;
                chunks.send()?;
                self.out.write_all(b"0\r\n\r\n")?;
            } else {
                write(&mut self.out)?;
            }
        }
        self.out.flush()?;
        Ok(self.keeps_alive)
    }
}

/// Sends a refusal, with its reason in words.
pub(crate) fn refuse(reply: Reply<'_>, status: u16) -> io::Result<bool> {
    let text = match status {
        400 => "This is not a valid request.\n",
        401 => "A token is needed: open the address that `shale serve` printed.\n",
        403 => "This is a device, a pipe or a socket, which cannot be downloaded.\n",
        404 => "There is no such file in the image.\n",
        405 => "An image is read-only.\n",
        416 => "The range is beyond the end of the file.\n",
        421 => "Without a token, this server is for its machine only; ask for it as localhost.\n",
        503 => "Too many connections; try again later.\n",
        _ => "The image cannot be read here; `shale check` says what is damaged.\n",
    };
    reply.whole(status, "text/plain; charset=utf-8", text.as_bytes())
}

/// Writes chunks of some size.
struct Chunks<'o, 's> {
    out: &'o mut BufWriter<&'s TcpStream>,
    held: Vec<u8>,
}

impl Chunks<'_, '_> {
    fn send(&mut self) -> io::Result<()> {
        if !self.held.is_empty() {
            write!(self.out, "{:x}\r\n", self.held.len())?;
            self.out.write_all(&self.held)?;
            self.out.write_all(b"\r\n")?;
            self.held.clear();
        }
        Ok(())
    }
}

impl Write for Chunks<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= BUFFER_LEN {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        self.out.flush()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        207 => "Multi-Status",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        416 => "Range Not Satisfiable",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}
