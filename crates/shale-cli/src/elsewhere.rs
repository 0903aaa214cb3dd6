//! Images that are elsewhere: URLs as arguments, the options for them, what reading them cost.
//!
//! The options are those of the process, set once before the first image is opened.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use percent_encoding::percent_decode;
use shale::read::ByteSource;
use shale::read::files::Place;

use crate::args::RemoteArgs;
use crate::report::Say;

/// True if an argument is a URL, and not a path. A file with such a name is meant only by another
/// name, such as `./s3://a`.
pub fn is_url(path: &Path) -> bool {
    let Some((scheme, _)) = path.to_str().and_then(|text| text.split_once("://")) else {
        return false;
    };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// The options of the command line, as words for another process.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Takes the options of the command line.
///
/// # Errors
/// The endpoint is not a URL of a web server.
pub fn set(args: &RemoteArgs) -> anyhow::Result<()> {
    let _ = WORDS.set(args.words());
    set_options(args)
}

/// The place of a URL: the name of its file is the last part of its path.
pub struct UrlPlace {
    url: String,
    say: Say,
}

impl UrlPlace {
    /// The place of a URL.
    pub fn new(url: &Path, say: Say) -> Self {
        Self { url: url.to_string_lossy().into_owned(), say }
    }

    /// The URL without its query, up to the last slash, and what follows that.
    fn split(&self) -> (&str, &str) {
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        let after_scheme = path.find("://").map_or(0, |at| at + 3);
        let slash = path[after_scheme..].rfind('/').map_or(path.len(), |at| after_scheme + at + 1);
        path.split_at(slash)
    }

    /// True if characters of the URL are escaped, as those of web servers are.
    fn is_escaped(&self) -> bool {
        self.url.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"))
    }
}

impl Place for UrlPlace {
    fn open(&self) -> io::Result<Arc<dyn ByteSource>> {
        open(Path::new(&self.url), &self.say)
            .map_err(|error| io::Error::other(format!("{error:#}")))
    }

    fn name(&self) -> Vec<u8> {
        let (_, name) = self.split();
        if !self.is_escaped() {
            return name.as_bytes().to_vec();
        }
        percent_decode(name.as_bytes()).collect()
    }

    fn beside(&self, name: &[u8]) -> Arc<dyn Place> {
        let name = match self.is_escaped() {
            true => name.iter().fold(String::new(), |mut text, &byte| {
                match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    true => text.push(byte as char),
                    false => text += &format!("%{byte:02X}"),
                }
                text
            }),
            false => String::from_utf8_lossy(name).into_owned(),
        };
        let url = format!("{}{name}", self.split().0);
        Arc::new(Self { url, say: self.say })
    }

    fn shown(&self) -> String {
        shown(Path::new(&self.url)).to_string_lossy().into_owned()
    }
}

/// An image as it is shown to others: a URL without its password and without its query, which may
/// hold a signature.
pub fn shown(path: &Path) -> OsString {
    if !is_url(path) {
        return path.as_os_str().to_owned();
    }
    let text = path.to_string_lossy();
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let rest = rest.split('?').next().unwrap_or_default();
    let (place, key) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let place = place.rsplit_once('@').map_or(place, |(_, host)| host);
    format!("{scheme}://{place}{key}").into()
}

/// The options that were set, as words of a command line.
pub fn words() -> &'static [OsString] {
    WORDS.get().map_or(&[], Vec::as_slice)
}

#[cfg(feature = "remote")]
use with::set_options;
#[cfg(feature = "remote")]
pub use with::{cache, costs, destination, open, open_state};
#[cfg(not(feature = "remote"))]
use without::set_options;
#[cfg(not(feature = "remote"))]
pub use without::{costs, open};

#[cfg(feature = "remote")]
mod with {
    use std::ops::Range;
    use std::path::PathBuf;
    use std::sync::{Mutex, PoisonError};
    use std::time::Duration;

    use anyhow::{Context, anyhow};
    use shale::read::FileSource;
    use shale_remote::{Cache, CacheOptions, Destination, Location, Object, Options};

    use super::*;
    use crate::exit::Misuse;
    use crate::size;

    /// Size of the cache on disk.
    const CACHE_SIZE: u64 = 2 << 30;

    static OPTIONS: OnceLock<Options> = OnceLock::new();
    /// The objects that were opened, to say at the end what they cost.
    static OPENED: Mutex<Vec<Arc<Object>>> = Mutex::new(Vec::new());

    /// As [`super::set`].
    ///
    /// # Errors
    /// As [`super::set`].
    pub fn set_options(args: &RemoteArgs) -> anyhow::Result<()> {
        if let Some(endpoint) = &args.endpoint
            && !(endpoint.starts_with("http://") || endpoint.starts_with("https://"))
        {
            let what = format!("--endpoint {endpoint}: it must begin with http:// or https://");
            return Err(Misuse(what).into());
        }
        let mut options = Options::default();
        options.endpoint.clone_from(&args.endpoint);
        options.region.clone_from(&args.region);
        options.is_anonymous = args.no_sign_request;
        options.is_offline = args.offline;
        options.cache = cache_options(args);
        if let Some(seconds) = args.timeout {
            options.timeout = Duration::from_secs(seconds);
        }
        let _ = OPTIONS.set(options);
        Ok(())
    }

    fn cache_options(args: &RemoteArgs) -> Option<CacheOptions> {
        let bytes_max = args.cache_size.unwrap_or(CACHE_SIZE);
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        // A path that is not absolute is not valid there.
        let xdg = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let home = || Some(PathBuf::from(variable("HOME")?).join(".cache"));
        let default = || Some(xdg.or_else(home)?.join("shale"));
        let dir = args.cache_dir.clone().or_else(default)?;
        (bytes_max > 0).then(|| CacheOptions::new(dir, bytes_max))
    }

    /// The cache on disk and its directory; `None` if there is none.
    pub fn cache() -> Option<(Cache, PathBuf)> {
        let options = OPTIONS.get()?.cache.as_ref()?;
        Some((Cache::new(options), options.dir.clone()))
    }

    /// Opens the object or file that a URL names. Prints a warning if what is cached is used
    /// because the server cannot be reached.
    ///
    /// # Errors
    /// The URL is not valid, or the object cannot be opened.
    pub fn open(url: &Path, say: &Say) -> anyhow::Result<Arc<dyn ByteSource>> {
        let text = url.to_str().unwrap_or_default();
        let location = match Location::parse(text) {
            Some(location) => location.map_err(Misuse::of)?,
            None => return Err(anyhow!("not a URL: {}", url.display())),
        };
        let url = match location {
            Location::File(path) => {
                let open = || format!("cannot open {}", crate::text::path(&path));
                return Ok(Arc::new(FileSource::open(&path).with_context(open)?));
            }
            Location::Object(url) => url,
        };
        let options = OPTIONS.get().cloned().unwrap_or_default();
        let object = Arc::new(Object::open(&url, &options)?);
        if let Some(reason) = object.offline().filter(|_| !options.is_offline) {
            say.warn(format!("{url}: {reason}; using what is cached of it"));
        }
        OPENED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&object));
        Ok(Arc::new(ObjectSource(object)))
    }

    /// Opens the object that a URL names, and returns its ETag, for a change of it.
    ///
    /// # Errors
    /// As [`open`]; or it names a file.
    pub fn open_state(
        url: &Path,
        say: &Say,
    ) -> anyhow::Result<(Arc<dyn ByteSource>, Option<String>)> {
        let source = open(url, say)?;
        let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((source, opened.last().and_then(|object| object.etag()).map(str::to_owned)))
    }

    /// The object of a URL, to be written.
    ///
    /// # Errors
    /// The URL is not valid, or nothing can be written there.
    pub fn destination(url: &Path) -> anyhow::Result<Destination> {
        let location = Location::parse(url.to_str().unwrap_or_default());
        let location = location.with_context(|| format!("not a URL: {}", url.display()))?;
        match location.map_err(Misuse::of)? {
            Location::File(path) => Err(Misuse(format!(
                "name the file itself as the output: {}",
                crate::text::path(&path)
            ))
            .into()),
            Location::Object(url) => {
                let options = OPTIONS.get().cloned().unwrap_or_default();
                Ok(Destination::new(&url, &options)?)
            }
        }
    }

    /// What reading each object cost, one line each.
    pub fn costs() -> Vec<String> {
        let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |object: &Arc<Object>| {
            let cost = object.counters();
            format!(
                "{}: {} requests in {} round trips ({} tried again), {} received, {} cached",
                object.name(),
                cost.requests,
                cost.round_trips,
                cost.retries,
                size::show(cost.received_bytes),
                size::show(cost.cached_bytes),
            )
        };
        opened.iter().map(line).collect()
    }

    /// An object as a source of an image.
    struct ObjectSource(Arc<Object>);

    impl ByteSource for ObjectSource {
        fn len(&self) -> u64 {
            self.0.len()
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            self.0.read_at(offset, buf)
        }

        fn is_far(&self) -> bool {
            true
        }

        fn will_need(&self, ranges: &[Range<u64>]) {
            self.0.will_need(ranges);
        }

        fn read_again(&self, offset: u64, buf: &mut [u8]) -> bool {
            self.0.read_again(offset, buf)
        }
    }
}

#[cfg(not(feature = "remote"))]
mod without {
    use super::*;

    /// Takes the options of the command line, of which this build has no use.
    ///
    /// # Errors
    /// None; the other build has some.
    pub fn set_options(_: &RemoteArgs) -> anyhow::Result<()> {
        Ok(())
    }

    /// Refuses a URL.
    ///
    /// # Errors
    /// Always.
    pub fn open(url: &Path, _: &Say) -> anyhow::Result<Arc<dyn ByteSource>> {
        anyhow::bail!(
            "{}: this program was built without support for URLs (the feature `remote`); download \
             the image first",
            url.display()
        )
    }

    /// What reading cost: nothing.
    pub fn costs() -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ProgressChoice;

    #[test]
    fn paths_and_urls_are_told_apart() {
        for url in ["s3://a/b", "HTTPS://h/x", "ftp://h/x"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        let url = Path::new("https://me:secret@h:1/a@b?sig=secret");
        assert_eq!(shown(url), "https://h:1/a@b");
        assert_eq!(shown(Path::new("a?b")), "a?b");
        for path in ["a/b", "./s3://a/b", "a:b", "/x://y", "://"] {
            assert!(!is_url(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn names_beside_a_url_take_its_place() {
        let say = Say { quiet: true, verbose: 0, json: false, progress: ProgressChoice::None };
        let beside = |url: &str, name: &str| {
            let place = UrlPlace::new(Path::new(url), say);
            (place.name(), place.beside(name.as_bytes()).shown())
        };
        let of = |name: &str, url: &str| (name.as_bytes().to_vec(), url.to_owned());
        let found = beside("https://h/d/a%20b.shale?sig=x", "week 1.shale");
        assert_eq!(found, of("a b.shale", "https://h/d/week%201.shale"));
        assert_eq!(beside("s3://bucket/k", "a b"), of("k", "s3://bucket/a b"));
        assert_eq!(beside("http://h/a%2", "%"), of("a%2", "http://h/%25"));
    }
}
