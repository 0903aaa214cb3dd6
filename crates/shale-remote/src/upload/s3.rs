//! Objects of a store with the S3 protocol.
//!
//! Short objects are one request. Longer ones are uploaded in parts; what the store has of them
//! becomes an object only with the last request, and is given up on every error. Each request
//! carries the SHA-256 of its body in its signature, so the store refuses bytes that changed on
//! their way. Parts may be copied from the object that is replaced, inside of the store.

use std::io;
use std::ops::Range;

use super::contents::{Condition, Contents, Replace};
use super::name::Name;
use super::parts::{cut, read, send_all};
use super::task::Upload;
use crate::error::Reason;
use crate::fetch::{MARKS, Reply};
use crate::http::Request;
use crate::text;

/// Objects up to this length are one request.
const SINGLE_LEN_MAX: u64 = 8 << 20;
/// Bytes of a part that is copied inside of the store. Stores allow 5 GiB.
const COPIED_LEN: u64 = 1 << 30;
/// Bytes that a part must have, unless it is the last one.
const PART_LEN_ALLOWED: u64 = 5 << 20;
/// Number of parts that stores allow.
const PARTS_MAX: u64 = 10_000;
const MARK: &str = MARKS[0];
/// What is left after an upload that could not be given up.
const LEFT: &str = "its uploaded parts are still in the store and cost money: list and remove \
     them with `aws s3api list-multipart-uploads` and `abort-multipart-upload`";

/// A part of an upload.
struct Part {
    /// Where it begins: in the object that is replaced, or in the file.
    range: Range<u64>,
    is_copied: bool,
}

/// How many of the first `len` bytes of an object the store can copy.
pub(super) fn copied(len: u64) -> u64 {
    if len < PART_LEN_ALLOWED { 0 } else { len }
}

/// Writes an object. Returns its ETag, if the store says it.
pub(super) fn put(upload: &Upload<'_>) -> Result<Option<String>, Reason> {
    match upload.contents.copied_len == 0 && upload.sent_len() <= SINGLE_LEN_MAX {
        true => put_at_once(upload),
        false => put_in_parts(upload),
    }
}

fn put_at_once(upload: &Upload<'_>) -> Result<Option<String>, Reason> {
    upload.go_on()?;
    let contents = upload.contents;
    let reply = conditionally(upload, &|url, condition| {
        let request = Request::new("PUT", url, read(contents.file, &contents.range)?);
        let mut request = request.header(MARK, upload.mark);
        request.headers.extend(condition.clone());
        Ok(request)
    })?;
    if reply.status != 200 {
        upload.lost(&reply)?;
    }
    upload.watch.advance(upload.sent_len());
    Ok(reply.etag())
}

fn put_in_parts(upload: &Upload<'_>) -> Result<Option<String>, Reason> {
    let begun = upload.name.fetcher.call(&[200], &|url| {
        Ok(Request::new("POST", url + "?uploads=", Vec::new()).header(MARK, upload.mark))
    })?;
    let id = text::xml_field(&begun.body, "UploadId").filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| Reason::Answer("an upload without an ID".into()))?;
    let id = text::encode(text::unescape_xml(id).as_bytes(), false);
    let parts = plan(upload.contents);
    let send = |index, part: &Part| send_part(upload, part, (index + 1, &id));
    let done = send_all(&parts, upload.watch, &|part| part.range.end - part.range.start, &send);
    let done = done.and_then(|etags| {
        // Some stores ignore the condition of the last request.
        upload.check_free()?;
        complete(upload, &etags, &id)
    });
    done.map_err(|reason| match give_up(upload.name, &id) {
        Ok(()) => reason,
        Err(_) => Reason::Left { reason: Box::new(reason), what: LEFT.into() },
    })
}

/// Uploads one part, and returns its ETag.
fn send_part(
    upload: &Upload<'_>,
    part: &Part,
    (number, id): (usize, &str),
) -> Result<String, Reason> {
    let Upload { name, contents, replace, .. } = *upload;
    let url = |url: String| format!("{url}?partNumber={number}&uploadId={id}");
    if !part.is_copied {
        let reply = name.fetcher.call(&[200], &|address| {
            Ok(Request::new("PUT", url(address), read(contents.file, &part.range)?))
        })?;
        return reply.etag().ok_or_else(|| Reason::Answer("a part without an ETag".into()));
    }
    let from = format!("/{}/{}", name.url.place, name.url.key);
    let reply = name.fetcher.call(&[200, 412], &|address| {
        let range = format!("bytes={}-{}", part.range.start, part.range.end - 1);
        let request = Request::new("PUT", url(address), Vec::new())
            .header("x-amz-copy-source", text::encode(from.as_bytes(), true))
            .header("x-amz-copy-source-range", range);
        Ok(match replace {
            Replace::Only(etag) => request.header("x-amz-copy-source-if-match", etag.clone()),
            _ => request,
        })
    })?;
    if reply.status == 412 {
        return Err(Reason::Replaced);
    }
    // A copy that fails late has the status of one that succeeds.
    match text::xml_field(&reply.body, "ETag") {
        Some(etag) => Ok(text::unescape_xml(etag)),
        None => Err(failure_in(&reply.body, "a part was not copied")),
    }
}

/// Makes an object of the parts.
fn complete(upload: &Upload<'_>, etags: &[String], id: &str) -> Result<Option<String>, Reason> {
    upload.go_on()?;
    let parts = etags.iter().enumerate().map(|(at, etag)| {
        let etag = text::escape_xml(etag);
        format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", at + 1)
    });
    let list: String = parts.collect();
    let list = format!(
        "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{list}\
         </CompleteMultipartUpload>"
    );
    let reply = conditionally(upload, &|url, condition| {
        let url = format!("{url}?uploadId={id}");
        let mut request = Request::post(url, "application/xml", list.clone().into_bytes());
        request.headers.extend(condition.clone());
        Ok(request)
    })?;
    if reply.status != 200 {
        upload.lost(&reply)?;
        return Ok(None);
    }
    match text::xml_field(&reply.body, "ETag") {
        Some(etag) => Ok(Some(text::unescape_xml(etag))),
        None => match upload.name.head()? {
            // The answer was lost, and the request was tried again.
            head if head.mark() == Some(upload.mark) => Ok(head.etag()),
            _ => Err(failure_in(&reply.body, "the parts were not made an object")),
        },
    }
}

/// Sends a request with the condition of an upload. A store that does not know conditions gets it
/// without, after a look at the object.
fn conditionally(
    upload: &Upload<'_>,
    make: &dyn Fn(String, &Option<Condition>) -> io::Result<Request>,
) -> Result<Reply, Reason> {
    let condition = upload.replace.condition();
    let all = [200, 404, 409, 412, 501];
    let reply = upload.name.fetcher.call(&all, &|url| make(url, &condition))?;
    if reply.status != 501 || condition.is_none() {
        return Ok(reply);
    }
    upload.check_free()?;
    upload.name.fetcher.call(&all, &|url| make(url, &None))
}

/// Tells the store to forget the parts.
fn give_up(name: &Name, id: &str) -> Result<(), Reason> {
    let make = |url| Ok(Request::new("DELETE", format!("{url}?uploadId={id}"), Vec::new()));
    // It may be gone already.
    name.fetcher.call(&[200, 204, 404], &make).map(|_| ())
}

/// An error that a store reports with the status of success.
fn failure_in(body: &str, what: &str) -> Reason {
    let code = text::xml_field(body, "Code").unwrap_or("no reason given");
    Reason::Answer(text::one_line(&format!("{what} ({code})")))
}

/// Cuts the contents into parts.
fn plan(contents: &Contents<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    let copies = (contents.copied_len / COPIED_LEN).max(u64::from(contents.copied_len > 0));
    for number in 0..copies {
        let start = number * COPIED_LEN;
        // The last one takes the rest, so that none is too short.
        let end = if number + 1 == copies { contents.copied_len } else { start + COPIED_LEN };
        parts.push(Part { range: start..end, is_copied: true });
    }
    let sent = cut(&contents.range, PARTS_MAX.saturating_sub(copies));
    parts.extend(sent.into_iter().map(|range| Part { range, is_copied: false }));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_stores_allow_and_cover_everything() {
        let file = tempfile::tempfile().unwrap();
        for copied_len in [0, PART_LEN_ALLOWED, COPIED_LEN, 3 * COPIED_LEN + 1] {
            for sent in [1, 8 << 20, (8 << 20) + 1, 200 << 30, 4 << 40] {
                let range = 7..7 + sent;
                let parts = plan(&Contents { copied_len, file: &file, range: range.clone() });
                assert!(parts.len() as u64 <= PARTS_MAX);
                let (copied, sent): (Vec<_>, Vec<_>) = parts.iter().partition(|it| it.is_copied);
                for (parts, whole) in [(copied, 0..copied_len), (sent, range)] {
                    let mut at = whole.start;
                    for part in &parts {
                        assert_eq!(part.range.start, at);
                        at = part.range.end;
                    }
                    assert_eq!(at, whole.end);
                }
                let before_last = &parts[..parts.len() - 1];
                let len = |part: &Part| part.range.end - part.range.start;
                assert!(before_last.iter().all(|it| len(it) >= PART_LEN_ALLOWED));
                assert!(parts.iter().all(|it| len(it) <= 5 << 30));
            }
        }
    }
}
