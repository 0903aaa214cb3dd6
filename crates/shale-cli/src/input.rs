//! Translates the arguments of a build: sources with prefixes, filter rules, lists and owners.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use shale::owners::{GROUPS, USERS};
use shale::read::Timestamp;
use shale::write::FileRules;
use shale::{Adjust, Choose, FileContexts, IdRange, Input, InputKind, NamePattern, Pseudo, Rules};

use crate::args::{InputArgs, RuleOption, SpecialKind};
use crate::exit::Misuse;
use crate::{elsewhere, open, owners, text, time};

/// Nesting limit of filter files; deeper nesting is a loop.
const MERGE_DEPTH_MAX: usize = 16;

/// Parses the sources. An argument that is an existing path is one; otherwise `=/` begins a prefix,
/// and `@` the snapshot of an image.
///
/// # Errors
/// A prefix is not valid, standard input is used twice, or a directory has no canonical name.
pub fn inputs(words: &[OsString]) -> anyhow::Result<Vec<Input>> {
    let mut inputs = Vec::with_capacity(words.len());
    for word in words {
        let bytes = text::bytes(word);
        let split = bytes.windows(2).rposition(|pair| pair == b"=/");
        let split = split.filter(|_| !Path::new(word).exists());
        let (source, place) = match split {
            Some(at) => (OsStr::from_bytes(&bytes[..at]), Some(prefix(&bytes[at + 1..])?)),
            None => (word.as_os_str(), None),
        };
        // What is before the `@` has to be there, else the error names the whole word.
        let input = match open::split_snapshot(source) {
            (path, Some(name)) if path.exists() || elsewhere::is_url(&path) => {
                let mut input = Input::new(path);
                input.snapshot = Some(open::snapshot(Some(&name)));
                input
            }
            _ => Input::new(source),
        };
        inputs.push(Input { prefix: place, ..input });
    }
    let stdin_count = inputs.iter().filter(|input| input.kind == InputKind::Stdin).count();
    if stdin_count > 1 {
        bail!(Misuse("standard input can be used for one source only".to_owned()));
    }
    if inputs.len() > 1 {
        for input in &mut inputs {
            let InputKind::Path(path) = &input.kind else { continue };
            if input.prefix.is_none() && path.is_dir() {
                let full = path.canonicalize().with_context(|| text::path(path))?;
                let name = full.file_name().map_or(Vec::new(), |name| text::bytes(name).to_vec());
                input.prefix = Some(name);
            }
        }
    }
    Ok(inputs)
}

/// Selects a manifest as the source. The options that filter sources do not apply to it.
///
/// # Errors
/// One of these options is given.
pub fn manifest(path: &Path, args: &InputArgs) -> anyhow::Result<Input> {
    let is_chosen = !args.rule_order.is_empty()
        || args.input_list.is_some()
        || args.gitignore
        || args.exclude_caches
        || args.exclude_nodump
        || args.max_size.is_some()
        || args.newer.is_some()
        || args.remove_empty_dirs
        || args.filter_dry_run
        || !args.without.is_empty();
    if is_chosen {
        let what = "a manifest cannot be filtered; remove the entries from the manifest instead";
        bail!(Misuse(what.to_owned()));
    }
    Ok(Input { kind: InputKind::Manifest(path.to_owned()), prefix: None, snapshot: None })
}

/// Parses a path of the image below which a source is stored.
///
/// # Errors
/// It has a component `..`.
pub fn prefix(given: &[u8]) -> anyhow::Result<Vec<u8>> {
    let names = given.split(|&byte| byte == b'/').filter(|n| !n.is_empty() && *n != b".");
    let names: Vec<&[u8]> = names.collect();
    if names.contains(&&b".."[..]) {
        let given = text::escape(given);
        bail!(Misuse(format!("prefix {given}: `..` is not allowed in a path of an image")));
    }
    Ok(names.join(&b'/'))
}

/// Translates the options that select files.
///
/// # Errors
/// A rule is not valid, or a file cannot be read.
pub fn choose(args: &InputArgs) -> anyhow::Result<Choose> {
    let mut rules = Rules::default();
    for (option, at) in &args.rule_order {
        match option {
            RuleOption::Filter => add_rule(&mut rules, text::bytes(&args.filter[*at]), 0)?,
            RuleOption::Include => {
                rules.include(text::bytes(&args.include[*at])).map_err(Misuse::of)?
            }
            RuleOption::Exclude => {
                rules.exclude(text::bytes(&args.exclude[*at])).map_err(Misuse::of)?
            }
        }
    }
    let mut choose = Choose {
        rules: Arc::new(rules),
        no_devices: args.without.contains(&SpecialKind::Devices),
        no_fifos: args.without.contains(&SpecialKind::Fifos),
        no_sockets: args.without.contains(&SpecialKind::Sockets),
        git_ignore: args.gitignore,
        no_empty_directories: args.remove_empty_dirs,
        no_caches: args.exclude_caches,
        no_nodump: args.exclude_nodump,
        len_max: args.max_size,
        newer: args.newer.as_deref().map(newer).transpose()?,
        ..Choose::default()
    };
    if let Some(file) = &args.input_list {
        let list = read(file)?;
        let end = if list.contains(&0) { 0 } else { b'\n' };
        choose.set_list(list.split(|&byte| byte == end).filter(|path| !path.is_empty()));
    }
    Ok(choose)
}

/// Reads the file of `--file-contexts`, and those beside it that belong to it.
///
/// # Errors
/// A file cannot be read, or a line is not valid.
pub fn file_contexts(args: &InputArgs) -> anyhow::Result<Option<Arc<FileContexts>>> {
    let Some(file) = &args.file_contexts else { return Ok(None) };
    let mut contexts = FileContexts::default();
    contexts.add(&read(file)?).map_err(|what| anyhow::anyhow!("{}, {what}", text::path(file)))?;
    // In the order of libselinux. Standard input has no files beside it.
    let suffixes: &[&str] = match file.as_os_str() == "-" {
        true => &[],
        false => &[".homedirs", ".local", ".subs", ".subs_dist"],
    };
    for suffix in suffixes {
        let mut beside = file.clone().into_os_string();
        beside.push(suffix);
        let bytes = match std::fs::read(&beside) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            read => {
                read.with_context(|| format!("cannot read {}", text::path(Path::new(&beside))))?
            }
        };
        let added = match suffix.starts_with(".subs") {
            true => contexts.add_aliases(&bytes, *suffix == ".subs_dist"),
            false => contexts.add(&bytes),
        };
        added.map_err(|what| anyhow::anyhow!("{}, {what}", text::path(Path::new(&beside))))?;
    }
    Ok(Some(Arc::new(contexts)))
}

/// Parses the rules of `--rule`.
///
/// # Errors
/// A rule is not valid.
pub fn file_rules(words: &[OsString]) -> anyhow::Result<Arc<FileRules>> {
    let mut rules = FileRules::default();
    for word in words {
        rules.add(text::bytes(word)).map_err(Misuse::of)?;
    }
    Ok(Arc::new(rules))
}

/// Reads the file of `--pseudo`.
///
/// # Errors
/// The file cannot be read, or a line is not valid.
pub fn pseudo(args: &InputArgs) -> anyhow::Result<Option<Arc<Pseudo>>> {
    let Some(file) = &args.pseudo else { return Ok(None) };
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let ids = |is_group, who: &str| {
        let list = if is_group { GROUPS } else { USERS };
        owners::id(who, list).map_err(|error| format!("{error:#}"))
    };
    let parsed = Pseudo::parse(&read(file)?, epoch.unwrap_or(0), &ids);
    let parsed = parsed.map_err(|what| anyhow::anyhow!("{}, {what}", text::path(file)))?;
    Ok(Some(Arc::new(parsed)))
}

/// The time of `--newer`: that of a file, or a time as in `--mtime`.
fn newer(given: &OsStr) -> anyhow::Result<Timestamp> {
    if matches!(given.as_bytes().first(), Some(b'/' | b'.')) {
        let path = Path::new(given);
        let found = std::fs::metadata(path);
        let found =
            found.with_context(|| format!("--newer: cannot look at {}", text::path(path)))?;
        return Ok(Timestamp { sec: found.mtime(), nsec: found.mtime_nsec() as u32 });
    }
    let parsed = time::parse(&given.to_string_lossy());
    let (sec, nsec) = parsed.map_err(|error| {
        Misuse(format!("--newer: {error}; write ./{} for a file", given.to_string_lossy()))
    })?;
    Ok(Timestamp { sec, nsec })
}

/// Reads a list of paths, separated by NUL bytes if there are any, otherwise by newlines. Leading
/// `/` and `./` are removed.
///
/// # Errors
/// The file cannot be read.
pub fn path_list(file: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let list = read(file)?;
    let end = if list.contains(&0) { 0 } else { b'\n' };
    let paths = list.split(|&byte| byte == end).map(|path| {
        let mut path = path;
        while let Some(rest) = path.strip_prefix(b"./").or_else(|| path.strip_prefix(b"/")) {
            path = rest;
        }
        path.to_vec()
    });
    Ok(paths.filter(|path| !path.is_empty()).collect())
}

fn add_rule(rules: &mut Rules, line: &[u8], depth: usize) -> anyhow::Result<()> {
    let start = line.trim_ascii_start();
    let file = [&b". "[..], b"merge "].iter().find_map(|word| start.strip_prefix(*word));
    let Some(file) = file else {
        // Only a rule on the command line is a usage error.
        return rules.add(line).map_err(|error| match depth {
            0 => Misuse::of(error).into(),
            _ => error.into(),
        });
    };
    if depth >= MERGE_DEPTH_MAX {
        bail!("filter files include each other more than {MERGE_DEPTH_MAX} levels deep");
    }
    let path = Path::new(OsStr::from_bytes(file.trim_ascii()));
    let bytes = read(path)?;
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        add_rule(rules, line, depth + 1)
            .with_context(|| format!("{}, line {}", text::path(path), index + 1))?;
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("cannot read {}", text::path(path)))
}

/// Translates the options that change metadata.
///
/// # Errors
/// A value is not valid, or a file cannot be read.
pub fn adjust(args: &InputArgs) -> anyhow::Result<Adjust> {
    let patterns = |words: &[OsString]| {
        let patterns = words.iter().map(|word| NamePattern::new(text::bytes(word)));
        patterns.collect::<Result<Vec<_>, _>>().map_err(Misuse::of)
    };
    let mut adjust = Adjust {
        owner: args.owner.as_deref().map(|who| owners::id(who, USERS)).transpose()?,
        group: args.group.as_deref().map(|who| owners::id(who, GROUPS)).transpose()?,
        chmod: args.chmod.clone(),
        mtime: args.mtime.map(|(sec, nsec)| Timestamp { sec, nsec }),
        no_xattrs: args.no_xattrs,
        xattr_include: patterns(&args.xattr_include)?,
        xattr_exclude: patterns(&args.xattr_exclude)?,
        ..Adjust::default()
    };
    if args.all_root {
        (adjust.owner, adjust.group) = (Some(0), Some(0));
    }
    if let Some(file) = &args.map_users {
        map(&String::from_utf8_lossy(&read(file)?), &mut adjust)
            .with_context(|| text::path(file))?;
    }
    if adjust.mtime.is_none()
        && let Some(epoch) = std::env::var_os("SOURCE_DATE_EPOCH")
    {
        let sec = epoch.to_str().and_then(|text| text.parse::<i64>().ok());
        let Some(sec) = sec else {
            bail!(
                "SOURCE_DATE_EPOCH is `{}`; it must be a number of seconds since 1970",
                epoch.to_string_lossy()
            );
        };
        adjust.time_max = Some(Timestamp { sec, nsec: 0 });
    }
    Ok(adjust)
}

fn map(text: &str, adjust: &mut Adjust) -> anyhow::Result<()> {
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let range = |first: &str, to: &str| {
            let (first, last) = first.split_once('-').unwrap_or((first, first));
            let range = IdRange {
                first: first.parse().ok()?,
                last: last.parse().ok()?,
                to: to.parse().ok()?,
            };
            let fits = range.first <= range.last;
            (fits && range.to.checked_add(range.last - range.first).is_some()).then_some(range)
        };
        match words[..] {
            [] => continue,
            ["user", first, to] if range(first, to).is_some() => {
                adjust.owner_map.extend(range(first, to));
            }
            ["group", first, to] if range(first, to).is_some() => {
                adjust.group_map.extend(range(first, to));
            }
            _ => {
                bail!(
                    "line {}: `{line}` is not valid; use `user FROM TO` or `group FROM-LAST TO`",
                    index + 1
                )
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_parsed() {
        let mut adjust = Adjust::default();
        map("user 1000 0 # me\n\ngroup 100-199 5000\n", &mut adjust).unwrap();
        assert_eq!(adjust.owner_map, [IdRange { first: 1000, last: 1000, to: 0 }]);
        assert_eq!(adjust.group_map, [IdRange { first: 100, last: 199, to: 5000 }]);
        for bad in ["user 1", "group 5-4 1", "x 1 2", "user 0-9 4294967290"] {
            assert!(map(bad, &mut adjust).is_err(), "{bad}");
        }
    }

    #[test]
    fn prefixes_follow_an_equals_sign() {
        let words = ["a=/opt/./app/", "b", "-", "c=d"].map(OsString::from);
        let inputs = inputs(&words).unwrap();
        assert_eq!(inputs[0].prefix.as_deref(), Some(&b"opt/app"[..]));
        assert_eq!(inputs[0].kind, InputKind::Path("a".into()));
        assert_eq!(inputs[2].kind, InputKind::Stdin);
        assert_eq!((&inputs[1].prefix, &inputs[3].prefix), (&None, &None));
        assert!(super::inputs(&["a=/../b".into()]).is_err());
    }
}
