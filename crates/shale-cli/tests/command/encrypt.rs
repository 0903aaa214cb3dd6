//! Encrypted images: read at any offset as the plain ones, compatible with the program `age` both
//! ways; a wrong key, damage and truncation are told apart, and nothing wrong is ever returned.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::mount::Point;
use crate::stage::{Stage, expect, noise};
use crate::web::Nginx;

/// Bytes of a chunk in an encrypted file, with its authentication code.
const SEALED_LEN: usize = (64 << 10) + 16;

/// A stage with a key in `key`, another one in `other`, and the public one of `key`. `None` without
/// the program.
fn keys() -> Option<(Stage, String)> {
    let stage = Stage::without_image();
    for name in ["key", "other"] {
        let made = stage.other("age-keygen", &["-o", name]).output();
        if made.is_err() {
            println!("skipped: age-keygen is missing");
            return None;
        }
    }
    let public = expect(0, stage.other("age-keygen", &["-y", "key"]));
    Some((stage, String::from_utf8(public.stdout).unwrap().trim().to_owned()))
}

/// As [`keys`], with `plain.shale` and `image.shale.age` of the same tree.
fn sealed() -> Option<(Stage, String)> {
    let (stage, public) = keys()?;
    stage.run(0, &["create", "-q", "source", "-o", "plain.shale"]);
    stage.run(0, &["create", "-q", "source", "-o", "image.shale.age", "--age", &public]);
    Some((stage, public))
}

/// Where the first chunk begins in an encrypted file.
fn payload_start(bytes: &[u8]) -> usize {
    let code = bytes.windows(5).position(|it| it == b"\n--- ").unwrap();
    code + 5 + bytes[code + 5..].iter().position(|&it| it == b'\n').unwrap() + 1 + 16
}

#[test]
fn age_decrypts_what_shale_encrypts_and_the_other_way_round() {
    let Some((stage, public)) = sealed() else { return };
    let plain = expect(0, stage.other("age", &["-d", "-i", "key", "image.shale.age"])).stdout;
    assert!(plain == fs::read(stage.path("plain.shale")).unwrap(), "the same image, byte for byte");

    fs::write(stage.path("team"), format!("# the team\n\n{public}\n")).unwrap();
    for words in [
        vec!["-r", &public, "-o", "theirs.shale.age", "plain.shale"],
        vec!["-R", "team", "-o", "theirs2.shale.age", "plain.shale"],
    ] {
        expect(0, stage.other("age", &words));
    }
    let listing = |words: &[&str]| stage.run(0, &[&["ls", "-lR"], words].concat()).stdout;
    let plain_listing = listing(&["plain.shale"]);
    for image in ["image.shale.age", "theirs.shale.age", "theirs2.shale.age"] {
        assert_eq!(listing(&["--identity", "key", image]), plain_listing);
        stage.run(0, &["check", "-q", "--level", "content", "--identity", "key", image]);
    }
    // To several: each key opens it. Through a stream, too.
    let other = expect(0, stage.other("age-keygen", &["-y", "other"])).stdout;
    fs::write(stage.path("others"), other).unwrap();
    let both = ["--age", &public, "--age-recipients-file", "others"];
    let out = stage.run(0, &[&["create", "-q", "source", "-o", "-"][..], &both].concat()).stdout;
    fs::write(stage.path("both.shale.age"), out).unwrap();
    for key in ["key", "other"] {
        let plain = expect(0, stage.other("age", &["-d", "-i", key, "both.shale.age"])).stdout;
        assert!(plain == fs::read(stage.path("plain.shale")).unwrap());
        assert_eq!(listing(&["--identity", key, "both.shale.age"]), plain_listing);
    }
}

#[test]
fn every_command_reads_an_encrypted_image_as_the_plain_one() {
    let Some((stage, public)) = sealed() else { return };
    let commands: [&[&str]; 15] = [
        &["ls", "-lR", "IMAGE"],
        &["cat", "IMAGE", "docs/text.txt", "docs/deep/noise.bin"],
        &["stat", "--json", "IMAGE", "docs/deep/noise.bin"],
        &["tree", "IMAGE"],
        &["find", "IMAGE", "-size", "+1k"],
        &["grep", "-c", "line 7", "IMAGE"],
        &["du", "IMAGE"],
        &["sum", "IMAGE"],
        &["snapshots", "IMAGE"],
        &["verify", "--against", "source", "--metadata", "IMAGE"],
        &["diff", "IMAGE", "source"],
        &["export", "--format", "tar", "IMAGE", "-o", "-"],
        &["dump", "IMAGE"],
        &["create", "-q", "IMAGE", "-o", "-"],
        &["create", "-q", "IMAGE@latest", "-o", "-"],
    ];
    for words in commands {
        let of = |name: &'static str| -> Vec<String> {
            words.iter().map(|word| word.replace("IMAGE", name)).collect()
        };
        let plain = stage.run(0, &of("plain.shale")).stdout;
        let mut sealed = stage.command(&of("image.shale.age"));
        sealed.env("SHALE_IDENTITY", format!("other:{}", stage.path("key").display()));
        let sealed = expect(0, sealed).stdout;
        let name = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).replace("image.shale.age", "plain.shale").into_bytes()
        };
        assert!(name(&plain) == name(&sealed), "{words:?}");
    }
    stage.run(0, &["extract", "--identity", "key", "image.shale.age", "-C", "out"]);
    let extracted = fs::read(stage.path("out/docs/deep/noise.bin")).unwrap();
    assert!(extracted == noise(700_000));
    // Copies are encrypted if that is asked for.
    for words in [
        &["compact", "image.shale.age", "-o", "compact.shale.age"][..],
        &["merge", "image.shale.age", "-o", "merged.shale.age"],
        &["rewrite", "image.shale.age", "-o", "again.shale.age", "-1"],
        &["rewrite", "image.shale.age", "-o", "owned.shale.age", "--all-root"],
    ] {
        stage.run(0, &[words, &["-q", "--identity", "key", "--age", &public]].concat());
        let out = words[3];
        assert!(fs::read(stage.path(out)).unwrap().starts_with(b"age-encryption.org/v1\n"));
        stage.run(0, &["check", "-q", "--identity", "key", out]);
    }
}

#[test]
fn an_encrypted_image_is_mounted_and_read_by_url() {
    let Some((stage, _)) = sealed() else { return };
    if let Some(server) = Nginx::new(&stage, "") {
        let url = server.url("image.shale.age");
        let words = ["cat", "--cache-size", "0", "--identity", "key", &url, "docs/deep/noise.bin"];
        let mut command = stage.command(&words);
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        assert!(expect(0, command).stdout == noise(700_000));
    }
    let Some(point) = Point::new(&stage) else { return };
    stage.run(0, &["mount", "--identity", "key", "image.shale.age", "mnt"]);
    assert!(fs::read(stage.path("mnt/docs/deep/noise.bin")).unwrap() == noise(700_000));
    let file = fs::File::open(stage.path("mnt/docs/deep/noise.bin")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let file = &file;
            scope.spawn(move || {
                let mut buf = [0; 5000];
                for n in 0..40 {
                    let at = (thread * 97_003 + n * 17_011) % 690_000;
                    file.read_exact_at(&mut buf, at).unwrap();
                    assert!(buf == noise(700_000)[at as usize..at as usize + 5000]);
                }
            });
        }
    });
    drop(file);
    stage.run(0, &["umount", "mnt"]);
    point.becomes(false);
}

#[test]
fn a_passphrase_opens_what_age_encrypted_with_it() {
    let Some((stage, _)) = keys() else { return };
    // `age -p` asks a terminal, so this file was made beforehand: the image of an empty directory,
    // the passphrase "correct horse".
    let sealed = Path::new(env!("CARGO_MANIFEST_PATH")).parent().unwrap();
    let sealed = sealed.join("../../testdata/age/passphrase.shale.age");
    fs::copy(sealed, stage.path("p.shale.age")).unwrap();
    fs::write(stage.path("pass"), "correct horse\n").unwrap();
    fs::write(stage.path("wrong"), "correct hearse\n").unwrap();
    stage.run(0, &["check", "-q", "--passphrase-file", "pass", "p.shale.age"]);
    stage.fails(1, &["ls", "p.shale.age"], &["a passphrase", "--passphrase-file"]);
    stage.fails(1, &["ls", "--passphrase-file", "wrong", "p.shale.age"], &["wrong passphrase"]);
    stage.fails(1, &["ls", "--identity", "key", "p.shale.age"], &["a passphrase"]);
}

/// A change of an encrypted file.
type Change = fn(&mut Vec<u8>);

#[test]
fn each_kind_of_damage_is_named_and_no_command_returns_wrong_bytes() {
    let Some((stage, _)) = sealed() else { return };
    let whole = fs::read(stage.path("image.shale.age")).unwrap();
    assert!(whole.len() > payload_start(&whole) + 5 * SEALED_LEN, "several chunks");
    // What is changed, the message, and whether the image opens.
    let changes: [(Change, &str, bool); 11] = [
        (|it| it[22] ^= 1, "header of the encrypted file is damaged", false),
        (|it| it[60] ^= 1, "", false),
        (
            |it| {
                let at = payload_start(it) - 20;
                it[at] ^= 1
            },
            "header",
            false,
        ),
        (
            |it| {
                let at = payload_start(it) - 3;
                it[at] ^= 1
            },
            "does not decrypt",
            false,
        ),
        (
            |it| {
                let at = payload_start(it) + 3 * SEALED_LEN;
                it[at + 9] ^= 1
            },
            "chunk 4 of",
            true,
        ),
        (
            |it| {
                let at = payload_start(it) + 4 * SEALED_LEN;
                it[at - 1] ^= 1
            },
            "chunk 4 of",
            true,
        ),
        (
            |it| {
                let len = it.len();
                it[len - 1] ^= 1
            },
            "last chunk",
            false,
        ),
        (|it| it.truncate(payload_start(it) + 3 * SEALED_LEN), "truncated: its last chunk", false),
        (|it| it.truncate(payload_start(it) + 3 * SEALED_LEN + 9), "truncated", false),
        (
            |it| {
                let len = it.len();
                it.truncate(len - 1)
            },
            "truncated inside of it, or",
            false,
        ),
        (|it| it.truncate(50), "ends inside of its header", false),
    ];
    let text = fs::read(stage.path("source/docs/text.txt")).unwrap();
    let files = [("docs/text.txt", text), ("docs/deep/noise.bin", noise(700_000))];
    for (number, (change, message, opens)) in changes.into_iter().enumerate() {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(stage.path("bad.shale.age"), &bytes).unwrap();
        let run = |words: &[&str]| stage.command(words).output().unwrap();
        let say = |words: &[&str]| {
            let out = run(&[words, &["--identity", "key", "bad.shale.age"]].concat());
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(!said.contains("panicked"), "{number}: {words:?}\n{said}");
            (out.status.code().unwrap(), said)
        };
        let (code, said) = say(&["check", "--level", "content"]);
        let code_of_check = if message.is_empty() { [1, 4] } else { [4, 4] };
        assert!(code_of_check.contains(&code), "{number}: {code}\n{said}");
        assert!(said.contains(message), "{number}: does not say `{message}`:\n{said}");
        let (code, said) = say(&["ls", "-lR"]);
        assert_eq!(code == 0, opens, "{number}: {said}");
        assert!(opens || said.contains(message), "{number}: does not say `{message}`:\n{said}");
        let mut failed = false;
        for (name, right) in &files {
            let out = run(&["cat", "--identity", "key", "bad.shale.age", name]);
            assert!(right.starts_with(&out.stdout), "{number}: wrong bytes of {name}");
            assert!(!out.status.success() || out.stdout == *right);
            failed |= !out.status.success();
        }
        assert!(failed, "{number}: nothing was damaged");
        let (code, said) = say(&["extract", "-C", "bad"]);
        assert_ne!(code, 0, "{number}: {said}");
        let (code, said) = say(&["create", "-o", "copy.shale"]);
        assert_ne!(code, 0, "{number}: {said}");
        assert!(!stage.path("copy.shale").exists());
        let _ = fs::remove_dir_all(stage.path("bad"));
    }
}

#[test]
fn a_wrong_key_and_no_key_are_refused_with_what_to_do() {
    let Some((stage, public)) = sealed() else { return };
    let image = "image.shale.age";
    stage.fails(1, &["ls", image], &["no key was given", "--identity FILE"]);
    stage.fails(1, &["check", image], &["no key was given"]);
    let wrong = ["wrong key", "1 X25519 key", "--identity"];
    stage.fails(1, &["ls", "--identity", "other", image], &wrong);
    stage.fails(1, &["check", "--identity", "other", image], &wrong);
    stage.fails(1, &["ls", "--identity", "none", image], &["--identity none"]);
    fs::write(stage.path("public"), &public).unwrap();
    stage.fails(1, &["ls", "--identity", "public", image], &["public key"]);
    stage.fails(1, &["ls", "--identity", "plain.shale", image], &["--identity plain.shale"]);
    // Both keys: one of them is right.
    stage.run(0, &["ls", "--identity", "other", "--identity", "key", image]);
    let secret = fs::read_to_string(stage.path("key")).unwrap();
    let secret = secret.lines().last().unwrap();
    let out = ["create", "source", "-o", "x.shale.age", "--age"];
    let complaint = stage.run(2, &[&out[..], &[secret]].concat());
    let complaint = String::from_utf8_lossy(&complaint.stderr).into_owned();
    assert!(complaint.contains("secret key is no recipient") && !complaint.contains(secret));
    for bad in ["age1xyz", "ssh-ed25519 AAAA", "", "age1pq1xyz"] {
        stage.fails(2, &[&out[..], &[bad]].concat(), &["--age"]);
    }
    fs::write(stage.path("empty-list"), "# nobody\n").unwrap();
    let list = ["create", "source", "-o", "x.shale.age", "--age-recipients-file", "empty-list"];
    stage.fails(1, &list, &["no recipient"]);
    for with in [&["--parity", "5%"][..], &["--pad"]] {
        stage.fails(2, &[&out[..], &[&public], with].concat(), &["--age"]);
    }
    assert!(!stage.path("x.shale.age").exists());
}

#[test]
fn what_changes_a_file_refuses_an_encrypted_one_and_leaves_it() {
    let Some((stage, _)) = sealed() else { return };
    let before = fs::read(stage.path("image.shale.age")).unwrap();
    let names = stage.names();
    stage.run(0, &["keygen", "-q", "sign"]);
    for words in [
        &["append", "image.shale.age", "source"][..],
        &["sign", "image.shale.age", "--key", "sign"],
        &["sign", "--embed", "image.shale.age", "--key", "sign"],
        &["repair", "image.shale.age", "-o", "repaired.shale"],
        &["parity", "add", "image.shale.age"],
        &["split", "image.shale.age", "--size", "100K"],
    ] {
        stage.fails(2, &[words, &["--identity", "key"]].concat(), &["encrypted", "age -d"]);
    }
    assert!(fs::read(stage.path("image.shale.age")).unwrap() == before);
    let new: Vec<String> = stage.names().into_iter().filter(|it| !names.contains(it)).collect();
    assert_eq!(new, ["sign", "sign.pub"]);
}

#[test]
fn no_plain_byte_of_the_image_is_in_the_file_or_beside_it() {
    let Some((stage, public)) = keys() else { return };
    stage.run(0, &["create", "-q", "source", "-o", "image.shale.age", "--age", &public]);
    let bytes = fs::read(stage.path("image.shale.age")).unwrap();
    // Noise is stored unchanged in a plain image.
    let noise = noise(700_000);
    assert!(!bytes.windows(16).any(|it| it == &noise[5000..5016]));
    assert_eq!(stage.names(), ["image.shale.age", "key", "other", "source"]);
    // The same tree and key give another file: nobody sees that two images are the same.
    stage.run(0, &["create", "-q", "source", "-o", "again.shale.age", "--age", &public]);
    assert!(fs::read(stage.path("again.shale.age")).unwrap() != bytes);
    stage.fails(1, &["create", "source", "-o", "again.shale.age", "--age", &public], &["--force"]);
}
