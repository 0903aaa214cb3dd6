//! Block blobs of Azure Blob Storage.
//!
//! A blob is a list of blocks. Blocks are uploaded, several at once, each with its MD5; the list
//! that names them makes the blob of them in one request, if the name has the blob that it may
//! have. A list may also name blocks that the blob already has: so it grows, and nothing is copied.
//!
//! Blocks that no list names are not visible. Azure has no request that removes them, and removes
//! them itself after a week.

use std::collections::HashSet;

use super::name::Name;
use super::parts::{cut, md5, random, read, send_all};
use super::task::Upload;
use crate::error::Reason;
use crate::fetch::{MARKS, Reply};
use crate::http::Request;
use crate::text;

/// Number of blocks that a blob may have.
const BLOCKS_MAX: u64 = 50_000;
/// Number of blocks that one upload adds at most.
const ADDED_MAX: u64 = 10_000;
/// Bytes of the ID of a block. All blocks of a blob must have IDs of one length, of 1 to 64 bytes.
const ID_LEN: usize = 32;
/// The longest ID that the store takes.
const ID_LEN_MAX: usize = 64;
/// IDs that are shorter leave no room for ours beside those of others.
const ID_LEN_MIN: usize = 4;
const MARK: &str = MARKS[2];

/// The blocks of a blob.
#[derive(Default)]
struct Blocks {
    /// ID, in base64, and length of those that the blob consists of, in order.
    committed: Vec<(String, u64)>,
    /// IDs of those that were uploaded, and not yet named by a list.
    waiting: Vec<String>,
}

impl Blocks {
    /// How many blocks begin a blob of `len` bytes, and how long they are together.
    fn within(&self, len: u64) -> (usize, u64) {
        let mut total = 0u64;
        for (count, (_, block_len)) in self.committed.iter().enumerate() {
            let with_it = total.saturating_add(*block_len);
            if with_it > len {
                return (count, total);
            }
            total = with_it;
        }
        (self.committed.len(), total)
    }

    /// Length of the IDs of these blocks, before base64.
    fn id_len(&self) -> Option<usize> {
        let mut ids = self.committed.iter().map(|(id, _)| id).chain(&self.waiting);
        ids.next().and_then(|id| text::from_base64(id)).map(|id| id.len())
    }
}

/// How many of the first `len` bytes of a blob can be kept: those of whole blocks. None, if it was
/// not uploaded in blocks, or has too many.
pub(super) fn copied(name: &Name, len: u64) -> Result<u64, Reason> {
    let blocks = blocks_of(name)?;
    let (count, total) = blocks.within(len);
    let has_room = count as u64 + ADDED_MAX <= BLOCKS_MAX
        && blocks.id_len().is_some_and(|id_len| id_len >= ID_LEN_MIN);
    Ok(if has_room { total } else { 0 })
}

/// Writes a blob. Returns its ETag, if the store says it.
pub(super) fn put(upload: &Upload<'_>) -> Result<Option<String>, Reason> {
    let Upload { name, contents, watch, .. } = *upload;
    let blocks = blocks_of(name)?;
    let (kept, total) = blocks.within(contents.copied_len);
    if total != contents.copied_len {
        return Err(Reason::Replaced);
    }
    let kept = &blocks.committed[..kept];
    let parts = cut(&contents.range, ADDED_MAX);
    let ids = new_ids(&blocks, parts.len())?;
    send_all(&parts, watch, &|part| part.end - part.start, &|index, part| {
        let id = text::encode(ids[index].as_bytes(), false);
        name.fetcher.call(&[201], &|url| {
            let body = read(contents.file, part)?;
            let sum = md5(&body);
            let url = format!("{url}?comp=block&blockid={id}");
            Ok(Request::new("PUT", url, body).header("content-md5", sum))
        })?;
        Ok(())
    })?;
    watch.advance(contents.copied_len);
    upload.go_on()?;
    commit(upload, kept, &ids)
}

/// Makes a blob of blocks that it has and of new ones.
fn commit(
    upload: &Upload<'_>,
    kept: &[(String, u64)],
    added: &[String],
) -> Result<Option<String>, Reason> {
    let kept = kept.iter().map(|(id, _)| format!("<Committed>{id}</Committed>"));
    // They are found also if this request is sent again because its answer was lost.
    let added = added.iter().map(|id| format!("<Latest>{id}</Latest>"));
    let list: String = kept.chain(added).collect();
    let list = format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{list}</BlockList>");
    let reply = upload.name.fetcher.call(&[201, 400, 409, 412], &|url| {
        let body = list.clone().into_bytes();
        let mut request = Request::new("PUT", url + "?comp=blocklist", body)
            .header("content-md5", md5(list.as_bytes()))
            .header("content-type", "application/xml")
            .header("x-ms-blob-content-type", "application/octet-stream")
            .header(MARK, upload.mark);
        request.headers.extend(upload.replace.condition());
        Ok(request)
    })?;
    if reply.status == 201 {
        return Ok(reply.etag());
    }
    match code(&reply) {
        // The name has another blob, or the blob of this upload, whose first answer was lost. The
        // end of any upload of a name drops the blocks of all others.
        "ConditionNotMet" | "TargetConditionNotMet" | "BlobAlreadyExists" | "InvalidBlockList" => {
            upload.lost(&reply).map(|()| None)
        }
        _ => Err(Reason::Server { status: reply.status, detail: reply.detail() }),
    }
}

/// The name of an error.
fn code(reply: &Reply) -> &str {
    let named = || reply.header("x-ms-error-code");
    text::xml_field(&reply.body, "Code").or_else(named).unwrap_or_default()
}

/// The blocks that a name has; none, if it is free.
fn blocks_of(name: &Name) -> Result<Blocks, Reason> {
    let reply = name
        .fetcher
        .call(&[200, 404], &|url| Ok(Request::get(url + "?comp=blocklist&blocklisttype=all")))?;
    if reply.status == 404 {
        return Ok(Blocks::default());
    }
    blocks_in(&reply.body)
        .ok_or_else(|| Reason::Answer("a list of blocks that is not valid".into()))
}

/// Reads a list of blocks. `None` if its end is missing, or anything that it must have; or if an ID
/// is not what Azure takes, which another list could not name.
fn blocks_in(xml: &str) -> Option<Blocks> {
    let (xml, _) = xml.split_once("</BlockList>")?;
    let list = |tag: &str| -> Option<Vec<(String, u64)>> {
        // A list without blocks may be missing.
        let blocks = text::xml_field(xml, tag).unwrap_or_default();
        let block = |block: &str| {
            let len = text::xml_field(block, "Size")?.parse().ok()?;
            let id = text::xml_field(block, "Name")?;
            let id_len = text::from_base64(id)?.len();
            (1..=ID_LEN_MAX).contains(&id_len).then(|| (id.to_owned(), len))
        };
        blocks.split_terminator("</Block>").map(block).collect()
    };
    let waiting = list("UncommittedBlocks")?.into_iter().map(|(id, _)| id).collect();
    Some(Blocks { committed: list("CommittedBlocks")?, waiting })
}

/// IDs that no block has, in base64, as long as those of the blocks that there are.
fn new_ids(blocks: &Blocks, count: usize) -> Result<Vec<String>, Reason> {
    let len = blocks.id_len().unwrap_or(ID_LEN);
    let mut taken: HashSet<String> = blocks.committed.iter().map(|(id, _)| id.clone()).collect();
    taken.extend(blocks.waiting.iter().cloned());
    let possible = 256u64.saturating_pow(len as u32);
    if (taken.len() + count) as u64 > possible / 4 {
        let what = format!("blocks with IDs of {len} bytes, which are too short for more of them");
        return Err(Reason::Answer(what));
    }
    let mut ids = Vec::new();
    while ids.len() < count {
        let bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| random().to_le_bytes()).collect();
        let id = text::base64(&bytes[..len]);
        if taken.insert(id.clone()) {
            ids.push(id);
        }
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\u{feff}<?xml version=\"1.0\"?><BlockList><CommittedBlocks>\
        <Block><Name>QUFBQQ==</Name><Size>5</Size></Block>\
        <Block><Name>QkJCQg==</Name><Size>7</Size></Block></CommittedBlocks>\
        <UncommittedBlocks><Block><Name>Q0NDQw==</Name><Size>9</Size></Block></UncommittedBlocks>\
        </BlockList>";

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        let blocks = blocks_in(LIST).unwrap();
        assert_eq!(blocks.committed, [("QUFBQQ==".into(), 5), ("QkJCQg==".into(), 7)]);
        assert_eq!(blocks.waiting, ["Q0NDQw=="]);
        assert_eq!(blocks.id_len(), Some(4));
        let within = [0, 4, 5, 11, 12, 99].map(|len| blocks.within(len));
        assert_eq!(within, [(0, 0), (0, 0), (1, 5), (1, 5), (2, 12), (2, 12)]);
        assert!(blocks_in(&LIST[..LIST.len() - 5]).is_none());
        let none = "<BlockList><CommittedBlocks /><UncommittedBlocks/></BlockList>";
        assert!(blocks_in(none).unwrap().committed.is_empty());
        assert!(blocks_in(&LIST.replace("<Size>7</Size>", "")).is_none());
        let long = text::base64(&[7; ID_LEN_MAX + 1]);
        for id in ["", "QUFB<x/>", "../x", &long] {
            assert!(blocks_in(&LIST.replace("QkJCQg==", id)).is_none(), "{id}");
        }
        let endless = LIST.replace("<Size>7</Size>", &format!("<Size>{}</Size>", u64::MAX));
        assert_eq!(blocks_in(&endless).unwrap().within(99), (1, 5));
    }

    #[test]
    fn new_ids_are_as_long_as_those_that_there_are_and_differ() {
        let blocks = blocks_in(LIST).unwrap();
        let ids = new_ids(&blocks, 1000).unwrap();
        let distinct: HashSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), 1000);
        assert!(ids.iter().all(|id| text::from_base64(id).unwrap().len() == 4));
        let short = Blocks { committed: vec![("QQ==".into(), 1)], waiting: Vec::new() };
        assert!(new_ids(&short, 100).is_err() && new_ids(&short, 9).unwrap().len() == 9);
        assert!(new_ids(&Blocks::default(), 1).unwrap()[0].len() == ID_LEN.div_ceil(3) * 4);
    }
}
