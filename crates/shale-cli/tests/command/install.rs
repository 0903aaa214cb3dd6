//! `make install` installs each program name where its callers look for it, and `make uninstall`
//! removes everything again.

use std::fs;
use std::path::Path;

use crate::bundle::runtime;
use crate::stage::{Stage, expect};

/// Runs `make` in the workspace with the command under test, below a directory of the stage.
fn make(stage: &Stage, target: &str, more: &[&str]) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = stage.other("make", &["-s", "-o", "build", "-o", "runtime", target]);
    command.current_dir(root).args(more);
    command.arg(format!("SHALE={}", env!("CARGO_BIN_EXE_shale")));
    command.arg(format!("RUNTIME={}", runtime().display()));
    command.arg(format!("DESTDIR={}", stage.path("there").display()));
    // The environment of the tests must not change the installation.
    for name in ["PREFIX", "SBINDIR", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
        command.env_remove(name);
    }
    if stage.other("make", &["--version"]).output().is_err() {
        println!("skipped: there is no make");
        return false;
    }
    expect(0, command);
    true
}

/// Relative paths of all files and links below a directory.
fn installed(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else {
                let path = entry.path();
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn helpers_are_installed_where_mount_looks_for_them() {
    let stage = Stage::without_image();
    if !make(&stage, "install", &[]) {
        return;
    }
    for name in ["mount.shale", "mount.fuse.shale", "mkfs.shale", "fsck.shale"] {
        let link = fs::read_link(stage.path("there/sbin").join(name)).unwrap();
        assert_eq!(link, Path::new("/usr/local/bin/shale"), "{name}");
    }
    let command = stage.path("there/usr/local/bin/shale");
    let version = stage.other(&command, &["--version"]).output().unwrap().stdout;
    assert!(version.starts_with(b"shale "));
    let built = fs::metadata(env!("CARGO_BIN_EXE_shale")).unwrap().len();
    assert!(fs::metadata(&command).unwrap().len() * 2 < built, "it was not stripped");
    for name in [
        "share/man/man1/shale.1",
        "share/man/man1/shale-parity-add.1",
        "share/man/man5/shale.5",
        "share/man/man8/mount.shale.8",
        "share/bash-completion/completions/shale",
        "share/zsh/site-functions/_shale",
        "share/fish/vendor_completions.d/shale.fish",
    ] {
        let length = fs::metadata(stage.path("there/usr/local").join(name)).map(|it| it.len());
        assert!(length.is_ok_and(|len| len > 200), "{name}");
    }
    let page = stage.path("there/usr/local/share/man/man1/shale-create.1");
    let page = fs::read_to_string(page).unwrap();
    for part in [".SH EXAMPLES", ".SH \"SEE ALSO\"", "shale\\-rewrite"] {
        assert!(page.contains(part), "no {part}");
    }
    make(&stage, "uninstall", &[]);
    assert_eq!(installed(&stage.path("there")), [""; 0]);
    // The directories that packages use.
    let there = ["PREFIX=/usr", "SBINDIR=/usr/sbin"];
    make(&stage, "install", &there);
    let link = fs::read_link(stage.path("there/usr/sbin/mount.shale")).unwrap();
    assert_eq!(link, Path::new("/usr/bin/shale"));
    make(&stage, "uninstall", &there);
    assert_eq!(installed(&stage.path("there")), [""; 0]);
}

/// Runs a script of the workspace on the command under test.
fn script(stage: &Stage, name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = stage.path("out");
    let mut command = stage.other(root.join("scripts").join(name), &[&out]);
    command.env("SHALE", env!("CARGO_BIN_EXE_shale")).env("SOURCE_DATE_EPOCH", "1700000000");
    // What is packed was built for release, and has no symbols.
    let plain = stage.path("runtime");
    expect(0, stage.other("strip", &[Path::new("-o"), &plain, runtime()]));
    command.env("RUNTIME", plain);
    // How small the packages are is not tested, and the command has no optimized code.
    command.env("DPKG_DEB_COMPRESSOR_LEVEL", "0").env("XZ_LEVEL", "-0");
    for name in ["PREFIX", "SBINDIR", "DESTDIR", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
        command.env_remove(name);
    }
    String::from_utf8(expect(0, command).stdout).unwrap()
}

#[test]
fn a_debian_package_has_everything_and_unpacks() {
    let stage = Stage::without_image();
    if ["dpkg-deb", "dpkg-shlibdeps"]
        .iter()
        .any(|tool| stage.other(tool, &["--version"]).output().is_err())
    {
        println!("skipped: there is no dpkg-deb");
        return;
    }
    script(&stage, "deb.sh");
    let package = fs::read_dir(stage.path("out")).unwrap().next().unwrap().unwrap().path();
    let unpack = ["-x", package.to_str().unwrap(), "there"];
    expect(0, stage.other("dpkg-deb", &unpack));
    let found = installed(&stage.path("there"));
    for name in [
        "usr/bin/shale",
        "usr/sbin/mount.shale",
        "usr/share/doc/shale/copyright",
        "usr/share/doc/shale/changelog.Debian.gz",
        "usr/share/man/man8/mount.shale.8.gz",
        "usr/share/zsh/vendor-completions/_shale",
    ] {
        assert!(found.iter().any(|path| path == name), "{name} is not in {found:?}");
    }
    let runtime = format!("usr/lib/shale/runtime-{}", std::env::consts::ARCH);
    assert!(found.contains(&runtime), "{runtime} is not in {found:?}");
    let through_link = stage.path("there/usr/sbin/mkfs.shale");
    assert!(expect(0, stage.other(through_link, &["--help"])).stdout.len() > 100);
}

#[test]
fn a_tarball_has_everything_and_installs_itself() {
    let stage = Stage::without_image();
    if stage.other("xz", &["--version"]).output().is_err() {
        println!("skipped: there is no xz");
        return;
    }
    script(&stage, "dist.sh");
    let names = fs::read_dir(stage.path("out")).unwrap().map(|entry| entry.unwrap().path());
    let tarball = names.into_iter().find(|path| path.extension().is_some_and(|it| it == "xz"));
    expect(0, stage.other("tar", &["-xf", tarball.unwrap().to_str().unwrap()]));
    let folder = stage.names().into_iter().find(|name| name.starts_with("shale-")).unwrap();
    let bill = fs::read(stage.path(&folder).join("sbom.cdx.json")).unwrap();
    let bill: serde_json::Value = serde_json::from_slice(&bill).unwrap();
    let components = bill["components"].as_array().unwrap();
    assert!(components.iter().any(|it| it["name"] == "zstd-sys"), "{}", components.len());
    let mut install = stage.other("make", &["-s", "install"]);
    install.current_dir(stage.path(&folder)).env_remove("MAKEFLAGS");
    install.arg(format!("DESTDIR={}", stage.path("there").display()));
    expect(0, install);
    let command = stage.path("there/usr/local/bin/shale");
    expect(0, stage.other(&command, &["--version"]));
    // It finds the runtime that was installed with it.
    let words = ["bundle", "source", "-o", "app", "--run", "docs/run"];
    fs::write(stage.path("source/docs/run"), "#!/bin/sh\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(stage.path("source/docs/run"), executable).unwrap();
    expect(0, stage.other(&command, &words));
    assert!(stage.path("app").is_file());
}
