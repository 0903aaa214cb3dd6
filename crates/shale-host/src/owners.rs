//! Names of users and groups, from `/etc/passwd` and `/etc/group` of this machine.
//!
//! Names that only a directory service knows are not found; their numbers are shown instead.

use std::collections::HashMap;
use std::io;
use std::path::Path;

/// The list of users.
pub const USERS: &str = "/etc/passwd";
/// The list of groups.
pub const GROUPS: &str = "/etc/group";

/// Names of users and groups by number.
#[derive(Debug, Default)]
pub struct Owners {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Owners {
    /// Reads the lists of this machine. A list that cannot be read counts as empty.
    pub fn of_machine() -> Self {
        Self { users: names(Path::new(USERS)), groups: names(Path::new(GROUPS)) }
    }

    /// Returns the name of a user. A user without a name is shown by number.
    pub fn user(&self, uid: u32) -> String {
        self.users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// Returns the number of a user; `None` if this machine has no such user.
    pub fn user_id(&self, name: &str) -> Option<u32> {
        by_name(&self.users, name)
    }

    /// Returns the number of a group; `None` if this machine has no such group.
    pub fn group_id(&self, name: &str) -> Option<u32> {
        by_name(&self.groups, name)
    }

    /// Returns the name of a group. A group without a name is shown by number.
    pub fn group(&self, gid: u32) -> String {
        self.groups.get(&gid).cloned().unwrap_or_else(|| gid.to_string())
    }
}

/// The smallest number with this name.
fn by_name(names: &HashMap<u32, String>, name: &str) -> Option<u32> {
    names.iter().filter(|(_, known)| *known == name).map(|(id, _)| *id).min()
}

/// Reads the names of a list. The first name of a number counts.
fn names(list: &Path) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in std::fs::read_to_string(list).unwrap_or_default().lines() {
        if let Some((name, id)) = entry(line) {
            names.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    names
}

/// The name and number of a line.
fn entry(line: &str) -> Option<(&str, u32)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    Some((name, fields.nth(1)?.parse().ok()?))
}

/// Looks up the number of a name in [`USERS`] or [`GROUPS`]. The first line with the name counts.
///
/// # Errors
/// The list cannot be read.
pub fn find_id(name: &str, list: &str) -> io::Result<Option<u32>> {
    let text = std::fs::read_to_string(list)?;
    let found = text.lines().filter_map(entry).find(|(known, _)| *known == name);
    Ok(found.map(|(_, id)| id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        assert_eq!(entry("root:x:0:0:root:/root:/bin/sh"), Some(("root", 0)));
        assert_eq!(entry("video:x:44:"), Some(("video", 44)));
        assert_eq!(entry("+::::::"), None);
        assert_eq!(entry(""), None);
    }
}
