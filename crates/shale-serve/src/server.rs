//! Connections: one thread each, as many as the limits allow.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::access::{Access, Decision};
use crate::answer::{Reply, refuse};
use crate::request::{Incoming, Request};
use crate::route;
use crate::site::{Share, Site};

/// Memory of a thread; only what is used counts.
const STACK_LEN: usize = 1 << 20;

/// What clients may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once; further ones are told to come later. Default: 1,024.
    pub connections_max: usize,
    /// How long a client may send or take nothing. Default: 60 seconds.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections_max: 1024, idle: Duration::from_secs(60) }
    }
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    site: Site,
    access: Access,
    limits: Limits,
    connections: AtomicUsize,
}

impl Server {
    /// Listens on `address`. Port 0 takes a free one. Without a token, only requests that name this
    /// machine as their host are answered if the address is one of this machine alone.
    ///
    /// # Errors
    /// The address is taken, or not one of this machine.
    pub fn listen(
        address: SocketAddr,
        shares: Vec<Share>,
        token: Option<String>,
        limits: Limits,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let shared = Shared {
            site: Site { shares },
            access: Access::new(token, address.ip().is_loopback()),
            limits,
            connections: AtomicUsize::new(0),
        };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// The address that clients use.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until the process ends.
    pub fn serve(&self) {
        for stream in self.listener.incoming() {
            // A client that is gone already, or too many open files: the next one may be luckier.
            let Ok(stream) = stream else { continue };
            let shared = Arc::clone(&self.shared);
            if shared.connections.fetch_add(1, Relaxed) >= shared.limits.connections_max {
                shared.connections.fetch_sub(1, Relaxed);
                let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
                let _ = refuse(Reply::new(&stream, false, false, false), 503);
                continue;
            }
            let thread = std::thread::Builder::new().name("shale-serve".into());
            let counted = Counted(shared);
            // Without a thread the connection is closed.
            let _ = thread.stack_size(STACK_LEN).spawn(move || {
                // A client that hangs up is no error of this server.
                let _ = counted.0.connection(&stream);
            });
        }
    }
}

/// A connection that is counted while it lasts.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    fn connection(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.limits.idle))?;
        stream.set_write_timeout(Some(self.limits.idle))?;
        let mut rest = Vec::new();
        loop {
            let request = match Request::read(&mut &*stream, &mut rest)? {
                Incoming::Closed => return Ok(()),
                Incoming::Bad(status) => {
                    refuse(Reply::new(stream, false, false, false), status)?;
                    return Ok(());
                }
                Incoming::Request(request) => request,
            };
            if !self.request(&request, stream)? {
                return Ok(());
            }
        }
    }

    /// Answers a request. Returns whether the connection may serve another one.
    fn request(&self, request: &Request, stream: &TcpStream) -> io::Result<bool> {
        let is_head = request.method == "HEAD";
        let mut reply = Reply::new(stream, is_head, request.is_http_1_1, request.keeps_alive);
        match self.access.decide(request) {
            Decision::Granted => {}
            Decision::GrantedByUrl => reply.more.push(("set-cookie", self.access.cookie())),
            Decision::WrongHost => return refuse(reply, 421),
            Decision::TokenNeeded => {
                reply.more.push(("www-authenticate", "Basic realm=\"shale\"".into()));
                return refuse(reply, 401);
            }
        }
        route::answer(&self.site, request, reply)
    }
}
