//! `shale stat`.

use serde_json::{Map, Value, json};
use shale::listing::resolve;
use shale::read::{
    Attributes, InodeKind, Options, PieceKind, TIME_ATIME, TIME_BTIME, TIME_CTIME, Tree,
};

use super::attributes::{as_json, kind_name, mode_letters, text_time, time};
use crate::args::Paths;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, text};

/// Pieces of a file that are shown without `-v`.
const PIECES_SHOWN: usize = 8;

/// Shows everything about each path. Symbolic links are shown, not followed.
pub fn run(args: &Paths, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    let mut all = Vec::new();
    for path in &args.paths {
        let path = text::bytes(path);
        let found = resolve(&tree, path, false)?;
        if say.json {
            all.push(Value::Object(machine(&tree, path, &found)?));
        } else {
            say.raw(people(&tree, path, &found, say)?.as_bytes())?;
        }
    }
    if say.json {
        say.value(&all)?;
    }
    Ok(Exit::Done)
}

fn machine(tree: &Tree, path: &[u8], found: &Attributes) -> anyhow::Result<Map<String, Value>> {
    let mut object = as_json(found);
    text::put_name(&mut object, "path", path);
    let kept = tree.snapshot().times_kept;
    for (bit, key, stamp) in [
        (TIME_ATIME, "atime", found.atime),
        (TIME_CTIME, "ctime", found.ctime),
        (TIME_BTIME, "btime", found.btime),
    ] {
        if kept & bit != 0 {
            object.insert(key.to_owned(), text_time(stamp).into());
        }
    }
    if found.kind == InodeKind::Symlink {
        text::put_name(&mut object, "target", &tree.link_target(found.inode)?);
    }
    let mut xattrs = Vec::new();
    for xattr in tree.xattrs(found.inode)? {
        let mut one = Map::new();
        text::put_name(&mut one, "name", &xattr.name);
        one.insert("value_hex".to_owned(), text::hex(&xattr.value).into());
        xattrs.push(Value::Object(one));
    }
    object.insert("xattrs".to_owned(), xattrs.into());
    if found.kind == InodeKind::File {
        let mut pieces = Vec::new();
        for piece in tree.pieces(found.inode, 0..u64::MAX)? {
            let piece = piece?;
            let mut one = json!({"offset": piece.offset, "len": piece.len});
            match piece.kind {
                PieceKind::Frame { frame, frame_offset } => {
                    one["frame"] = frame.into();
                    one["frame_offset"] = frame_offset.into();
                }
                PieceKind::Hole => one["kind"] = "hole".into(),
                PieceKind::Zero => one["kind"] = "zero".into(),
            }
            pieces.push(one);
        }
        object.insert("pieces".to_owned(), pieces.into());
    }
    Ok(object)
}

fn people(tree: &Tree, path: &[u8], found: &Attributes, say: &Say) -> anyhow::Result<String> {
    let mut out = format!("  path: {}\n", text::escape(path));
    out += &format!("  kind: {}", kind_name(found.kind));
    match found.kind {
        InodeKind::Symlink => {
            out += &format!(" to {}", text::escape(&tree.link_target(found.inode)?));
        }
        InodeKind::BlockDevice | InodeKind::CharDevice => {
            let (major, minor) = found.device();
            out += &format!(" {major},{minor}");
        }
        _ => {}
    }
    out += &format!(
        "\n inode: {}  links: {}  size: {}\n  mode: {:04o} {}  owner: {}  group: {}\n",
        found.inode,
        found.link_count,
        found.size,
        found.permissions,
        mode_letters(found),
        found.uid,
        found.gid
    );
    out += &format!(" mtime: {}\n", time(found.mtime));
    let kept = tree.snapshot().times_kept;
    for (bit, key, stamp) in [
        (TIME_ATIME, "atime", found.atime),
        (TIME_CTIME, "ctime", found.ctime),
        (TIME_BTIME, "btime", found.btime),
    ] {
        if kept & bit != 0 {
            out += &format!(" {key}: {}\n", time(stamp));
        }
    }
    for xattr in tree.xattrs(found.inode)? {
        out += &format!(" xattr: {}, {} bytes\n", text::escape(&xattr.name), xattr.value.len());
    }
    if found.kind == InodeKind::File {
        let shown = if say.verbose > 0 { usize::MAX } else { PIECES_SHOWN };
        let mut more = 0u64;
        for (number, piece) in tree.pieces(found.inode, 0..u64::MAX)?.enumerate() {
            let piece = piece?;
            if number >= shown {
                more += 1;
                continue;
            }
            let place = match piece.kind {
                PieceKind::Frame { frame, frame_offset } => {
                    format!("frame {frame} at {frame_offset}")
                }
                PieceKind::Hole => "hole".to_owned(),
                PieceKind::Zero => "zero run".to_owned(),
            };
            out += &format!(" piece: {} bytes from {}: {place}\n", piece.len, piece.offset);
        }
        if more > 0 {
            out += &format!("        and {more} more; -v shows them\n");
        }
    }
    Ok(out)
}
