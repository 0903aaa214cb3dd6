//! `shale keygen`, `shale sign`, `shale verify`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use serde_json::json;
use shale::SignOptions;

use crate::args::{Sign, Verify};
use crate::bar::Bar;
use crate::exit::Exit;
use crate::report::Say;
use crate::{signal, text};

/// Makes a key.
pub fn keygen(path: &Path, comment: &str, say: &Say) -> anyhow::Result<Exit> {
    let public = shale::generate_key(path, comment)?;
    let name = text::path(path);
    if say.json {
        say.value(&json!({ "public_key": text::hex(&public) }))?;
    } else {
        say.line(format!("{name}: keep it secret; {name}.pub is for those who verify"));
    }
    Ok(Exit::Done)
}

/// Where the signature of an image lies if nothing else is said.
fn beside(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".sig");
    name.into()
}

/// Signs an image.
pub fn sign(args: &Sign, say: &Say) -> anyhow::Result<Exit> {
    let key = shale::read_secret_key(&args.key)?;
    let options = SignOptions { cancel: signal::cancel()?, ..SignOptions::default() };
    let bar = Bar::new(say);
    let signature = shale::sign(&args.image, &key, &options, &bar);
    drop(bar);
    let signature = signature?;
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
            "public_key": text::hex(&signature.public_key),
            "embedded": args.embed,
        }))?;
    } else {
        say.line(format!("{}: signed, identity {}", text::path(&place), signature.identity));
    }
    Ok(Exit::Done)
}

/// Verifies a signature and the image.
pub fn verify(args: &Verify, say: &Say) -> anyhow::Result<Exit> {
    let keys: Result<Vec<_>, _> =
        args.key.iter().map(|path| shale::read_public_key(path)).collect();
    let keys = keys?;
    if keys.is_empty() {
        bail!("no key is given, so there is nobody to trust");
    }
    let options = SignOptions {
        skip_content: args.skip_content,
        cancel: signal::cancel()?,
        ..SignOptions::default()
    };
    let path = match &args.signature {
        Some(path) => Some(path.clone()),
        None => Some(beside(&args.image)).filter(|path| path.exists()),
    };
    let detached = path.as_deref().map(shale::read_signature).transpose()?;
    let bar = Bar::new(say);
    let verified = shale::verify_signature(&args.image, &keys, detached.as_ref(), &options, &bar);
    drop(bar);
    let verified = verified?;
    if say.json {
        say.value(&json!({
            "identity": verified.identity.to_string(),
            "public_key": text::hex(&verified.public_key),
            "content": !args.skip_content,
        }))?;
    } else {
        // The identity alone goes to standard output, for `--expect`.
        say.raw(format!("{}\n", verified.identity).as_bytes())?;
        say.line(format!(
            "{}: signed by {}{}",
            text::path(&args.image),
            text::hex(&verified.public_key),
            if args.skip_content { "; its bytes were not compared" } else { ", and whole" }
        ));
    }
    Ok(Exit::Done)
}
