//! Attributes of an inode as text and as JSON: mode letters, lines of listings, templates.

use serde_json::{Map, Value};
use shale::read::{Attributes, InodeKind, Timestamp};

use crate::time::LocalTime;
use crate::{size, text};
use shale::owners::Owners;

/// Formats the mode: `drwxr-xr-x`.
pub fn mode_letters(attributes: &Attributes) -> String {
    let kind = match attributes.kind {
        InodeKind::File => '-',
        InodeKind::Directory => 'd',
        InodeKind::Symlink => 'l',
        InodeKind::BlockDevice => 'b',
        InodeKind::CharDevice => 'c',
        InodeKind::Fifo => 'p',
        InodeKind::Socket => 's',
    };
    let bits = attributes.permissions;
    let mut out = String::from(kind);
    for (shift, special, set, unset) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let three = bits >> shift & 7;
        out.push(if three & 4 != 0 { 'r' } else { '-' });
        out.push(if three & 2 != 0 { 'w' } else { '-' });
        out.push(match (three & 1 != 0, bits & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => set,
            (false, true) => unset,
        });
    }
    out
}

/// Returns the word for a kind of inode.
pub fn kind_name(kind: InodeKind) -> &'static str {
    shale::dump::kind_word(kind)
}

/// Formats attributes for listings.
#[derive(Debug)]
pub struct Columns {
    clock: LocalTime,
    owners: Owners,
    is_human: bool,
    /// Width of owner, group and size in lines like those of tar(1); it grows as needed.
    tar_width: usize,
}

impl Columns {
    /// Takes names of owners from this machine, unless numbers are requested.
    pub fn new(is_human: bool, is_numeric: bool) -> Self {
        let owners = if is_numeric { Owners::default() } else { Owners::of_machine() };
        Self { clock: LocalTime::new(), owners, is_human, tar_width: 19 }
    }

    /// Formats a line of `ls -l`, up to the name.
    pub fn long(&self, attributes: &Attributes) -> String {
        format!(
            "{} {:>3} {:<8} {:<8} {:>9} {}",
            mode_letters(attributes),
            attributes.link_count,
            self.owners.user(attributes.uid),
            self.owners.group(attributes.gid),
            self.size(attributes),
            self.clock.minute(attributes.mtime)
        )
    }

    /// Formats a line of `tar -tv`, up to the name. `is_link` marks a further name of a file.
    pub fn tar(&mut self, attributes: &Attributes, is_link: bool) -> String {
        let mut mode = mode_letters(attributes);
        if is_link {
            mode.replace_range(..1, "h");
        }
        let owner = self.owners.user(attributes.uid) + "/" + &self.owners.group(attributes.gid);
        let size = match attributes.kind {
            InodeKind::File if is_link => "0".to_owned(),
            InodeKind::Directory | InodeKind::Symlink => "0".to_owned(),
            _ => self.size(attributes),
        };
        self.tar_width = self.tar_width.max(owner.len() + 1 + size.len());
        let width = self.tar_width - owner.len() - 1;
        format!("{mode} {owner} {size:>width$} {}", self.clock.short(attributes.mtime))
    }

    /// Formats the size, or the number of a device.
    fn size(&self, attributes: &Attributes) -> String {
        match attributes.kind {
            InodeKind::BlockDevice | InodeKind::CharDevice => {
                let (major, minor) = attributes.device();
                format!("{major},{minor}")
            }
            _ if self.is_human => size::brief(attributes.size),
            _ => attributes.size.to_string(),
        }
    }
}

/// A line of a listing with placeholders, like `--printf` of stat(1).
#[derive(Debug, Clone)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Field(char),
}

/// The placeholders and their meaning.
const FIELDS: &[(char, &str)] = &[
    ('n', "name"),
    ('s', "size"),
    ('A', "mode"),
    ('a', "octal permissions"),
    ('F', "kind"),
    ('u', "user id"),
    ('U', "user"),
    ('g', "group id"),
    ('G', "group"),
    ('h', "links"),
    ('i', "inode"),
    ('y', "time"),
    ('Y', "seconds since 1970"),
    ('l', "link target"),
];

impl Template {
    /// Parses `%` placeholders and the escapes `\n`, `\t`, `\0` and `\\`.
    ///
    /// # Errors
    /// There is no such placeholder or escape.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            let field = match (char, if "%\\".contains(char) { chars.next() } else { None }) {
                ('%', Some('%')) => '%',
                ('\\', Some('n')) => '\n',
                ('\\', Some('t')) => '\t',
                ('\\', Some('0')) => '\0',
                ('\\', Some('\\')) => '\\',
                ('%', Some(field)) if FIELDS.iter().any(|(known, _)| *known == field) => {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Field(field));
                    continue;
                }
                ('%' | '\\', next) => {
                    let known: Vec<String> =
                        FIELDS.iter().map(|(field, what)| format!("%{field} {what}")).collect();
                    let next = next.map(String::from).unwrap_or_default();
                    return Err(format!("unknown `{char}{next}`; use {}", known.join(", ")));
                }
                (plain, _) => plain,
            };
            plain.push(field);
        }
        pieces.push(Piece::Text(plain));
        Ok(Self(pieces))
    }

    /// Fills in the placeholders. `name` and `target` are written as they are given.
    pub fn fill(
        &self,
        columns: &Columns,
        attributes: &Attributes,
        name: &[u8],
        target: Option<&[u8]>,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.0 {
            let field = match piece {
                Piece::Text(text) => text.clone(),
                Piece::Field('n') => {
                    out.extend_from_slice(name);
                    continue;
                }
                Piece::Field('l') => {
                    out.extend_from_slice(target.unwrap_or_default());
                    continue;
                }
                Piece::Field(field) => match field {
                    's' => columns.size(attributes),
                    'A' => mode_letters(attributes),
                    'a' => format!("{:o}", attributes.permissions),
                    'F' => kind_name(attributes.kind).to_owned(),
                    'u' => attributes.uid.to_string(),
                    'U' => columns.owners.user(attributes.uid),
                    'g' => attributes.gid.to_string(),
                    'G' => columns.owners.group(attributes.gid),
                    'h' => attributes.link_count.to_string(),
                    'i' => attributes.inode.to_string(),
                    'y' => columns.clock.full(attributes.mtime),
                    _ => attributes.mtime.sec.to_string(),
                },
            };
            out.extend_from_slice(field.as_bytes());
        }
        out
    }
}

/// Converts the attributes to a JSON object.
pub fn as_json(attributes: &Attributes) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("inode", attributes.inode.into());
    put("kind", kind_name(attributes.kind).into());
    put("mode", format!("{:o}", attributes.mode()).into());
    put("uid", attributes.uid.into());
    put("gid", attributes.gid.into());
    put("links", attributes.link_count.into());
    put("size", attributes.size.into());
    put("mtime", text_time(attributes.mtime).into());
    if matches!(attributes.kind, InodeKind::BlockDevice | InodeKind::CharDevice) {
        let (major, minor) = attributes.device();
        put("device", format!("{major},{minor}").into());
    }
    object
}

/// Formats a time as decimal seconds since 1970. Text is exact; a JSON number is not.
pub fn text_time(stamp: Timestamp) -> String {
    format!("{}.{:09}", stamp.sec, stamp.nsec)
}

/// Formats a name, with the target of a symbolic link.
pub fn with_target(name: &[u8], target: Option<&[u8]>, raw: bool) -> Vec<u8> {
    let mut out = text::shown(name, raw).into_owned();
    if let Some(target) = target {
        out.extend_from_slice(b" -> ");
        out.extend_from_slice(&text::shown(target, raw));
    }
    out
}
