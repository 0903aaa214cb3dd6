//! Where the runtime of bundles is.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use shale::Runtime;

/// The name of the runtime that cargo builds.
const BUILT: &str = "shale-runtime";

/// Reads the runtime at `given`; by default that of this machine's processor from `lib/shale`
/// beside the directory of this program, or the one that cargo built beside this program.
///
/// # Errors
/// No runtime was found, or the file is not a runtime.
pub fn find(given: Option<&Path>) -> anyhow::Result<Runtime> {
    if let Some(path) = given {
        return Ok(Runtime::read(path)?);
    }
    let own = std::env::current_exe().context("cannot find this program")?;
    let places = places(&own);
    for place in &places {
        if place.is_file() {
            return Ok(Runtime::read(place)?);
        }
    }
    let shown: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
    bail!(
        "there is no runtime for bundles: `make install` and `make runtime` put one there, and \
         --runtime names one elsewhere (looked for {})",
        shown.join(", ")
    )
}

fn places(own: &Path) -> Vec<PathBuf> {
    let Some(folder) = own.parent() else { return Vec::new() };
    let name = format!("runtime-{}", std::env::consts::ARCH);
    let mut places: Vec<PathBuf> = Vec::new();
    places.extend(folder.parent().map(|prefix| prefix.join("lib/shale").join(&name)));
    places.push(folder.join(&name));
    places.push(folder.join(BUILT));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_program_finds_the_runtime_of_its_prefix() {
        let first = places(Path::new("/usr/local/bin/shale")).remove(0);
        let name = format!("/usr/local/lib/shale/runtime-{}", std::env::consts::ARCH);
        assert_eq!(first, Path::new(&name));
    }
}
