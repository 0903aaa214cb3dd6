//! Test inputs for hands and scripts: the nasty tree, manifests, golden trees, seeds for fuzzing.
//!
//! usage: shale-tree nasty FOLDER [SEED]     makes the nasty tree in FOLDER
//!        shale-tree golden NAME FOLDER      makes the tree of a golden image in FOLDER
//!        shale-tree hand NAME OUT IMAGE...  makes a golden image by hand out of others
//!        shale-tree manifest FOLDER|IMAGE   prints what a tree or an image holds
//!        shale-tree seeds FOLDER            writes seeds of the fuzz targets into FOLDER/TARGET

use shale_tests::manifest::Manifest;
use shale_tests::model::make;
use shale_tests::nasty::{Options, golden_tree, tree};
use shale_tests::{handmade, image, importers, seeds};
use std::fs;
use std::io::{Error, Result};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["nasty", folder] => nasty(Path::new(folder), 1),
        ["nasty", folder, seed] => match seed.parse() {
            Ok(seed) => nasty(Path::new(folder), seed),
            Err(_) => Err(Error::other(format!("`{seed}` is no number"))),
        },
        ["golden", name, folder] => golden(name, Path::new(folder)),
        ["hand", name, out, ref images @ ..] => hand(name, Path::new(out), images),
        ["manifest", path] => manifest(Path::new(path)),
        ["seeds", folder] => write_seeds(Path::new(folder)),
        _ => {
            eprintln!(
                "usage: shale-tree nasty FOLDER [SEED] | golden NAME FOLDER | \
                 hand NAME OUT IMAGE... | manifest FOLDER|IMAGE | seeds FOLDER"
            );
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shale-tree: {error}");
            ExitCode::FAILURE
        }
    }
}

fn nasty(folder: &Path, seed: u64) -> Result<()> {
    fs::create_dir_all(folder)?;
    let items = tree(Options::for_other_programs(seed));
    let made = make(&items, folder, seed)?;
    println!("{} items in {}", items.len(), folder.display());
    for line in &made.left_out {
        println!("left out: {line}");
    }
    Ok(())
}

fn golden(name: &str, folder: &Path) -> Result<()> {
    let items = golden_tree(name).ok_or_else(|| Error::other("no golden tree has this name"))?;
    fs::create_dir_all(folder)?;
    let made = make(&items, folder, 1)?;
    // A golden image is for ever: it must not lack what this machine cannot do.
    match made.left_out.first() {
        None => Ok(()),
        Some(line) => Err(Error::other(format!("left out: {line}"))),
    }
}

fn hand(name: &str, out: &Path, images: &[&str]) -> Result<()> {
    let images = images.iter().map(fs::read).collect::<Result<Vec<_>>>()?;
    let image = handmade::golden(name, &images);
    fs::write(out, image.ok_or_else(|| Error::other("nothing is made by hand under this name"))?)
}

fn manifest(path: &Path) -> Result<()> {
    let manifest = match path.is_dir() {
        true => Manifest::of(path)?,
        false => image::manifest(&fs::read(path)?).map_err(Error::other)?,
    };
    print!("{manifest}");
    Ok(())
}

fn write_seeds(folder: &Path) -> Result<()> {
    for (target, seeds) in [
        ("table_page", seeds::pages()),
        ("page_patch", seeds::patches()),
        ("frame_decode", seeds::frames()),
        ("manifest_lines", seeds::manifests()),
        ("take_apart", seeds::containers()),
        ("deflate_stream", seeds::deflate_streams()),
        ("chunk_rebuild", seeds::chunks()),
        ("signature", seeds::signatures()),
        ("build_then_read", seeds::trees()),
        ("damage_then_read", seeds::damages()),
        ("import_tar", importers::tars()),
        ("import_cpio", importers::cpios()),
        ("import_any", importers::packages()),
        ("import_zip", importers::zips()),
        ("import_squashfs", importers::squashfses()),
        ("import_dwarfs", importers::dwarfses()),
    ] {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        for (index, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("seed-{index:02}")), seed)?;
        }
    }
    Ok(())
}
