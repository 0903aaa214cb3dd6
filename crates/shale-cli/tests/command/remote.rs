//! Images that are elsewhere: the same answers as beside the command, few round trips, clear
//! errors, and a cache that may be used by anyone at any moment.

use std::fs;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use shale::read::{FileSource, Image, Options, SnapshotChoice};

use crate::mount::Point;
use crate::stage::{Stage, expect, noise};
use crate::web::{Nginx, Rude, RudeServer};

impl Stage {
    /// Runs the command with a cache in the stage.
    fn far(&self, code: i32, words: &[&str]) -> Output {
        let mut command = self.command(words);
        command.env("XDG_CACHE_HOME", self.path("xdg"));
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        expect(code, command)
    }

    /// As [`Stage::fails`], with a cache in the stage.
    fn far_fails(&self, code: i32, words: &[&str], parts: &[&str]) {
        let complaint = String::from_utf8(self.far(code, words).stderr).unwrap();
        for part in parts {
            assert!(complaint.contains(part), "{words:?} does not say `{part}`:\n{complaint}");
        }
    }
}

/// Requests and round trips of a run with `-v`.
fn cost(output: &Output) -> (usize, usize) {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains(" round trips")).expect(&text);
    let number = |before: &str| -> usize {
        let end = line.find(before).unwrap();
        line[..end].rsplit(' ').next().unwrap().parse().unwrap()
    };
    (number(" requests"), number(" round trips"))
}

/// A tree like that of a root file system, and its image `big.shale`.
fn big(stage: &Stage) {
    let noise = noise(4 << 20);
    for n in 0..6000 {
        let dir = stage.path(format!("big/usr/share/package-{}/part-{}", n % 150, n % 600));
        fs::create_dir_all(&dir).unwrap();
        // Some of it compresses.
        let mut bytes = format!("file {n} of the tree\n").repeat(n % 40 + 1).into_bytes();
        bytes.extend_from_slice(&noise[n * 600..n * 600 + n % 700]);
        fs::write(dir.join(format!("name-of-a-file-{n}.txt")), bytes).unwrap();
    }
    stage.run(0, &["create", "-q", "-3", "big", "-o", "big.shale"]);
}

#[test]
fn every_command_says_of_a_url_what_it_says_of_the_file() {
    let stage = Stage::new();
    let Some(server) = Nginx::new(&stage, "") else { return };
    let url = server.url("image.shale");
    let commands: [&[&str]; 14] = [
        &["ls", "-lR", "IMAGE"],
        &["cat", "IMAGE", "docs/text.txt"],
        &["stat", "--json", "IMAGE", "docs/deep/noise.bin"],
        &["tree", "IMAGE"],
        &["find", "IMAGE", "-size", "+1k"],
        &["check", "--level", "content", "IMAGE"],
        &["grep", "-c", "line 7", "IMAGE"],
        &["du", "IMAGE"],
        &["sum", "IMAGE"],
        &["snapshots", "IMAGE"],
        &["verify", "--against", "source", "--metadata", "IMAGE"],
        &["diff", "IMAGE", "source"],
        &["export", "--format", "tar", "IMAGE", "-o", "-"],
        &["dump", "IMAGE"],
    ];
    for words in commands {
        let with = |image: &str| -> Vec<String> {
            words.iter().map(|word| word.replace("IMAGE", image)).collect()
        };
        let near = stage.command(&with("image.shale")).output().unwrap();
        let with = with(&url);
        let far = stage
            .far(near.status.code().unwrap(), &with.iter().map(|w| &w[..]).collect::<Vec<_>>());
        let is_silent = ["check", "diff", "verify"].contains(&words[0]);
        assert!(!near.stdout.is_empty() || is_silent, "{words:?}");
        assert_eq!(near.stdout, far.stdout, "{words:?}");
    }
    let info = stage.far(0, &["info", "--json", &url]).stdout;
    assert!(String::from_utf8(info).unwrap().contains("\"identity\""));
    stage.far(0, &["extract", "-q", &url, "-C", "out"]);
    stage.run(0, &["diff", "image.shale", "out"]);
    let identity = stage.text(&["info", "--json", "image.shale"]);
    let identity = identity.split("\"identity\": \"").nth(1).unwrap()[..64].to_owned();
    stage.far(0, &["check", "-q", "--expect", &identity, &url]);
    let other = "0".repeat(64);
    stage.far_fails(1, &["ls", "--expect", &other, &url], &["identity"]);
    let path = fs::canonicalize(stage.path("image.shale")).unwrap();
    stage.far(0, &["ls", &format!("file://{}", path.display())]);
}

#[test]
fn a_file_url_names_a_file_also_where_one_is_written() {
    let stage = Stage::new();
    let folder = fs::canonicalize(stage.path("")).unwrap();
    let url = format!("file://{}/new%20image.shale", folder.display());
    stage.run(0, &["create", "-q", "source", "-o", &url]);
    stage.fails(1, &["create", "source", "-o", &url], &["new image.shale", "--force"]);
    stage.run(0, &["append", "-q", &url, "source"]);
    stage.run(0, &["parity", "add", &url]);
    stage.run(0, &["check", "new image.shale"]);
    stage.run(0, &["ls", "--snapshot", "#1", &url]);
    stage.run(0, &["rewrite", "-q", &url, "-o", &url, "--force"]);
    let copy = format!("file://localhost{}/copy.shale", folder.display());
    stage.run(0, &["compact", "-q", &url, "-o", &copy]);
    assert!(stage.path("copy.shale").is_file());
    let at = |name: &str| format!("file://{}/{name}", folder.display());
    stage.run(0, &["report", &url, "-o", &at("page.html")]);
    stage.run(0, &["split", &url, "--size", "128K", "-o", &at("part")]);
    stage.run(0, &["delta", &copy, "source", "-o", &at("update")]);
    stage.run(0, &["patch", &copy, &at("update")]);
    assert!(stage.path("page.html").is_file());
    assert!(!stage.path("file:").exists());
    stage.fails(2, &["ls", "file://host/x"], &["absolute path"]);
}

#[test]
fn a_listing_takes_at_most_six_round_trips_and_few_bytes() {
    let stage = Stage::without_image();
    big(&stage);
    let Some(server) = Nginx::new(&stage, "") else { return };
    let far = stage.far(0, &["-v", "--cache-size", "0", "ls", "-R", &server.url("big.shale")]);
    assert_eq!(far.stdout, stage.run(0, &["ls", "-R", "big.shale"]).stdout);
    let (requests, round_trips) = cost(&far);
    assert!(round_trips <= 6 && requests <= 8, "{requests} requests, {round_trips} round trips");
    let (answers, bytes) = server.answers(requests);
    assert!(answers == requests && bytes <= 400_000, "{answers} answers, {bytes} bytes");
    reuses_connections(&server, requests, round_trips);
}

/// Checks that each round trip but the widest found the connections of an earlier one: a new one
/// costs a round trip by itself.
#[track_caller]
fn reuses_connections(server: &Nginx, requests: usize, round_trips: usize) {
    let connections = server.connections();
    assert!(
        connections <= requests - round_trips + 1,
        "{connections} connections for {requests} requests in {round_trips} round trips"
    );
}

#[test]
fn a_random_file_takes_five_round_trips_and_little_more_than_it_needs() {
    let stage = Stage::without_image();
    big(&stage);
    let Some(server) = Nginx::new(&stage, "") else { return };
    let url = server.url("big.shale");
    for n in [7, 3003, 5999] {
        let file = format!("usr/share/package-{}/part-{}/name-of-a-file-{n}.txt", n % 150, n % 600);
        server.forget_answers();
        let far = stage.far(0, &["-v", "--cache-size", "0", "cat", &url, &file]);
        assert_eq!(far.stdout, fs::read(stage.path("big").join(&file)).unwrap());
        let (requests, round_trips) = cost(&far);
        let (_, bytes) = server.answers(requests);
        let source = Arc::new(FileSource::open(stage.path("big.shale")).unwrap());
        let image = Image::open(source, Options::default()).unwrap();
        let tree = image.tree(&SnapshotChoice::Newest).unwrap();
        let inode = tree.lookup_path(file.as_bytes()).unwrap().unwrap();
        tree.read_to_vec(inode, 1 << 20).unwrap();
        let needed = image.counters().snapshot().source_bytes;
        assert!(round_trips <= 5, "{round_trips} round trips");
        // 36 KiB are fetched to open an image of unknown shape.
        assert!(bytes <= needed * 13 / 10 + (36 << 10), "{bytes} bytes, {needed} needed");
        reuses_connections(&server, requests, round_trips);
    }
}

#[test]
fn what_many_appends_wrote_takes_few_round_trips() {
    const APPENDS: usize = 40;
    let stage = Stage::without_image();
    fs::create_dir(stage.path("tree")).unwrap();
    for n in 0..300 {
        fs::write(stage.path(format!("tree/{n}")), format!("file {n}")).unwrap();
    }
    stage.run(0, &["create", "-q", "-1", "tree", "-o", "days.shale"]);
    for (day, added) in noise(APPENDS * 6000).chunks(6000).enumerate() {
        fs::write(stage.path(format!("tree/{}", day * 7)), added).unwrap();
        stage.run(0, &["append", "-q", "days.shale", "tree"]);
    }
    let Some(server) = Nginx::new(&stage, "") else { return };
    let url = server.url("days.shale");
    let far = |command: &str, more: &[&str]| {
        let words = [&["-v", "--cache-size", "0", command, &url], more].concat();
        let far = stage.far(0, &words);
        let near = stage.run(0, &[&["-v", command, "days.shale"], more].concat());
        assert!(far.stdout == near.stdout, "{command}");
        let (requests, round_trips) = cost(&far);
        println!("{command}: {requests} requests, {round_trips} round trips");
        round_trips
    };
    // Each append leaves a state that these go through, one after the other.
    for command in ["snapshots", "info"] {
        assert!(far(command, &[]) <= APPENDS / 3);
    }
    for (command, more) in [("ls", &[][..]), ("ls", &["-lR"]), ("cat", &["7"])] {
        assert!(far(command, more) <= 12);
    }
}

#[test]
fn what_a_server_refuses_is_named_with_what_to_do() {
    let stage = Stage::new();
    fs::write(stage.path("page.html"), "<html>".repeat(10_000)).unwrap();
    fs::write(stage.path("empty.shale"), "").unwrap();
    let secret = "location /secret { return 403; } location /broken { return 500; }";
    let Some(server) = Nginx::new(&stage, secret) else { return };
    let ls = |name: &str, code, parts: &[&str]| {
        stage.far_fails(code, &["ls", &server.url(name)], parts);
    };
    ls("missing.shale", 1, &["404", "check the URL"]);
    ls("secret/x", 1, &["403", "denied", "USER:PASSWORD"]);
    ls("broken", 1, &["500"]);
    ls("page.html", 1, &["page.html", "not a ShaleFS image"]);
    ls("empty.shale", 1, &["empty"]);
    stage.far_fails(2, &["ls", "ftp://h/x.shale"], &["ftp://h/x.shale", "not supported"]);
    stage.far_fails(2, &["ls", "s3://bucket"], &["no object"]);
    stage.far_fails(1, &["ls", "http://127.0.0.1:1/x"], &["cannot reach", "refused"]);
    stage.far_fails(1, &["ls", "http://no-such-host.invalid/x"], &["no-such-host.invalid"]);
    stage.far_fails(2, &["--endpoint", "x", "ls", "s3://b/k"], &["--endpoint"]);
    stage.far_fails(2, &["parity", "add", &server.url("image.shale")], &["download"]);
}

#[test]
fn a_server_that_misbehaves_gives_an_error_or_the_right_bytes() {
    let stage = Stage::new();
    let image = fs::read(stage.path("image.shale")).unwrap();
    let right = stage.run(0, &["cat", "image.shale", "docs/deep/noise.bin"]).stdout;
    let cat = |how: Rude, code: i32, parts: &[&str]| {
        let server = RudeServer::new(image.clone(), how);
        let words =
            ["--cache-size", "0", "--timeout", "1", "cat", &server.url(), "docs/deep/noise.bin"];
        let output = stage.far(code, &words);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        for part in parts {
            assert!(complaint.contains(part), "{how:?} does not say `{part}`:\n{complaint}");
        }
        if code == 0 {
            assert!(output.stdout == right, "{how:?}");
        }
    };
    cat(Rude::NoRanges, 1, &["whole file", "download"]);
    cat(Rude::Changes, 1, &["changed"]);
    cat(Rude::Elsewhere, 1, &["wrong answer"]);
    cat(Rude::Compresses, 1, &["compresses"]);
    cat(Rude::Silent, 1, &["no answer within 1 s", "--timeout"]);
    cat(Rude::Fails(403, 99), 1, &["denied"]);
    // What breaks off is resumed, what fails for a moment is tried again.
    cat(Rude::Cuts(150_000), 0, &[]);
    cat(Rude::Fails(503, 2), 0, &[]);
    for n in 0..5 {
        cat(Rude::Garbles(n), 0, &[]);
    }
}

#[test]
fn damage_elsewhere_is_repaired_from_parity_and_never_data() {
    let stage = Stage::new();
    stage.run(0, &["create", "-q", "source", "-o", "safe.shale", "--parity", "20%"]);
    let Some(server) = Nginx::new(&stage, "") else { return };
    let file = "docs/deep/noise.bin";
    let right = stage.run(0, &["cat", "safe.shale", file]).stdout;
    for name in ["safe.shale", "image.shale"] {
        let mut bytes = fs::read(stage.path(name)).unwrap();
        let needle = &right[5000..5064];
        let at = bytes.windows(64).position(|window| window == needle).unwrap();
        bytes[at] ^= 1;
        fs::write(stage.path(name), bytes).unwrap();
    }
    let safe = stage.far(0, &["cat", &server.url("safe.shale"), file]);
    assert!(safe.stdout == right);
    stage.far_fails(1, &["cat", &server.url("image.shale"), file], &["checksum"]);
}

#[test]
fn what_is_cached_is_used_verified_and_cleared() {
    let stage = Stage::new();
    let Some(server) = Nginx::new(&stage, "") else { return };
    let url = server.url("image.shale");
    let right = stage.run(0, &["cat", "image.shale", "docs/text.txt"]).stdout;
    let cat = ["-v", "cat", &url, "docs/text.txt"];
    let first = stage.far(0, &cat);
    assert!(first.stdout == right && cost(&first).0 > 1);
    // The second run asks only whether the image is still the same.
    let second = stage.far(0, &cat);
    assert!(second.stdout == right && cost(&second) == (1, 1));
    let offline = stage.far(0, &["--offline", "-v", "cat", &url, "docs/text.txt"]);
    assert!(offline.stdout == right && cost(&offline) == (0, 0));
    let listed = String::from_utf8(stage.far(0, &["cache", "list"]).stdout).unwrap();
    assert!(listed.contains(&url), "{listed}");
    // A damaged block of the cache is fetched again, by everyone at once.
    let blocks = fs::read_dir(stage.path("xdg/shale")).unwrap().map(|file| file.unwrap().path());
    let blocks = blocks.filter(|path| path.extension().is_some_and(|end| end == "blocks"));
    for path in blocks {
        let mut bytes = fs::read(&path).unwrap();
        for byte in bytes.iter_mut().step_by(3001) {
            *byte ^= 0x55;
        }
        fs::write(&path, bytes).unwrap();
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(stage.far(0, &cat).stdout == right));
        }
    });
    assert_eq!(cost(&stage.far(0, &cat)), (1, 1));
    // Another image by the same name is another image.
    fs::write(stage.path("source/docs/text.txt"), "new\n").unwrap();
    stage.run(0, &["create", "-q", "--force", "source", "-o", "image.shale"]);
    assert_eq!(stage.far(0, &cat).stdout, b"new\n");
    // Without the server, what is cached of it is used, with a warning.
    drop(server);
    let warned = stage.far(0, &["--timeout", "2", "cat", &url, "docs/text.txt"]);
    assert_eq!(warned.stdout, b"new\n");
    assert!(String::from_utf8_lossy(&warned.stderr).contains("using what is cached"));
    stage.far_fails(1, &["--offline", "cat", &url, "docs/deep/noise.bin"], &["not in the cache"]);
    stage.far_fails(1, &["cache", "clear", "no-such-url"], &["nothing is cached"]);
    stage.far(0, &["cache", "clear", "--all"]);
    assert!(stage.far(0, &["cache", "list"]).stdout.is_empty());
    assert_eq!(fs::read_dir(stage.path("xdg/shale")).unwrap().count(), 0);
    stage.far_fails(1, &["--offline", "ls", &url], &["not in the cache"]);
}

#[test]
fn a_remote_image_mounts_and_survives_a_change_with_an_error() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    let Some(server) = Nginx::new(&stage, "") else { return };
    let url = server.url("image.shale");
    stage.far(0, &["mount", "--cache-size", "0", &url, "mnt"]);
    point.becomes(true);
    let right = fs::read(stage.path("source/docs/text.txt")).unwrap();
    assert!(fs::read(stage.path("mnt/docs/text.txt")).unwrap() == right);
    assert!(String::from_utf8(stage.far(0, &["mounts"]).stdout).unwrap().contains(&url));
    // Other bytes by the same name are an error, and never data.
    fs::write(stage.path("source/more"), noise(300_000)).unwrap();
    stage.run(0, &["create", "-q", "--force", "source", "-o", "image.shale"]);
    assert!(fs::read(stage.path("mnt/docs/deep/noise.bin")).is_err());
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
}

#[test]
fn a_silent_server_is_given_up_after_as_many_attempts_as_documented() {
    let stage = Stage::without_image();
    let server = RudeServer::new(vec![0; 9], Rude::Fails(503, usize::MAX));
    stage.far_fails(1, &["ls", &server.url()], &["503"]);
    // The start and the end of the image, each asked for once and tried again five times.
    assert_eq!(server.requests.load(SeqCst), 12);
}
