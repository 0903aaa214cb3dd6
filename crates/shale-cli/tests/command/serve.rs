//! `shale serve`: what curl, rclone and cadaver get is what is in the image, and nothing else.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};

use crate::stage::{ODD_NAME, Stage, expect, text};

/// A server, ended when it is dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn new(stage: &Stage, words: &[&str]) -> Self {
        let words = [&["serve", "--http", "127.0.0.1:0", "-q"], words].concat();
        let mut command = stage.command(&words);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        // It prints its address when it listens.
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Self { child, url: url.trim().to_owned() }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Sends bytes as they are, and returns the answer.
    fn raw(&self, request: &[u8]) -> String {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = Vec::new();
        // The server may close while there are bytes that it did not read.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let has = command.status().is_ok();
    if !has {
        println!("skipped: {program} is missing");
    }
    has
}

fn curl(stage: &Stage, words: &[&str]) -> Vec<u8> {
    let words = [&["-sS", "--noproxy", "*"], words].concat();
    expect(0, stage.other("curl", &words)).stdout
}

fn status(stage: &Stage, words: &[&str]) -> String {
    let words = [&["-o", "/dev/null", "-w", "%{http_code}"], words].concat();
    String::from_utf8(curl(stage, &words)).unwrap()
}

#[test]
fn downloads_have_ranges_validators_and_the_right_bytes() {
    let stage = Stage::new();
    if !has("curl") {
        return;
    }
    let server = Server::new(&stage, &["image.shale"]);
    let noise = fs::read(stage.path("source/docs/deep/noise.bin")).unwrap();
    let url = server.at("docs/deep/noise.bin");
    assert!(curl(&stage, &[&url]) == noise);
    assert!(curl(&stage, &["-r", "1000-1999", &url]) == noise[1000..2000]);
    assert!(curl(&stage, &["-r", "-5", &url]) == noise[noise.len() - 5..]);
    assert_eq!(status(&stage, &["-r", "999999999-", &url]), "416");
    let head = String::from_utf8(curl(&stage, &["-I", &url])).unwrap().to_lowercase();
    assert!(head.contains(&format!("content-length: {}", noise.len())), "{head}");
    let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned();
    let known = format!("If-None-Match: {etag}");
    assert_eq!(status(&stage, &["-H", &known, &url]), "304");
    let other = ["-r", "0-9", "-H", "If-Range: \"other\"", &url];
    assert_eq!(status(&stage, &other), "200");
    // A download that broke off goes on.
    fs::write(stage.path("part"), &noise[..100_000]).unwrap();
    curl(&stage, &["-C", "-", "-o", "part", &url]);
    assert!(fs::read(stage.path("part")).unwrap() == noise);
    // Links are followed, in the image only.
    assert!(curl(&stage, &[&server.at("link")]) == text());
    assert_eq!(status(&stage, &[&server.at("loop-a")]), "404");
    assert_eq!(status(&stage, &[&server.at("fifo")]), "403");
    assert_eq!(status(&stage, &["-X", "PUT", &url]), "405");
}

#[test]
fn directories_are_pages_and_archives() {
    let stage = Stage::new();
    if !has("curl") {
        return;
    }
    let server = Server::new(&stage, &["image.shale"]);
    let page = String::from_utf8(curl(&stage, &[&server.url])).unwrap();
    assert!(page.contains("href=\"./docs/\"") && page.contains("docs/text.txt"), "{page}");
    // A name with a control character and bytes that are not UTF-8 is shown harmlessly.
    assert!(page.contains("./odd%1B%5B2J%FF%0Aname") && !page.contains('\x1b'), "{page}");
    assert_eq!(status(&stage, &[&server.at("docs")]), "301");
    for (query, unpack) in [("?tar", &["tar", "-xf"][..]), ("?zip", &["unzip", "-q"])] {
        let name = &query[1..];
        if name == "zip" && !has("unzip") {
            continue;
        }
        fs::create_dir(stage.path(name)).unwrap();
        curl(&stage, &["-o", name_of(name), &server.at(&format!("docs/{query}"))]);
        let archive = stage.path(name_of(name));
        let mut command = stage.other(unpack[0], &unpack[1..]);
        expect(0, {
            command.arg(archive).current_dir(stage.path(name));
            command
        });
        let same = stage.other("diff", &["-r", "source/docs", &format!("{name}/docs")]);
        expect(0, same);
    }
}

fn name_of(name: &str) -> &str {
    if name == "tar" { "got.tar" } else { "got.zip" }
}

#[test]
fn no_request_leaves_the_image_or_ends_the_server() {
    let stage = Stage::new();
    let server = Server::new(&stage, &["image.shale"]);
    for path in [
        "/../../../../etc/passwd",
        "/docs/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/docs/text.txt/../../../etc/passwd",
    ] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = server.raw(request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    assert!(server.raw(b"\x16\x03\x01\x02\x00\x01\x00").starts_with("HTTP/1.1 400"));
    let long = [b"GET /", &[b'a'; 40_000][..], b" HTTP/1.1\r\n\r\n"].concat();
    assert!(server.raw(&long).starts_with("HTTP/1.1 431") || server.raw(&long).is_empty());
    let evil = b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert!(server.raw(evil).starts_with("HTTP/1.1 421"));
    let old = server.raw(b"GET /docs/deep/text.md HTTP/1.0\r\n\r\n");
    assert!(old.starts_with("HTTP/1.1 200") && old.ends_with("# deep\n"), "{old}");
    // Idle connections do not keep others waiting.
    let address = server.url.trim_start_matches("http://").trim_end_matches('/');
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    let again = server.raw(b"GET /empty HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(again.starts_with("HTTP/1.1 200"), "{again}");
    drop(idle);
}

#[test]
fn a_token_is_needed_where_one_is_set() {
    let stage = Stage::new();
    if !has("curl") {
        return;
    }
    let server = Server::new(&stage, &["--token", "sesame", "image.shale", "b=image.shale"]);
    let (url, _) = server.url.split_once('?').unwrap();
    assert_eq!(status(&stage, &[url]), "401");
    assert_eq!(status(&stage, &["-u", "me:wrong", url]), "401");
    assert_eq!(status(&stage, &["-u", "me:sesame", url]), "200");
    assert_eq!(status(&stage, &["-H", "Authorization: Bearer sesame", url]), "200");
    assert_eq!(status(&stage, &["-L", "-c", "jar", &server.url]), "200");
    assert_eq!(status(&stage, &["-b", "jar", &format!("{url}b/docs/text.txt")]), "200");
    assert_eq!(status(&stage, &["-b", "jar", &format!("{url}c/docs/text.txt")]), "404");
    stage.fails(2, &["serve", "--http", "0.0.0.0:0", "image.shale"], &["--token", "--no-token"]);
    stage.fails(2, &["serve", "image.shale", "./image.shale"], &["NAME=IMAGE"]);
    stage.fails(1, &["serve", "missing.shale"], &["missing.shale"]);
}

#[test]
fn damage_breaks_a_download_and_is_never_data() {
    let stage = Stage::new();
    if !has("curl") {
        return;
    }
    stage.damage_frame();
    let server = Server::new(&stage, &["image.shale"]);
    let url = server.at("docs/deep/noise.bin");
    // The damage is in the first bytes that are read.
    assert_eq!(status(&stage, &[&url]), "500");
    let cut = stage.other("curl", &["-sS", "--noproxy", "*", &server.at("docs/?tar")]);
    let cut = { cut }.output().unwrap();
    assert!(!cut.status.success(), "a broken archive looks complete");
}

#[test]
fn file_managers_see_the_tree_over_webdav() {
    let stage = Stage::new();
    // What cannot be in a path of these programs.
    fs::remove_file(stage.path("source").join(OsStr::from_bytes(ODD_NAME))).unwrap();
    stage.run(0, &["create", "-q", "--force", "source", "-o", "image.shale"]);
    let server = Server::new(&stage, &["image.shale"]);
    if has("rclone") {
        let remote = format!(":webdav,url='{}':", server.url);
        let words = ["--config", "/dev/null", "copy", &remote, "copied"];
        let mut copy = stage.other("rclone", &words);
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            copy.env_remove(name);
        }
        expect(0, copy);
        expect(0, stage.other("diff", &["-r", "source/docs", "copied/docs"]));
        assert!(fs::read(stage.path("copied/link")).unwrap() == text());
    }
    if has("cadaver") {
        let mut cadaver = stage.other("cadaver", &[server.url.as_str()]);
        let mut child = cadaver.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let commands = b"cd docs\nls\nget text.txt got.txt\nput got.txt\nquit\n";
        child.stdin.take().unwrap().write_all(commands).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("deep") && said.contains("failed"), "{said}");
        assert!(fs::read(stage.path("got.txt")).unwrap() == text());
    }
}

#[test]
fn a_list_of_properties_has_what_was_asked_for() {
    let stage = Stage::new();
    if !has("curl") {
        return;
    }
    let server = Server::new(&stage, &["image.shale"]);
    let ask = |path: &str, body: &str| {
        let words = ["-X", "PROPFIND", "-H", "Depth: 0", "--data", body, &server.at(path)];
        String::from_utf8(curl(&stage, &words)).unwrap()
    };
    let body = "<propfind xmlns=\"DAV:\"><prop><getcontentlength/><owner xmlns=\"urn:x&amp;&lt;\"/>\
                </prop></propfind>";
    let list = ask("docs/text.txt", body);
    let len = text().len();
    let found = format!(
        "<D:prop><D:getcontentlength>{len}</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK"
    );
    let absent = "<D:prop><owner xmlns=\"urn:x&amp;&lt;\"></owner></D:prop>\
                  <D:status>HTTP/1.1 404 Not Found";
    assert!(list.contains(&found) && list.contains(absent), "{list}");
    assert!(!list.contains("getetag"), "{list}");
    let names = ask("docs/text.txt", "<propfind xmlns=\"DAV:\"><propname/></propfind>");
    assert!(names.contains("<D:getetag/>"), "{names}");
    assert!(ask("docs", "").contains("<D:collection/>"));
    let bad = ["-X", "PROPFIND", "-H", "Depth: 0", "--data", "<foo>", &server.url];
    assert_eq!(status(&stage, &bad), "400");
}

mod long {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::mount::Point;
    use crate::stage::is_root;

    #[test]
    fn a_mount_with_davfs2_is_the_tree() {
        let stage = Stage::new();
        if !is_root() {
            println!("skipped: mounting with davfs2 needs root");
            return;
        }
        if !has("/sbin/mount.davfs") {
            return;
        }
        // What cannot be in a path of this program.
        fs::remove_file(stage.path("source").join(OsStr::from_bytes(ODD_NAME))).unwrap();
        let tool = stage.path("source/docs/tool with space+ä");
        fs::write(&tool, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        stage.run(0, &["create", "-q", "--force", "source", "-o", "image.shale"]);
        let server = Server::new(&stage, &["image.shale"]);
        // It works as a user of its own, and keeps files there.
        let cache = tempfile::tempdir().unwrap();
        fs::set_permissions(cache.path(), fs::Permissions::from_mode(0o777)).unwrap();
        // By default davfs2 1.6.1 refuses what Linux asks for when it reads a directory.
        let cache_dir = cache.path().display();
        let conf = format!("cache_dir {cache_dir}\nask_auth 0\nbuf_size 256\n");
        fs::write(stage.path("davfs.conf"), conf).unwrap();
        let Some(point) = Point::new(&stage) else { return };
        let conf = format!("ro,conf={}", stage.path("davfs.conf").display());
        expect(0, stage.other("mount", &["-t", "davfs", "-o", &conf, &server.url, "mnt"]));
        expect(0, stage.other("diff", &["-r", "source/docs", "mnt/docs"]));
        assert!(fs::read(stage.path("mnt/link")).unwrap() == text());
        let mode = |path: &str| {
            fs::metadata(stage.path("mnt/docs").join(path)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode("tool with space+ä"), mode("text.txt")), (0o755, 0o644));
        let time = |path: &str| {
            let time = fs::metadata(stage.path(path)).unwrap().modified().unwrap();
            time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
        };
        assert_eq!(time("mnt/docs/text.txt"), time("source/docs/text.txt"));
        assert!(fs::write(stage.path("mnt/new"), "").is_err());
        // Returns when davfs2 has ended.
        expect(0, stage.other("umount", &["mnt"]));
        assert!(!point.is_mounted());
    }
}
