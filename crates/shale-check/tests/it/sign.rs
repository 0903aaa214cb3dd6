//! Promise: a signature is accepted only if a trusted key made it over the image as it is.

use shale::read::{FileSource, Image, Options};
use shale::{
    CheckError as Error, CreateOptions, NoProgress, Output, ParityOptions, SignOptions, add_parity,
    create, embed_signature, generate_key, read_public_key, read_secret_key, read_signature, sign,
    signature_text, verify_signature,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn image(folder: &Path, name: &str, text: &str) -> PathBuf {
    let source = folder.join(format!("{name}.source"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), text.repeat(50_000)).unwrap();
    let path = folder.join(name);
    create(
        &[source.as_path().into()],
        Output::Path(path.clone()),
        &CreateOptions::default(),
        &NoProgress,
    )
    .unwrap();
    path
}

#[test]
fn signatures_hold_for_one_image_and_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (path, other) = (image(folder, "image", "one"), image(folder, "other", "two"));
    let (mine, theirs) = (folder.join("mine"), folder.join("theirs"));
    let public = generate_key(&mine, "me\nmyself").unwrap();
    generate_key(&theirs, "").unwrap();
    assert!(
        matches!(generate_key(&mine, ""), Err(Error::Host(shale::HostError::Io { .. }))),
        "keys are not replaced"
    );
    assert_eq!(fs::metadata(&mine).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(read_public_key(&folder.join("mine.pub")).unwrap(), public);
    assert!(read_public_key(&mine).is_err(), "a secret key is no public one");
    assert!(read_secret_key(&folder.join("mine.pub")).is_err());
    let key = read_secret_key(&mine).unwrap();
    let stranger = read_public_key(&folder.join("theirs.pub")).unwrap();

    let options = SignOptions::default();
    let signature = sign(&path, &key, &options, &NoProgress).unwrap();
    let file = folder.join("image.sig");
    fs::write(&file, signature_text(&signature)).unwrap();
    let signature = read_signature(&file).unwrap();
    let verify = |path: &Path, keys: &[[u8; 32]], signature| {
        verify_signature(path, keys, signature, &SignOptions::default(), &NoProgress)
    };
    let verified = verify(&path, &[stranger, public], Some(&signature)).unwrap();
    assert_eq!((verified.public_key, verified.identity), (public, signature.identity));
    assert!(verify(&path, &[stranger], Some(&signature)).is_err(), "another key");
    assert!(verify(&path, &[], Some(&signature)).is_err(), "no key");
    assert!(verify(&other, &[public], Some(&signature)).is_err(), "another image");
    assert!(verify(&path, &[public], None).is_err(), "no signature in it");

    // One flipped bit anywhere in the image that is covered.
    let bytes = fs::read(&path).unwrap();
    let covered = {
        let image = Image::open(Arc::new(FileSource::open(&path).unwrap()), Options::default());
        image.unwrap().trailer().merkle_offset as usize
    };
    for at in (0..covered).step_by(covered / 50 + 1) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&path, &changed).unwrap();
        assert!(verify(&path, &[public], Some(&signature)).is_err(), "byte {at}");
        assert!(sign(&path, &key, &options, &NoProgress).is_err(), "damage is not signed");
    }
    fs::write(&path, &bytes).unwrap();

    // In the image, and with parity before and after it: the identity stays.
    add_parity(&path, &ParityOptions::default(), &NoProgress).unwrap();
    embed_signature(&path, &signature, &options).unwrap();
    add_parity(&path, &ParityOptions::default(), &NoProgress).unwrap();
    assert_eq!(verify(&path, &[public], None).unwrap().identity, signature.identity);
    assert!(verify(&path, &[stranger], None).is_err());
    let source = Arc::new(FileSource::open(&path).unwrap());
    let report = shale::check(source, &shale::CheckOptions::default(), &NoProgress).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert!(fs::read(&path).unwrap()[..bytes.len()] == bytes, "nothing was written over");
}
