//! SELinux labels from a file of file contexts, as `setfiles` would give them.
//!
//! The format and the order of lookup are those of libselinux, see file_contexts(5) and
//! selabel_file(5): a line is a regular expression for the whole path, an optional type of file and
//! a context. Of the lines that match, one without wildcards wins over one with them, then the last
//! one wins. `<<none>>` gives no label.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use regex::bytes::{Regex, RegexBuilder};
use shale_codec::Hasher;
use shale_format::InodeKind;
use shale_model::{EntrySource, Problem, Review, SourceEntry, SourceError, Xattr};

/// The attribute that holds the label of a file.
const ATTRIBUTE: &[u8] = b"security.selinux";
const NONE: &[u8] = b"<<none>>";

/// Labels of paths.
#[derive(Debug, Default)]
pub struct FileContexts {
    /// Those with wildcards first, then those without; a later one wins.
    specs: Vec<Spec>,
    /// Prefixes of paths that stand for others: first the local ones, then those of the
    /// distribution. The last line that matches is used.
    aliases: [Vec<Alias>; 2],
    /// A digest of all that was read.
    seed: [u8; 32],
    /// At least one file got a label.
    has_labelled: AtomicBool,
}

/// A line.
#[derive(Debug)]
struct Spec {
    pattern: String,
    /// The bytes that each path begins with that matches.
    stem: Vec<u8>,
    /// Compiled when it is first needed: most lines of a policy are for paths that no image has.
    regex: OnceLock<Regex>,
    kind: Option<InodeKind>,
    /// The value of the attribute; empty for none.
    value: Vec<u8>,
    has_wildcards: bool,
}

/// A line of a file of aliases.
#[derive(Debug)]
struct Alias {
    from: Vec<u8>,
    to: Vec<u8>,
}

/// Most bytes of a compiled expression. Those of policies have some kilobytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

impl FileContexts {
    /// Adds the lines of a file.
    ///
    /// # Errors
    /// The number of the first line that is not valid, and what is wrong with it.
    pub fn add(&mut self, text: &[u8]) -> Result<(), String> {
        for (index, words) in lines(text) {
            let spec = Spec::parse(&words).map_err(|what| format!("line {}: {what}", index + 1))?;
            self.specs.push(spec);
        }
        // Stable: among those with wildcards, and among those without, the last one wins.
        self.specs.sort_by_key(|spec| !spec.has_wildcards);
        self.note(b"contexts", text);
        Ok(())
    }

    /// Adds a file of aliases, with lines such as `/myweb /var/www`: those of the distribution
    /// (`.subs_dist`) or local ones (`.subs`).
    ///
    /// # Errors
    /// The number of the first line that is not valid, and what is wrong with it.
    pub fn add_aliases(&mut self, text: &[u8], is_distribution: bool) -> Result<(), String> {
        for (index, words) in lines(text) {
            let [from, to] = words[..] else {
                return Err(format!("line {}: expected two paths", index + 1));
            };
            let (from, to) = (from.to_vec(), to.to_vec());
            self.aliases[usize::from(is_distribution)].push(Alias { from, to });
        }
        self.note(if is_distribution { b"subs_dist" } else { b"subs" }, text);
        Ok(())
    }

    fn note(&mut self, what: &[u8], text: &[u8]) {
        let mut hasher = Hasher::new();
        hasher.update(&self.seed);
        hasher.update(what);
        hasher.update(shale_codec::hash(text).as_bytes());
        self.seed = *hasher.finalize().as_bytes();
    }

    /// Returns the value of the attribute for an entry at a path of the image. Costs a comparison
    /// for each line, and a search for the lines whose first bytes are those of the path.
    fn value_of(&self, path: &[u8], kind: InodeKind) -> Option<&[u8]> {
        let mut key = [b"/", path].concat();
        for aliases in &self.aliases {
            let alias = aliases.iter().rev().find_map(|alias| alias.apply(&key));
            key = alias.unwrap_or(key);
        }
        let spec = self.specs.iter().rev().find(|spec| spec.matches(&key, kind))?;
        (!spec.value.is_empty()).then_some(&spec.value)
    }
}

/// The lines of a file in words, and their numbers from 0, without comments.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, Vec<&[u8]>)> {
    let lines = text.split(|&byte| byte == b'\n').enumerate();
    lines.filter_map(|(index, line)| {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let words: Vec<&[u8]> = words.collect();
        let is_comment = words.first().is_none_or(|word| word.starts_with(b"#"));
        (!is_comment).then_some((index, words))
    })
}

impl Spec {
    fn parse(words: &[&[u8]]) -> Result<Self, String> {
        let (pattern, kind, context) = match *words {
            [pattern, context] => (pattern, None, context),
            [pattern, kind, context] => (pattern, Some(kind_of(kind)?), context),
            [_] => return Err("the context is missing".to_owned()),
            _ => return Err("expected a path, a type and a context".to_owned()),
        };
        let pattern = std::str::from_utf8(pattern).map_err(|_| "the path is not UTF-8")?;
        let mut value = context.to_vec();
        // As setfiles writes it.
        value.push(0);
        let spec = Self {
            pattern: pattern.to_owned(),
            stem: stem(pattern),
            regex: OnceLock::new(),
            kind,
            value: if context == NONE { Vec::new() } else { value },
            has_wildcards: has_wildcards(pattern),
        };
        // Compiled only to see that it is valid.
        spec.compile()?;
        Ok(spec)
    }

    fn compile(&self) -> Result<Regex, String> {
        // An alternative at the outermost level is anchored on one side only, as in libselinux.
        let mut builder = RegexBuilder::new(&format!("^{}$", self.pattern));
        builder.unicode(false).dot_matches_new_line(true).size_limit(REGEX_BYTES_MAX);
        builder.build().map_err(|error| {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default().trim();
            format!("`{}`: {}", self.pattern, reason.trim_start_matches("error: "))
        })
    }

    fn matches(&self, path: &[u8], kind: InodeKind) -> bool {
        if !path.starts_with(&self.stem) || self.kind.is_some_and(|wanted| wanted != kind) {
            return false;
        }
        // It was compiled before.
        let regex = self.regex.get_or_init(|| self.compile().expect("an expression that is valid"));
        regex.is_match(path)
    }
}

/// The type that a line is for.
fn kind_of(word: &[u8]) -> Result<InodeKind, String> {
    Ok(match word {
        b"--" => InodeKind::File,
        b"-d" => InodeKind::Directory,
        b"-l" => InodeKind::Symlink,
        b"-b" => InodeKind::BlockDevice,
        b"-c" => InodeKind::CharDevice,
        b"-p" => InodeKind::Fifo,
        b"-s" => InodeKind::Socket,
        _ => {
            let word = word.escape_ascii();
            return Err(format!("`{word}` is not a type; use --, -d, -l, -b, -c, -p or -s"));
        }
    })
}

/// Characters that make an expression more than a path, for libselinux.
const WILDCARDS: &[u8] = b".^$?*+|[({";

/// Returns whether an expression has wildcards: a backslash takes the meaning from the next one.
fn has_wildcards(pattern: &str) -> bool {
    let mut bytes = pattern.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' {
            bytes.next();
        } else if WILDCARDS.contains(&byte) {
            return true;
        }
    }
    false
}

/// The bytes that each path begins with that the expression matches, as far as they are easy to
/// tell: letters, digits and a few others, up to the first byte of another kind.
fn stem(pattern: &str) -> Vec<u8> {
    if pattern.contains('|') {
        // An alternative may begin with anything.
        return Vec::new();
    }
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/_-".contains(byte);
    let len = pattern.bytes().take_while(|byte| is_plain(byte)).count();
    // What follows may say that the last byte can be missing.
    let may_miss = pattern[len..].starts_with(['?', '*', '{']);
    pattern.as_bytes()[..len.saturating_sub(may_miss.into())].to_vec()
}

impl Alias {
    fn apply(&self, path: &[u8]) -> Option<Vec<u8>> {
        let rest = path.strip_prefix(&self.from[..])?;
        match rest.first() {
            None => Some(self.to.clone()),
            Some(b'/') if self.to == b"/" => Some(rest.to_vec()),
            Some(b'/') => Some([&self.to[..], rest].concat()),
            Some(_) => None,
        }
    }
}

/// A source whose entries have the labels of a file, instead of their own.
pub(super) struct Labelled {
    pub(super) source: Box<dyn EntrySource>,
    pub(super) contexts: Arc<FileContexts>,
}

impl EntrySource for Labelled {
    fn seed(&self) -> [u8; 32] {
        let mut hasher = Hasher::new();
        hasher.update(&self.source.seed());
        hasher.update(b"file contexts");
        hasher.update(&self.contexts.seed);
        *hasher.finalize().as_bytes()
    }

    fn content_bytes_max(&self) -> Option<u64> {
        self.source.content_bytes_max()
    }

    fn next_entry(&mut self) -> Result<Option<SourceEntry>, SourceError> {
        let Some(mut entry) = self.source.next_entry()? else { return Ok(None) };
        let mut xattrs: Vec<Xattr> = entry.xattrs.to_vec();
        xattrs.retain(|xattr| xattr.name != ATTRIBUTE);
        if let Some(value) = self.contexts.value_of(&entry.path, entry.metadata.kind) {
            self.contexts.has_labelled.store(true, Ordering::Relaxed);
            xattrs.push(Xattr { name: ATTRIBUTE.to_vec(), value: value.to_vec() });
        }
        entry.xattrs = xattrs.into();
        Ok(Some(entry))
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        self.source.take_problems()
    }

    fn take_warnings(&mut self) -> Vec<String> {
        let mut warnings = self.source.take_warnings();
        if !self.contexts.has_labelled.load(Ordering::Relaxed) {
            warnings.push("the file contexts give no file a label".to_owned());
        }
        warnings
    }

    fn review(&self, review: &Review<'_>) -> Result<(), SourceError> {
        self.source.review(review)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts(text: &str) -> FileContexts {
        let mut contexts = FileContexts::default();
        contexts.add(text.as_bytes()).unwrap();
        contexts
    }

    fn of(contexts: &FileContexts, path: &str, kind: InodeKind) -> String {
        let value = contexts.value_of(path.as_bytes(), kind);
        value.map_or(String::new(), |v| String::from_utf8_lossy(&v[..v.len() - 1]).into_owned())
    }

    #[test]
    fn the_last_line_wins_and_one_without_wildcards_always() {
        let contexts = contexts(
            "# a comment\n/.*  any\n/etc/a\\.b exact\n/etc(/.*)?\tetc\n/etc/.* -d dir\n/x.* <<none>>\n",
        );
        assert_eq!(of(&contexts, "", InodeKind::Directory), "any");
        assert_eq!(of(&contexts, "etc", InodeKind::Directory), "etc");
        assert_eq!(of(&contexts, "etc/a.b", InodeKind::File), "exact");
        assert_eq!(of(&contexts, "etc/axb", InodeKind::File), "etc");
        assert_eq!(of(&contexts, "etc/sub", InodeKind::Directory), "dir");
        assert_eq!(of(&contexts, "etcetera", InodeKind::File), "any");
        assert_eq!(of(&contexts, "xa", InodeKind::File), "");
        assert_eq!(of(&contexts, "a\nb\u{e9}", InodeKind::File), "any");
    }

    #[test]
    fn the_first_bytes_of_a_path_only_save_time() {
        for (pattern, path) in [
            ("/usr/lib?", "usr/li"),
            ("/usr/lib64*/x", "usr/lib6/x"),
            ("/a|/b", "b"),
            ("(/a)?/b", "b"),
            ("/?usr/x", "usr/x"),
        ] {
            let contexts = contexts(&format!("{pattern} label\n"));
            assert_eq!(of(&contexts, path, InodeKind::File), "label", "{pattern}");
        }
    }

    #[test]
    fn aliases_stand_for_other_directories() {
        let mut contexts = contexts("/var/www(/.*)? web\n/usr/lib(/.*)? lib\n");
        contexts.add_aliases(b"/srv/web /var/www\n", false).unwrap();
        contexts.add_aliases(b"/lib64 /usr/lib\n", true).unwrap();
        assert_eq!(of(&contexts, "srv/web/x", InodeKind::File), "web");
        assert_eq!(of(&contexts, "srv/website", InodeKind::File), "");
        assert_eq!(of(&contexts, "lib64", InodeKind::Directory), "lib");
        assert!(contexts.add_aliases(b"/one\n", true).is_err());
    }

    #[test]
    fn lines_that_are_not_valid_are_named() {
        for (text, expected) in [
            ("\n/a\n", "line 2: the context is missing"),
            ("/a -x label\n", "`-x` is not a type"),
            ("/a -- b c d\n", "line 1: expected"),
            ("/[a label\n", "line 1: `/[a`"),
        ] {
            let error = FileContexts::default().add(text.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
