//! Padded images, images on loop devices, and the ways in which mount(8) calls the command.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::mount::Point;
use crate::stage::{Stage, is_root, text};

/// A loop device, detached when dropped.
struct Loop<'a>(&'a Stage, String);

impl<'a> Loop<'a> {
    /// `None` if there are no loop devices.
    fn new(stage: &'a Stage, file: &str) -> Option<Self> {
        let output = stage.other("losetup", &["--find", "--show", file]).output();
        match output {
            Ok(output) if output.status.success() => {
                let device = String::from_utf8(output.stdout).unwrap();
                Some(Self(stage, device.trim().to_owned()))
            }
            _ => {
                println!("skipped: there are no loop devices");
                None
            }
        }
    }
}

impl Drop for Loop<'_> {
    fn drop(&mut self) {
        let _ = self.0.other("losetup", &["--detach", &self.1]).status();
    }
}

#[test]
fn a_padded_image_is_the_same_image() {
    let stage = Stage::new();
    let len = |name: &str| fs::metadata(stage.path(name)).unwrap().len();
    assert_ne!(len("image.shale") % 4096, 0);
    stage.run(0, &["create", "source", "-o", "padded.shale", "-q", "--pad"]);
    assert_eq!(len("padded.shale"), len("image.shale").next_multiple_of(4096));
    let identity = |name: &str| stage.json(0, &["info", "--json", name])["identity"].clone();
    assert!(identity("padded.shale").is_string());
    assert_eq!(identity("padded.shale"), identity("image.shale"));
    // Nothing is reported.
    for words in
        [&["check", "padded.shale"][..], &["ls", "padded.shale"], &["cat", "padded.shale", "link"]]
    {
        let said = stage.run(0, words).stderr;
        let said = String::from_utf8(said).unwrap();
        assert!(!said.contains("follow") && !said.contains("damaged ("), "{words:?}: {said}");
    }
    let piped = stage.run(0, &["create", "source", "-o", "-", "-q", "--pad"]).stdout;
    assert!(piped == fs::read(stage.path("padded.shale")).unwrap());
    // Parity and signatures keep it padded.
    stage.run(0, &["parity", "add", "padded.shale", "--share", "5%"]);
    assert_eq!(len("padded.shale") % 4096, 0);
    stage.run(0, &["keygen", "key"]);
    stage.run(0, &["sign", "padded.shale", "--key", "key", "--embed"]);
    assert_eq!(len("padded.shale") % 4096, 0);
    stage.run(0, &["verify", "padded.shale", "--key", "key.pub"]);
    stage.run(0, &["check", "padded.shale"]);
    assert_eq!(identity("padded.shale"), identity("image.shale"));
}

#[test]
fn an_image_on_a_loop_device_is_mounted_without_a_warning() {
    let stage = Stage::without_image();
    let Some(point) = Point::new(&stage) else { return };
    if !is_root() {
        return;
    }
    stage.run(0, &["create", "source", "-o", "image.shale", "-q", "--pad"]);
    let Some(device) = Loop::new(&stage, "image.shale") else { return };
    let mount = |device: &str| {
        let output = stage.run(0, &["mount", device, "mnt"]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(fs::read(stage.path("mnt/link")).unwrap(), text());
        stage.run(0, &["umount", "mnt"]);
        point.becomes(false);
    };
    mount(&device.1);
    drop(device);
    // Written to a larger device that holds other data.
    fs::write(stage.path("disk"), vec![0xA5; 8 << 20]).unwrap();
    let Some(device) = Loop::new(&stage, "disk") else { return };
    stage.fails(1, &["create", "source", "-o", &device.1, "-q"], &["--force"]);
    stage.run(0, &["create", "source", "-o", &device.1, "-q", "--force"]);
    mount(&device.1);
    stage.run(0, &["check", &device.1]);
}

#[test]
fn mount_calls_the_command_for_the_type_fuse_shale() {
    let stage = Stage::new();
    let Some(point) = Point::new(&stage) else { return };
    symlink(env!("CARGO_BIN_EXE_shale"), stage.path("mount.fuse.shale")).unwrap();
    let image = stage.path("image.shale").display().to_string();
    let source = format!("shale#{image}");
    let dir = stage.path("mnt").display().to_string();
    let works = || {
        assert_eq!(fs::read(stage.path("mnt/link")).unwrap(), text());
        stage.run(0, &["umount", "mnt"]);
        point.becomes(false);
    };
    // As mount(8) calls a helper for the type.
    for source in [&image, &source] {
        let helper = stage.path("mount.fuse.shale");
        let words = [source, &dir, "-o", "rw,nodev", "-t", "fuse.shale"];
        assert!(stage.other(helper, &words).status().unwrap().success(), "{source}");
        works();
    }
    // As mount.fuse(8) calls the program.
    stage.run(0, &[&image, &dir]);
    works();
    stage.run(0, &[&image, &dir, "-o", "ro"]);
    works();
    // mount(8) and mount.fuse(8) themselves, if the program is in their path.
    let mount_fuse = Path::new("/sbin/mount.fuse");
    if !is_root() || !mount_fuse.exists() {
        println!("skipped: there is no mount.fuse");
        return;
    }
    let folder = Path::new(env!("CARGO_BIN_EXE_shale")).parent().unwrap();
    for words in [&[&image[..], &dir, "-t", "fuse.shale"][..], &[&source, &dir]] {
        let mut mount = stage.other(mount_fuse, words);
        mount.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.display()));
        let output = mount.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        works();
    }
}
