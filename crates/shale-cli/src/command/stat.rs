//! `shale stat`.

use serde_json::{Map, Value, json};
use shale::listing::resolve;
use shale::read::{
    Attributes, InodeKind, Options, PieceKind, TIME_ATIME, TIME_BTIME, TIME_CTIME, Tree,
};

use super::select;
use crate::args::Paths;
use crate::attributes::{as_json, kind_name, mode_letters, text_time};
use crate::exit::Exit;
use crate::report::Say;
use crate::time::LocalTime;
use crate::{open, text};
use shale::owners::Owners;

/// Number of pieces of a file that are shown without `-v`.
const PIECES_SHOWN: usize = 8;

/// Shows all metadata of each path. Symbolic links are not followed.
///
/// # Errors
/// A path does not exist, or the image cannot be read.
pub fn run(args: &Paths, say: &Say) -> anyhow::Result<Exit> {
    let tree = open::tree(&args.image, Options::default(), say)?;
    let mut all = Vec::new();
    for path in &select::expand(&tree, &args.paths)? {
        let found = resolve(&tree, path, false)?;
        if say.json {
            all.push(Value::Object(as_object(&tree, path, &found)?));
        } else {
            say.raw(as_text(&tree, path, &found, say)?.as_bytes())?;
        }
    }
    if say.json {
        say.value(&all)?;
    }
    Ok(Exit::Done)
}

fn as_object(tree: &Tree, path: &[u8], found: &Attributes) -> anyhow::Result<Map<String, Value>> {
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
        one.insert("value_hex".to_owned(), shale::hex::encode(&xattr.value).into());
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
                PieceKind::Rebuilt { chunk, chunk_offset } => {
                    one["chunk"] = chunk.into();
                    one["chunk_offset"] = chunk_offset.into();
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

fn as_text(tree: &Tree, path: &[u8], found: &Attributes, say: &Say) -> anyhow::Result<String> {
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
    let owners = Owners::of_machine();
    out += &format!(
        "\n inode: {}  links: {}  size: {}\n  mode: {:04o} {}  owner: {}  group: {}\n",
        found.inode,
        found.link_count,
        found.size,
        found.permissions,
        mode_letters(found),
        owners.user(found.uid),
        owners.group(found.gid)
    );
    let clock = LocalTime::new();
    out += &format!(" mtime: {}\n", clock.full(found.mtime));
    let kept = tree.snapshot().times_kept;
    for (bit, key, stamp) in [
        (TIME_ATIME, "atime", found.atime),
        (TIME_CTIME, "ctime", found.ctime),
        (TIME_BTIME, "btime", found.btime),
    ] {
        if kept & bit != 0 {
            out += &format!(" {key}: {}\n", clock.full(stamp));
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
                PieceKind::Rebuilt { chunk, chunk_offset } => {
                    format!("rebuilt chunk {chunk} at {chunk_offset}")
                }
                PieceKind::Hole => "hole".to_owned(),
                PieceKind::Zero => "zeros".to_owned(),
            };
            out += &format!(" piece: {} bytes from {}: {place}\n", piece.len, piece.offset);
        }
        if more > 0 {
            out += &format!("        and {more} more; -v shows them\n");
        }
    }
    Ok(out)
}
