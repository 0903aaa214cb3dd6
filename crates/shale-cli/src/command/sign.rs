//! `shale keygen`, `shale sign`, `shale verify`.

mod against; // --against

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use serde_json::json;
use shale::SignOptions;
use shale::read::Image;

use crate::args::{Sign, Verify};
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{open, signal, text};

/// Makes a key pair.
///
/// # Errors
/// A file exists or cannot be written.
pub fn keygen(path: &Path, comment: &str, say: &Say) -> anyhow::Result<Exit> {
    let public = shale::generate_key(path, comment)?;
    let name = text::path(path);
    if say.json {
        say.value(&json!({ "public_key": shale::hex::encode(&public) }))?;
    } else {
        say.line(format!(
            "{name}: the secret key, keep it safe; give {name}.pub to those who verify your images"
        ));
    }
    Ok(Exit::Done)
}

/// The default path of the signature of an image.
pub fn beside(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".sig");
    name.into()
}

/// Returns whether an image has a signature, in it or beside it.
///
/// # Errors
/// The image cannot be read.
pub fn is_signed(path: &Path, image: &Arc<Image>) -> anyhow::Result<bool> {
    Ok(!shale::signatures(image)?.is_empty() || beside(path).exists())
}

/// Signs an image.
///
/// # Errors
/// The image is damaged, or the key or signature file cannot be used.
pub fn sign(args: &Sign, say: &Say) -> anyhow::Result<Exit> {
    match args.embed {
        true => open::only_whole(&args.image, "shale sign --embed")?,
        false => open::only_file(&args.image, "shale sign")?,
    }
    let key = shale::read_secret_key(&args.key)?;
    let options = SignOptions::default().bases(open::bases(say)).cancel(signal::cancel()?);
    let bar = Bar::new(say);
    let signature = shale::sign(&args.image, &key, &options, &bar);
    drop(bar);
    let signature = signature.map_err(|error| open::named(&args.image, error.into()))?;
    let place = if args.embed {
        shale::embed_signature(&args.image, &signature, &options)?;
        args.image.clone()
    } else {
        let path = args.output.clone().unwrap_or_else(|| beside(&args.image));
        shale::write_signature(&path, &signature, args.force)?;
        path
    };
    if say.json {
        say.value(&json!({
            "identity": signature.identity.to_string(),
            "public_key": shale::hex::encode(&signature.public_key),
            "embedded": args.embed,
        }))?;
    } else {
        say.line(format!("{}: signed, identity {}", text::path(&place), signature.identity));
    }
    Ok(Exit::Done)
}

/// Verifies a signature and the image.
///
/// # Errors
/// The signature or the image is not valid, or a file cannot be read.
pub fn verify(args: &Verify, say: &Say) -> anyhow::Result<Exit> {
    if let Some(directory) = &args.against {
        return against::run(args, directory, say);
    }
    let keys: Result<Vec<_>, _> =
        args.key.iter().map(|path| shale::read_public_key(path)).collect();
    let keys = keys?;
    if keys.is_empty() {
        bail!("no public key is given");
    }
    let options = SignOptions::default().skip_content(args.skip_content).cancel(signal::cancel()?);
    let path = match &args.signature {
        Some(path) => Some(path.clone()),
        None => Some(beside(&args.image)).filter(|path| path.exists()),
    };
    let detached = path.as_deref().map(shale::read_signature).transpose()?;
    let source = open::source(&args.image, say)?;
    let (bar, name, detached) = (Bar::new(say), &args.image, detached.as_ref());
    let verified = shale::verify_signature_in(source, name, &keys, detached, &options, &bar);
    drop(bar);
    let verified = verified.map_err(|error| open::named(&args.image, error.into()))?;
    if say.json {
        say.value(&json!({
            "identity": verified.identity.to_string(),
            "public_key": shale::hex::encode(&verified.public_key),
            "content": !args.skip_content,
        }))?;
    } else {
        // Only the identity goes to standard output, so that scripts can pass it to `--expect`.
        say.raw(format!("{}\n", verified.identity).as_bytes())?;
        say.line(format!(
            "{}: signed by {}{}",
            text::path(&args.image),
            shale::hex::encode(&verified.public_key),
            if args.skip_content { "; its contents were not verified" } else { ", and unchanged" }
        ));
    }
    Ok(Exit::Done)
}
