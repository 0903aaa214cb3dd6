//! Images in parts: cuts of the file, read through the first of them; a part that is missing,
//! swapped or truncated is said.

use std::fs;

use crate::stage::{Stage, noise};

/// A stage with parts of `image.shale` in `parts`, and how many there are.
fn in_parts() -> (Stage, Vec<String>) {
    let stage = Stage::without_image();
    fs::write(stage.path("source/more.bin"), noise(1_200_000).split_off(500_000)).unwrap();
    stage.run(0, &["create", "source", "-o", "image.shale", "-q"]);
    fs::create_dir(stage.path("parts")).unwrap();
    let words = ["split", "image.shale", "--size", "300K", "-o", "parts", "--json"];
    let report = stage.json(0, &words);
    let parts = report["parts"].as_array().unwrap().iter();
    let parts: Vec<String> = parts.map(|part| part.as_str().unwrap().to_owned()).collect();
    assert_eq!(report["part_bytes"].as_u64(), Some(256 << 10), "whole leaves");
    assert!(parts.len() >= 5, "{parts:?}");
    (stage, parts)
}

#[test]
fn parts_joined_by_cat_are_the_image_and_are_read_by_the_name_of_the_first() {
    let (stage, parts) = in_parts();
    let joined: Vec<u8> =
        parts.iter().flat_map(|part| fs::read(stage.path(part)).unwrap()).collect();
    assert!(joined == fs::read(stage.path("image.shale")).unwrap());
    let mut sorted = parts.clone();
    sorted.sort();
    assert_eq!(sorted, parts, "names sort as the parts follow each other");
    let first = parts[0].as_str();
    assert_eq!(first, format!("parts/image.shale.1-of-{}", parts.len()));
    stage.run(0, &["check", first, "-q"]);
    stage.run(0, &["diff", first, "source"]);
    stage.run(0, &["extract", first, "-C", "out", "-q"]);
    let whole = stage.run(0, &["ls", "-lR", "image.shale"]);
    assert!(stage.run(0, &["ls", "-lR", first]).stdout == whole.stdout);
    stage.run(0, &["rewrite", first, "-o", "again.shale", "-q"]);
    stage.run(0, &["diff", "again.shale", "image.shale"]);
    // A part is not changed, nor split again, and only the first stands for all.
    stage.fails(1, &["append", first, "source"], &["cat"]);
    stage.fails(1, &["parity", "add", first], &["cat"]);
    stage.fails(2, &["split", first, "--size", "200K"], &["already"]);
    stage.fails(1, &["ls", &parts[1]], &["name its first part"]);
}

#[test]
fn missing_swapped_and_truncated_parts_are_said() {
    let (stage, parts) = in_parts();
    let first = parts[0].as_str();
    let count = parts.len();
    let read = |part: &str| fs::read(stage.path(part)).unwrap();
    for (number, part) in parts.iter().enumerate().skip(1) {
        let bytes = read(part);
        fs::remove_file(stage.path(part)).unwrap();
        let said = format!("part {} of {count} of the image is missing", number + 1);
        stage.fails(1, &["ls", first], &[&said]);
        for len in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            fs::write(stage.path(part), &bytes[..len]).unwrap();
            stage.fails(1, &["ls", first], &["part", "truncated"]);
        }
        fs::write(stage.path(part), &bytes).unwrap();
    }
    // Two parts of the same length in each other's place.
    let (a, b) = (read(&parts[1]), read(&parts[2]));
    fs::write(stage.path(&parts[1]), &b).unwrap();
    fs::write(stage.path(&parts[2]), &a).unwrap();
    stage.fails(1, &["ls", first], &["part 2 of", "swapped"]);
    // A part of another image.
    fs::write(stage.path(&parts[1]), noise(a.len())).unwrap();
    fs::write(stage.path(&parts[2]), &b).unwrap();
    stage.fails(1, &["ls", first], &["part 2 of", "another image"]);
    // Damage within a part is damage, and hides nothing else.
    let mut damaged = a.clone();
    damaged[100] ^= 1;
    fs::write(stage.path(&parts[1]), &damaged).unwrap();
    stage.run(4, &["check", first, "-q"]);
    stage.run(0, &["cat", first, "docs/deep/text.md"]);
    fs::write(stage.path(&parts[1]), &a).unwrap();
    stage.run(0, &["check", first, "-q"]);
}

#[test]
fn a_split_that_cannot_be_made_leaves_nothing() {
    let stage = Stage::new();
    let names = stage.names();
    stage.fails(1, &["split", "image.shale", "--size", "100K"], &["at least"]);
    stage.fails(1, &["split", "image.shale", "--size", "1G"], &["one part"]);
    stage.fails(
        1,
        &["split", "image.shale", "--size", "128K", "-o", "no/"],
        &["no such directory"],
    );
    stage.fails(1, &["split", "missing.shale", "--size", "128K"], &["missing.shale"]);
    assert_eq!(stage.names(), names);
    stage.run(0, &["split", "image.shale", "--size", "256K", "-q"]);
    stage.fails(1, &["split", "image.shale", "--size", "256K"], &["exists"]);
    stage.run(0, &["split", "image.shale", "--size", "256K", "-f", "-q"]);
}

#[test]
fn thin_images_and_their_bases_may_be_split() {
    let (stage, parts) = in_parts();
    let first = parts[0].clone();
    fs::write(stage.path("source/new.bin"), noise(2_000_000).split_off(1_300_000)).unwrap();
    let words = ["create", "source", "--base", &first, "-o", "parts/thin.shale", "-q"];
    stage.run(0, &words);
    stage.run(0, &["check", "parts/thin.shale", "-q"]);
    stage.run(0, &["diff", "parts/thin.shale", "source"]);
    let report = stage.json(0, &["split", "parts/thin.shale", "--size", "300K", "--json"]);
    let thin: Vec<&str> =
        report["parts"].as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
    assert!(thin.len() >= 3, "{thin:?}");
    stage.run(0, &["check", thin[0], "-q"]);
    stage.run(0, &["diff", thin[0], "source"]);
    let (a, b) = (stage.path(thin[0]), stage.path(thin[1]));
    let bytes = fs::read(&b).unwrap();
    fs::write(&b, noise(bytes.len())).unwrap();
    stage.fails(1, &["ls", thin[0]], &["part 2 of", "another image"]);
    fs::write(&b, bytes).unwrap();
    fs::remove_file(a).unwrap();
    stage.fails(1, &["ls", thin[0]], &["cannot open"]);
}
