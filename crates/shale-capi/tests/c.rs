//! The interface as C programs see it: the header is current, the example compiles without a
//! warning and reads a golden image under AddressSanitizer, and wrong calls are errors.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn golden_image(name: &str) -> PathBuf {
    crate_directory().join("../../testdata/images").join(name)
}

/// The static and the shared library, without the suffix. Cargo builds them beside this program.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.with_file_name("libshale_capi")
}

/// Compiles a C source into a program, with AddressSanitizer. `None` if the compiler cannot.
fn compile(source: &Path, directory: &TempDir) -> Option<PathBuf> {
    const SANITIZE: &str = "-fsanitize=address,undefined";
    let probe = directory.path().join("probe.c");
    std::fs::write(&probe, "int main(void) { return 0; }\n").unwrap();
    let program = directory.path().join("program");
    let compiler = || {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", SANITIZE, "-o"]);
        compiler.arg(&program);
        compiler
    };
    match compiler().arg(&probe).output() {
        Ok(output) if output.status.success() => {}
        _ => {
            println!("SKIPPED: needs cc with {SANITIZE}");
            return None;
        }
    }
    let mut command = compiler();
    command
        .arg("-I")
        .arg(crate_directory().join("include"))
        .arg(source)
        .arg(library().with_extension("a"));
    expect_success(command.args(["-lpthread", "-ldl", "-lm"]));
    Some(program)
}

fn expect_success(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

#[test]
fn the_header_is_current() {
    let config = cbindgen::Config::from_file(crate_directory().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(crate_directory().join("src/code.rs"))
        .with_src(crate_directory().join("src/image.rs"))
        .with_src(crate_directory().join("src/ffi.rs"))
        .generate()
        .unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let header = crate_directory().join("include/shale.h");
    if std::env::var_os("SHALE_WRITE_HEADER").is_some() {
        std::fs::write(&header, &made).unwrap();
    }
    let found = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(found == made, "include/shale.h is old; run this test with SHALE_WRITE_HEADER=1");
}

#[test]
fn the_example_reads_a_golden_image() {
    let directory = TempDir::new().unwrap();
    let source = crate_directory().join("examples/shale_tree.c");
    let Some(program) = compile(&source, &directory) else { return };
    let output = expect_success(Command::new(&program).arg(golden_image("0.3-tiny.shale")));
    let text = String::from_utf8(output.stdout).unwrap();
    // Names, sizes and targets are those of the manifest beside the image.
    for line in ["attributes 100", "d/copy 3000", "d/link 3000", "holes 200000", "empty 0"] {
        assert!(text.lines().any(|found| found == line), "no line `{line}` in:\n{text}");
    }
    assert!(text.lines().any(|found| found == "symlink -> d/text"), "{text}");
    assert!(text.ends_with("209800 bytes in 7 files\n"), "{text}");
    let output = Command::new(&program).arg(directory.path().join("missing")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("No such file"), "{said}");
}

#[test]
fn an_installed_library_is_found_by_pkg_config() {
    let available = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !["cc", "make", "pkg-config"].into_iter().all(available) {
        println!("SKIPPED: needs cc, make and pkg-config");
        return;
    }
    let directory = TempDir::new().unwrap();
    let make = |target: &str| {
        let mut make = Command::new("make");
        make.args(["-s", "-o", "build-capi", target]).current_dir(crate_directory().join("../.."));
        make.arg(format!("PREFIX={}", directory.path().display()));
        make.arg(format!("CAPI_LIBRARY={}", library().display()));
        for name in ["DESTDIR", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
            make.env_remove(name);
        }
        expect_success(&mut make);
    };
    make("install-capi");
    let lib = directory.path().join("lib");
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "--libs", "shale"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
    let flags = String::from_utf8(expect_success(&mut pkg_config).stdout).unwrap();
    let program = directory.path().join("program");
    let mut compiler = Command::new("cc");
    compiler.arg(crate_directory().join("examples/shale_tree.c")).args(flags.split_whitespace());
    expect_success(compiler.arg("-o").arg(&program));
    let mut run = Command::new(&program);
    let output = run.arg(golden_image("0.3-tiny.shale")).env("LD_LIBRARY_PATH", &lib);
    let text = String::from_utf8(expect_success(output).stdout).unwrap();
    assert!(text.ends_with("209800 bytes in 7 files\n"), "{text}");
    make("uninstall-capi");
    assert_eq!(std::fs::read_dir(lib.join("pkgconfig")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(&lib).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(directory.path().join("include")).unwrap().count(), 0);
}

#[test]
fn wrong_calls_are_errors_and_handles_work_in_several_threads() {
    let directory = TempDir::new().unwrap();
    let source = crate_directory().join("tests/misuse.c");
    let Some(program) = compile(&source, &directory) else { return };
    let mut command = Command::new(&program);
    command.arg(golden_image("0.3-tiny.shale")).arg(golden_image("0.3-tiny.manifest"));
    let extracted = directory.path().join("extracted");
    expect_success(command.arg(&extracted));
    let mut names: Vec<_> = std::fs::read_dir(extracted.join("d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["copy", "empty", "link", "random", "text"]);
    assert_eq!(std::fs::metadata(extracted.join("d/text")).unwrap().len(), 3000);
}
