//! The page of `shale report`: complete by itself, with the figures of `info`.

use std::fs;

use serde_json::Value;

use crate::stage::{Stage, noise};

/// The figures of a page.
fn figures(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"figures\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_has_the_figures_of_info_and_needs_nothing_else() {
    let stage = Stage::without_image();
    fs::write(stage.path("source/docs/<b>{{"), noise(300_000)).unwrap();
    fs::write(stage.path("source/copy"), noise(700_000)).unwrap();
    stage.run(0, &["create", "source", "-qo", "image.shale", "--parity", "5%"]);
    stage.run(0, &["report", "image.shale", "-o", "page.html", "-q"]);
    let page = fs::read_to_string(stage.path("page.html")).unwrap();
    assert_eq!(page.matches("</script>").count(), 2);
    for word in ["http:", "https:", "src=", "url(", "import "] {
        assert!(!page.contains(word), "{word}");
    }
    let found = figures(&page);
    let mut info = stage.json(0, &["info", "image.shale", "--json"]);
    for key in ["schema", "path", "files", "largest_directories", "base", "parts"] {
        info.as_object_mut().unwrap().remove(key);
    }
    assert_eq!(found["info"], info);
    // The root has all bytes, and what is stored adds up to all frames.
    let root = &found["directories"][0];
    assert_eq!(root[2], info["snapshots"][0]["file_bytes"]);
    let stored = info["stored_bytes"].as_u64().unwrap();
    assert!(root[3].as_u64().unwrap().abs_diff(stored) < 16, "{root} {stored}");
    let bytes = |key: &str, at: usize| {
        let rows = found[key].as_array().unwrap().iter();
        rows.map(|row| row[at].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(bytes("histogram", 1), info["plain_bytes"].as_u64().unwrap());
    assert_eq!(bytes("ways", 3), stored);
    assert_eq!(found["largest"][0][1], 700_000);
    assert_eq!(found["duplicated"][0][1], 700_000);
    assert_eq!(found["duplicated"][0][2], 2);
}

#[test]
fn a_page_is_whole_or_absent_and_replaces_only_on_request() {
    let stage = Stage::new();
    stage.run(0, &["report", "image.shale", "-o", "page.html", "-q"]);
    stage.fails(1, &["report", "image.shale", "-o", "page.html"], &["page.html", "--force"]);
    stage.run(0, &["report", "image.shale", "-o", "page.html", "--force", "-q"]);
    let first = fs::read(stage.path("page.html")).unwrap();
    assert_eq!(stage.run(0, &["report", "image.shale", "-o", "-"]).stdout, first);
    fs::write(stage.path("not"), "not an image").unwrap();
    stage.fails(1, &["report", "not", "-o", "other.html"], &["not a ShaleFS image"]);
    stage.fails(1, &["report", "image.shale", "-o", "none/page.html"], &["none/page.html"]);
    assert!(!stage.path("other.html").exists());
    assert!(stage.names().iter().all(|name| !name.contains("partial")));
}

#[test]
fn a_page_of_many_files_stays_small() {
    let stage = Stage::without_image();
    let mut list = String::from("d 755 0 0 0 - .\n");
    for n in 0..170 {
        list += &format!("d 755 0 0 0 - directory-{n}\n");
        for m in 0..1_000 {
            let directory = m % 40;
            if m < 40 {
                list += &format!("d 755 0 0 0 - directory-{n}/below-{m}\n");
            }
            list += &format!(
                "f 644 0 0 0 @source/docs/deep/text.md directory-{n}/below-{directory}/file-{m}\n"
            );
        }
    }
    fs::write(stage.path("list"), list).unwrap();
    stage.run(0, &["create", "--manifest", "list", "-1qo", "many.shale", "--no-verify"]);
    stage.run(0, &["report", "many.shale", "-o", "page.html", "-q"]);
    let page = fs::read_to_string(stage.path("page.html")).unwrap();
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    let root = &figures(&page)["directories"][0];
    assert_eq!(root[4], 170_000);
}
