//! The files of the AWS tools: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::environment::{home, read_file, variable};
use crate::error::Reason;

/// Settings of one profile, those of both files together.
#[derive(Debug, Default)]
pub(super) struct Profile {
    name: String,
    settings: BTreeMap<String, String>,
}

impl Profile {
    /// The profile that `AWS_PROFILE` names, or `default`. Files that are missing are empty.
    ///
    /// # Errors
    /// A file cannot be read, or the environment names a profile that no file has.
    pub(super) fn load() -> Result<Self, Reason> {
        let wanted = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        let name = wanted.clone().unwrap_or_else(|| "default".into());
        let mut settings = BTreeMap::new();
        let mut is_found = false;
        for (variable_name, file) in
            [("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials")]
        {
            let default = home().map(|home| home.join(".aws").join(file));
            let path = variable(variable_name).map(PathBuf::from).or(default);
            let Some(path) = path.filter(|path| path.exists()) else { continue };
            is_found |= add(&read_file(&path)?, &name, &mut settings);
        }
        if wanted.is_some() && !is_found {
            let what = format!("there is no profile {name} in ~/.aws/config or ~/.aws/credentials");
            return Err(Reason::Credentials(what));
        }
        Ok(Self { name, settings })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }
}

/// Adds the settings of `profile` in the text of a file. Returns true if the file has it.
fn add(text: &str, profile: &str, settings: &mut BTreeMap<String, String>) -> bool {
    let (mut is_here, mut is_found) = (false, false);
    for line in text.lines() {
        // Settings of a setting are indented.
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let section = section.trim();
            let name = section.strip_prefix("profile").filter(|rest| rest.starts_with([' ', '\t']));
            is_here = name.unwrap_or(section).trim().trim_matches('"') == profile;
            is_found |= is_here;
        } else if is_here
            && !is_nested
            && let Some((name, value)) = line.split_once('=')
        {
            let value = value.split(" #").next().unwrap_or_default();
            settings.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    is_found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_one_profile_are_found() {
        let text = "[default]\nregion = a\n\n[profile two]\n# x\nregion=eu-west-1 # near\n\
                    s3 =\n  region = wrong\n[profile three]\nregion = c\n";
        let mut settings = BTreeMap::new();
        assert!(add(text, "two", &mut settings));
        assert_eq!(settings.get("region").map(String::as_str), Some("eu-west-1"));
        assert!(!add(text, "four", &mut settings));
    }
}
