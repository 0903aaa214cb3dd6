//! Objects of Google Cloud Storage.
//!
//! A short object is one request ("Multipart uploads" of the JSON API). A longer one is uploaded in
//! a session, piece by piece ("Resumable uploads"). It appears with the last piece, if its MD5 is
//! the one that the session began with, and if the name has the generation that it may have. The
//! address of a session is a secret, and needs no signature.
//!
//! Bytes of the object that is replaced are not sent again: the store composes it and an object
//! with what is new, which has a name of its own until then, and is removed.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::contents::Replace;
use super::name::Name;
use super::parts::{md5_of, read};
use super::task::{Upload, gone};
use crate::error::Reason;
use crate::fetch::Reply;
use crate::http::Request;
use crate::text;

/// Objects up to this length are one request.
const SINGLE_LEN_MAX: u64 = 8 << 20;
/// Bytes of a piece. All but the last must be multiples of 256 KiB.
const PIECE_LEN: u64 = 8 << 20;
/// How often in a row a piece may be sent of which the store keeps nothing.
const STALLED_MAX: u32 = 10;
/// The name of the mark among the metadata of an object.
const MARK: &str = "shale-upload";
/// What the name of an object with what is new ends with.
const ADDED: &str = "shale-append";
const KIND: &str = "application/octet-stream";
const JSON: &str = "application/json";
const NO_SESSION: &str = "an upload session without an address, or with one that is not secure";

/// An object that is written: its name, and which generation it may replace.
struct Target<'a> {
    key: &'a str,
    /// The generation that the name must have when the upload ends; 0 for none. `None` if any will
    /// do.
    generation: Option<&'a str>,
}

/// How many of the first `len` bytes of an object the store can copy: all of it, or nothing.
pub(super) fn copied(name: &Name, len: u64) -> Result<u64, Reason> {
    Ok(if name.head()?.len() == Some(len) { len } else { 0 })
}

/// Writes an object.
pub(super) fn put(upload: &Upload<'_>) -> Result<(), Reason> {
    let name = upload.name;
    let generation = match upload.replace {
        Replace::Nothing => Some("0".to_owned()),
        Replace::Anything => None,
        Replace::Only(etag) => Some(generation_of(name, etag)?),
    };
    let generation = generation.as_deref();
    let target = Target { key: &name.url.key, generation };
    if upload.contents.copied_len > 0 {
        return compose(upload, &target);
    }
    match send_all(upload, &target)? {
        None => Ok(()),
        Some(refusal) => upload.lost(&refusal),
    }
}

/// The generation of the object with this ETag.
fn generation_of(name: &Name, etag: &str) -> Result<String, Reason> {
    let head = name.head()?;
    if head.header("etag") != Some(etag) {
        return Err(Reason::Replaced);
    }
    let generation = head.header("x-goog-generation").filter(|it| is_number(it));
    Ok(generation.ok_or_else(|| Reason::Answer("an object without generation".into()))?.to_owned())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Uploads the bytes of the file. Returns `None`, or the answer of a store that refuses: the name
/// has another object now, or the session is gone, perhaps because it ended.
fn send_all(upload: &Upload<'_>, target: &Target<'_>) -> Result<Option<Reply>, Reason> {
    upload.go_on()?;
    if upload.sent_len() <= SINGLE_LEN_MAX {
        return send_at_once(upload, target);
    }
    let fetcher = &upload.name.fetcher;
    let begun = begin(upload, target)?;
    if begun.status == 412 {
        return Ok(Some(begun));
    }
    let session = session(begun.header("location"), fetcher.endpoint().unwrap_or_default());
    let session = session.ok_or_else(|| Reason::Answer(NO_SESSION.into()))?;
    let done = send_pieces(upload, &session);
    if done.is_err() {
        // A session that stays shows nothing, costs nothing, and ends after a week.
        let make = |_| Ok(Request::to_session("DELETE", session.clone(), Vec::new()));
        let _ = fetcher.call(&[200, 204, 404, 410, 499], &make);
    }
    done
}

/// Uploads in one request.
fn send_at_once(upload: &Upload<'_>, target: &Target<'_>) -> Result<Option<Reply>, Reason> {
    let Upload { name, contents, .. } = *upload;
    let url = address(name, target, "multipart");
    // The mark is random, so no line of the contents can be that of a boundary.
    let mark = upload.mark;
    let about = about(upload)?;
    let reply = name.fetcher.call(&[200, 201, 412], &|_| {
        let head = format!(
            "--{mark}\r\ncontent-type: {JSON}\r\n\r\n{about}\r\n--{mark}\r\n\
             content-type: {KIND}\r\n\r\n"
        );
        let mut body = head.into_bytes();
        body.extend(read(contents.file, &contents.range)?);
        body.extend(format!("\r\n--{mark}--\r\n").bytes());
        let request = Request::new("POST", url.clone(), body);
        Ok(request.header("content-type", format!("multipart/related; boundary={mark}")))
    })?;
    if reply.status == 412 {
        return Ok(Some(reply));
    }
    upload.watch.advance(upload.sent_len());
    Ok(None)
}

/// Where an upload of a kind begins.
fn address(name: &Name, target: &Target<'_>, kind: &str) -> String {
    let mut url = format!(
        "{}/upload/storage/v1/b/{}/o?uploadType={kind}&name={}",
        name.fetcher.endpoint().unwrap_or_default(),
        text::encode(name.url.place.as_bytes(), false),
        text::encode(target.key.as_bytes(), false),
    );
    if let Some(generation) = target.generation {
        url += &format!("&ifGenerationMatch={generation}");
    }
    url
}

/// What the store shall know of an object.
fn about(upload: &Upload<'_>) -> Result<Value, Reason> {
    let sum = md5_of(upload.contents.file, &upload.contents.range);
    let sum = sum.map_err(|error| Reason::Local(error.to_string()))?;
    Ok(json!({ "md5Hash": sum, "contentType": KIND, "metadata": { MARK: upload.mark } }))
}

/// Begins an upload. Status 412 means that the name has another object.
fn begin(upload: &Upload<'_>, target: &Target<'_>) -> Result<Reply, Reason> {
    let url = address(upload.name, target, "resumable");
    let about = about(upload)?.to_string();
    let len = upload.sent_len();
    upload.name.fetcher.call(&[200, 201, 412], &|_| {
        Ok(Request::post(url.clone(), JSON, about.clone().into_bytes())
            .header("x-upload-content-type", KIND)
            .header("x-upload-content-length", len.to_string()))
    })
}

/// The address of a session, in an answer of the store at `endpoint`. If the store has TLS, so must
/// the session, because anybody who knows its address can write the object.
fn session(location: Option<&str>, endpoint: &str) -> Option<String> {
    let allowed: &[&str] = match endpoint.starts_with("https://") {
        true => &["https://"],
        false => &["https://", "http://"],
    };
    let location = location?;
    allowed.iter().any(|scheme| location.starts_with(scheme)).then(|| location.to_owned())
}

/// Sends all pieces. Returns as [`send_all`] does.
fn send_pieces(upload: &Upload<'_>, session: &str) -> Result<Option<Reply>, Reason> {
    let Upload { name, contents, watch, .. } = *upload;
    let (start, len) = (contents.range.start, upload.sent_len());
    let all = [200, 201, 308, 404, 410, 412];
    let request = |range: &str, body| {
        let request = Request::to_session("PUT", session.to_owned(), body);
        request.header("content-range", format!("bytes {range}/{len}"))
    };
    let (mut at, mut failed, mut stalled) = (0, 0, 0);
    loop {
        upload.go_on()?;
        let to = len.min(at + PIECE_LEN);
        let sent = name.fetcher.call_once(&all, &|_| {
            let body = read(contents.file, &(start + at..start + to))?;
            Ok(request(&format!("{at}-{}", to - 1), body))
        });
        let reply = match sent {
            Ok(reply) => reply,
            Err(failure) => {
                name.fetcher.wait(failure, &mut failed)?;
                // The store may have more than it could tell.
                name.fetcher.call(&all, &|_| Ok(request("*", Vec::new())))?
            }
        };
        match reply.status {
            200 | 201 => {
                watch.advance(len - at);
                return Ok(None);
            }
            308 => {
                let held = confirmed(&reply, at..=to, len)?;
                if held > at {
                    (failed, stalled) = (0, 0);
                    watch.advance(held - at);
                    at = held;
                } else {
                    stalled += 1;
                }
                if stalled > STALLED_MAX {
                    return Err(Reason::Answer("it takes no more bytes".into()));
                }
            }
            _ => return Ok(Some(reply)),
        }
    }
}

/// How many bytes a session of `len` bytes has, which must be one of `possible`.
fn confirmed(reply: &Reply, possible: RangeInclusive<u64>, len: u64) -> Result<u64, Reason> {
    let held = held(reply.header("range"));
    held.filter(|held| possible.contains(held) && *held < len).ok_or_else(|| {
        let (least, most) = possible.into_inner();
        Reason::Answer(format!("it has other bytes than the first {least} to {most} of {len}"))
    })
}

/// How many bytes a session has, by the header `range` of its answer.
fn held(range: Option<&str>) -> Option<u64> {
    match range {
        None => Some(0),
        Some(range) => range.trim().strip_prefix("bytes=0-")?.parse::<u64>().ok()?.checked_add(1),
    }
}

/// Makes an object of the one that is replaced, and of the bytes of the file, which have a name of
/// their own meanwhile.
fn compose(upload: &Upload<'_>, target: &Target<'_>) -> Result<(), Reason> {
    let name = upload.name;
    let key = format!("{}.{}.{ADDED}", target.key, upload.mark);
    let added = Target { key: &key, generation: Some("0") };
    let mut generation = None;
    let done = send_all(upload, &added).and_then(|refusal| {
        let generation = generation.insert(generation_made(upload, &key, refusal)?);
        upload.watch.advance(upload.contents.copied_len);
        upload.go_on()?;
        join(upload, target, (&key, generation))
    });
    let shown = format!("gs://{}/{key}", name.url.place);
    match (done, remove(name, &key, generation.as_deref())) {
        (Ok(()), Err(_)) => Err(Reason::Remains(shown)),
        (Err(reason), Err(_)) => {
            let what = format!("what was uploaded may still be in the store: remove {shown}");
            Err(Reason::Left { reason: Box::new(reason), what })
        }
        (done, Ok(())) => done,
    }
}

/// The address of what the store says of an object.
fn address_of(name: &Name, key: &str) -> String {
    let endpoint = name.fetcher.endpoint().unwrap_or_default();
    let bucket = text::encode(name.url.place.as_bytes(), false);
    format!("{endpoint}/storage/v1/b/{bucket}/o/{}", text::encode(key.as_bytes(), false))
}

/// The generation of the object that an upload made. The store may have made it although it refused
/// the last request: it was sent again because an answer was lost.
fn generation_made(
    upload: &Upload<'_>,
    key: &str,
    refusal: Option<Reply>,
) -> Result<String, Reason> {
    let url = address_of(upload.name, key);
    let reply = upload.name.fetcher.call(&[200, 404], &|_| Ok(Request::get(url.clone())))?;
    let about: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    let field = |name: &str| about.get(name).and_then(Value::as_str);
    let mark = about.get("metadata").and_then(|metadata| metadata.get(MARK));
    let is_it = mark.and_then(Value::as_str) == Some(upload.mark)
        && field("size") == Some(upload.sent_len().to_string().as_str());
    match field("generation").filter(|generation| is_it && is_number(generation)) {
        Some(generation) => Ok(generation.to_owned()),
        None => Err(gone(&refusal.unwrap_or(reply))),
    }
}

/// Has the store join the object that is replaced and the one with what is new.
fn join(
    upload: &Upload<'_>,
    target: &Target<'_>,
    (added, generation): (&str, &str),
) -> Result<(), Reason> {
    let name = upload.name;
    // An emulator may ignore the conditions.
    upload.check_free()?;
    let old = target.generation.unwrap_or_default();
    let body = json!({
        "sourceObjects": [
            { "name": target.key, "generation": old },
            { "name": added, "generation": generation },
        ],
        "destination": { "contentType": KIND, "metadata": { MARK: upload.mark } },
    });
    let url = format!("{}/compose?ifGenerationMatch={old}", address_of(name, target.key));
    let body = body.to_string().into_bytes();
    let request = || Request::post(url.clone(), JSON, body.clone());
    let mut failed = 0;
    loop {
        match name.fetcher.call_once(&[200, 404, 412], &|_| Ok(request())) {
            Ok(reply) if reply.status == 200 => return Ok(()),
            Ok(refusal) => return upload.lost(&refusal),
            Err(failure) => name.fetcher.wait(failure, &mut failed)?,
        }
        // It may have been done although the answer is missing.
        if name.head()?.mark() == Some(upload.mark) {
            return Ok(());
        }
    }
}

/// Removes an object; of a bucket that keeps old generations, this one.
fn remove(name: &Name, key: &str, generation: Option<&str>) -> Result<(), Reason> {
    let mut url = address_of(name, key);
    if let Some(generation) = generation {
        url += &format!("?generation={generation}");
    }
    let make = |_| Ok(Request::new("DELETE", url.clone(), Vec::new()));
    name.fetcher.call(&[200, 204, 404], &make).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_session_is_read_from_any_answer() {
        assert_eq!(held(None), Some(0));
        assert_eq!(held(Some("bytes=0-262143")), Some(262_144));
        let endless = format!("bytes=0-{}", u64::MAX);
        for range in ["", "bytes=0-", "bytes=1-5", "bytes=0--1", "0-5", &endless] {
            assert_eq!(held(Some(range)), None, "{range}");
        }
    }

    #[test]
    fn a_session_is_as_secure_as_its_store() {
        let store = "https://store.example";
        let of = |location| session(Some(location), store).is_some();
        assert!(of("https://other.example/upload?id=1"));
        for location in ["http://store.example/upload?id=1", "/upload?id=1", "", "ftp://x/"] {
            assert!(!of(location), "{location}");
        }
        assert!(session(Some("http://127.0.0.1/x"), "http://127.0.0.1").is_some());
        assert!(session(None, store).is_none());
    }
}
