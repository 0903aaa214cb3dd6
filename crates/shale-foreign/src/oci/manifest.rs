//! Which image of a layout is meant, and which layers it has.

use serde_json::Value;

use super::blobs::{Blobs, Digest};
use super::fault::fault;
use super::options::OciOptions;
use crate::error::ForeignError;
use crate::lacks;

/// Layers of an image; runtimes allow some 500.
const LAYERS_MAX: usize = 4096;
/// Images that an error lists.
const LISTED_MAX: usize = 20;
/// Indexes within indexes.
const INDEX_DEPTH_MAX: usize = 4;

/// One image: its layers from the bottom to the top.
pub(super) struct Image {
    /// What stands for the image: the digest of its manifest or configuration.
    pub(super) digest: Digest,
    pub(super) layers: Vec<Layer>,
}

/// A layer.
pub(super) struct Layer {
    /// Its path among the blobs.
    pub(super) path: String,
    pub(super) digest: LayerDigest,
}

/// What the digest of a layer is made of.
pub(super) enum LayerDigest {
    /// The blob as it is stored.
    Stored(Digest),
    /// The tar archive that it decompresses to.
    Plain(Digest),
}

/// One that can be chosen.
struct Candidate {
    /// Names by which it can be chosen; the first one is shown.
    names: Vec<String>,
    platform: Option<String>,
    what: What,
}

enum What {
    /// A manifest of OCI.
    Manifest(Digest),
    /// An entry of `manifest.json`.
    Docker { config: String, layers: Vec<String> },
}

/// Returns true if there is a `manifest.json` as `docker save` writes it.
pub(super) fn is_docker(blobs: &Blobs) -> bool {
    let Ok(Some(bytes)) = blobs.document("manifest.json") else { return false };
    let Ok(Value::Array(images)) = serde_json::from_slice(&bytes) else { return false };
    let is_image = |image: &Value| image["Config"].is_string() && image["Layers"].is_array();
    !images.is_empty() && images.iter().all(is_image)
}

/// Lists the images.
fn candidates(blobs: &Blobs) -> Result<Vec<Candidate>, ForeignError> {
    let mut candidates = Vec::new();
    match blobs.document("index.json")? {
        Some(bytes) => from_index(blobs, &bytes, &[], 0, &mut candidates)?,
        None => from_docker(blobs, &mut candidates)?,
    }
    match candidates.is_empty() {
        true => Err(fault("it has no image of files")),
        false => Ok(candidates),
    }
}

/// Returns the first name of each image, in the order of the index, each once.
pub(super) fn names(blobs: &Blobs) -> Result<Vec<String>, ForeignError> {
    let mut names: Vec<String> = Vec::new();
    for candidate in candidates(blobs)? {
        let Some(name) = candidate.names.into_iter().next() else {
            return Err(fault("it has an image without a tag, so its snapshot would have no name"));
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Finds the image that the options name.
pub(super) fn choose(blobs: &Blobs, options: &OciOptions) -> Result<Image, ForeignError> {
    let candidates = candidates(blobs)?;
    let by_tag = |candidate: &&Candidate| match &options.tag {
        Some(tag) => candidate.names.iter().any(|name| is_named(name, tag)),
        None => true,
    };
    let tagged: Vec<&Candidate> = candidates.iter().filter(by_tag).collect();
    if let (true, Some(tag)) = (tagged.is_empty(), &options.tag) {
        let all: Vec<&Candidate> = candidates.iter().collect();
        return Err(fault(format!("it has no tag `{tag}`; it has {}", tags(&all))));
    }
    let first_names = tagged.first().map(|candidate| &candidate.names);
    if tagged.iter().any(|candidate| Some(&candidate.names) != first_names) {
        return Err(fault(format!(
            "{}, and an image of ShaleFS made of it would be one of them: {}",
            lacks::TAG,
            tags(&tagged)
        )));
    }
    let by_platform = |candidate: &&&Candidate| match &options.platform {
        Some(wanted) => candidate.platform.as_ref() == Some(wanted),
        None => true,
    };
    let chosen: Vec<&&Candidate> = tagged.iter().filter(by_platform).collect();
    let platforms = || {
        let of = |candidate: &&Candidate| candidate.platform.clone().unwrap_or("unknown".into());
        tagged.iter().map(of).collect::<Vec<_>>().join(", ")
    };
    match (&chosen[..], &options.platform) {
        ([one], _) => open(blobs, one),
        ([], Some(wanted)) => {
            Err(fault(format!("it has no image for {wanted}; it has {}", platforms())))
        }
        _ => Err(fault(format!("{}: {}", lacks::PLATFORM, platforms()))),
    }
}

/// Returns true if a name is meant by `tag`: in whole, without its registry and path, or its part
/// after the last colon.
fn is_named(name: &str, tag: &str) -> bool {
    name == tag
        || name.rsplit_once(':').is_some_and(|(_, part)| part == tag)
        || name.strip_suffix(tag).is_some_and(|rest| rest.ends_with('/'))
}

fn tags(candidates: &[&Candidate]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for candidate in candidates {
        let name = candidate.names.first().map_or("an image without a tag", String::as_str);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(LISTED_MAX);
    names.truncate(LISTED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}

fn json(bytes: &[u8], what: &str) -> Result<Value, ForeignError> {
    serde_json::from_slice(bytes).map_err(|error| fault(format!("{what} is not valid: {error}")))
}

/// Reads a blob that is a document, and checks its digest.
fn checked(blobs: &Blobs, digest: &Digest) -> Result<Vec<u8>, ForeignError> {
    let path = digest.path();
    let bytes = blobs.document(&path)?;
    let bytes = bytes.ok_or_else(|| fault(format!("{path} is missing")))?;
    digest.check(Box::new(std::io::Cursor::new(bytes.clone())), &path)?;
    Ok(bytes)
}

/// Collects the images of an index, and of those that it refers to.
fn from_index(
    blobs: &Blobs,
    bytes: &[u8],
    names: &[String],
    depth: usize,
    candidates: &mut Vec<Candidate>,
) -> Result<(), ForeignError> {
    let index = json(bytes, "the index")?;
    let empty = Vec::new();
    for entry in index["manifests"].as_array().unwrap_or(&empty) {
        let digest = Digest::parse(entry["digest"].as_str().unwrap_or_default())?;
        let annotations = &entry["annotations"];
        let keys = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
        let mut own: Vec<String> =
            keys.iter().filter_map(|key| annotations[*key].as_str()).map(str::to_owned).collect();
        if own.is_empty() {
            own = names.to_vec();
        }
        let media_type = entry["mediaType"].as_str().unwrap_or_default();
        if media_type.ends_with("image.index.v1+json")
            || media_type.ends_with("manifest.list.v2+json")
        {
            if depth == INDEX_DEPTH_MAX {
                return Err(fault("indexes refer to indexes too deeply"));
            }
            let inner = checked(blobs, &digest)?;
            from_index(blobs, &inner, &own, depth + 1, candidates)?;
            continue;
        }
        let platform = platform(&entry["platform"]);
        // Attestations lie among the images, for a platform that is none.
        if platform.as_deref() == Some("unknown/unknown") {
            continue;
        }
        candidates.push(Candidate { names: own, platform, what: What::Manifest(digest) });
    }
    Ok(())
}

fn platform(value: &Value) -> Option<String> {
    let part = |key: &str| value[key].as_str();
    let mut platform = format!("{}/{}", part("os")?, part("architecture")?);
    if let Some(variant) = part("variant") {
        platform.push('/');
        platform.push_str(variant);
    }
    Some(platform)
}

/// Collects the images that `manifest.json` lists.
fn from_docker(blobs: &Blobs, candidates: &mut Vec<Candidate>) -> Result<(), ForeignError> {
    let bytes = blobs.document("manifest.json")?;
    let bytes = bytes.ok_or_else(|| fault("it has neither index.json nor manifest.json"))?;
    let images = json(&bytes, "manifest.json")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    for image in images.as_array().into_iter().flatten() {
        let list = |key: &str| -> Vec<String> {
            image[key].as_array().into_iter().flatten().filter_map(text).collect()
        };
        let config = text(&image["Config"]);
        let config = config.ok_or_else(|| fault("manifest.json names no configuration"))?;
        let what = What::Docker { config, layers: list("Layers") };
        candidates.push(Candidate { names: list("RepoTags"), platform: None, what });
    }
    Ok(())
}

/// Reads the manifest or the configuration of an image.
fn open(blobs: &Blobs, candidate: &Candidate) -> Result<Image, ForeignError> {
    match &candidate.what {
        What::Manifest(digest) => {
            let manifest = json(&checked(blobs, digest)?, "the manifest")?;
            let layers = manifest["layers"].as_array();
            let layers = layers.ok_or_else(|| fault("its manifest lists no layers"))?;
            let layer = |layer: &Value| {
                let media_type = layer["mediaType"].as_str().unwrap_or_default();
                if media_type.contains("encrypted") {
                    return Err(fault("a layer is encrypted, which is not supported"));
                }
                let digest = Digest::parse(layer["digest"].as_str().unwrap_or_default())?;
                Ok(Layer { path: digest.path(), digest: LayerDigest::Stored(digest) })
            };
            let layers = limited(layers)?.iter().map(layer).collect::<Result<_, _>>()?;
            Ok(Image { digest: digest.clone(), layers })
        }
        What::Docker { config, layers } => {
            let bytes = blobs.document(config)?;
            let bytes = bytes.ok_or_else(|| fault(format!("{config} is missing")))?;
            // The name of the configuration is its digest.
            let digits = config.rsplit('/').next().unwrap_or_default();
            let digits = digits.strip_suffix(".json").unwrap_or(digits);
            let digest = Digest::parse(&format!("sha256:{digits}"))?;
            digest.check(Box::new(std::io::Cursor::new(bytes.clone())), config)?;
            let configuration = json(&bytes, config)?;
            let plain = configuration["rootfs"]["diff_ids"].as_array();
            let plain = plain.ok_or_else(|| fault(format!("{config} lists no layers")))?;
            if plain.len() != layers.len() {
                return Err(fault(format!(
                    "{config} lists {} layers, and manifest.json {}",
                    plain.len(),
                    layers.len()
                )));
            }
            let layer = |(path, digest): (&String, &Value)| {
                let digest = Digest::parse(digest.as_str().unwrap_or_default())?;
                Ok(Layer { path: path.clone(), digest: LayerDigest::Plain(digest) })
            };
            let layers = limited(layers)?.iter().zip(plain).map(layer);
            Ok(Image { digest, layers: layers.collect::<Result<_, ForeignError>>()? })
        }
    }
}

fn limited<T>(layers: &[T]) -> Result<&[T], ForeignError> {
    match layers.len() <= LAYERS_MAX {
        true => Ok(layers),
        false => Err(fault(format!("it has {} layers; {LAYERS_MAX} are allowed", layers.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn a_tag_is_a_name_in_whole_or_its_end() {
        for (name, tag) in [
            ("latest", "latest"),
            ("docker.io/library/alpine:3.20", "3.20"),
            ("docker.io/library/alpine:3.20", "alpine:3.20"),
            ("docker.io/library/alpine:3.20", "docker.io/library/alpine:3.20"),
        ] {
            assert!(is_named(name, tag), "{name} {tag}");
        }
        for (name, tag) in [("alpine:3.20", "20"), ("alpine:3.20", "alpine"), ("a/b:1", ":1")] {
            assert!(!is_named(name, tag), "{name} {tag}");
        }
    }
}
