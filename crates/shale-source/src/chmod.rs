//! Changes of permissions in the notation of chmod and rsync: `u+rwX,go-w`, `D755,F644`.

/// A list of changes, applied in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chmod {
    changes: Vec<Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    /// Applies to directories (`D`), to other entries (`F`), or to all.
    scope: Scope,
    action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Directories,
    Others,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Set(u32),
    Symbolic {
        /// Bits that may change.
        who: u32,
        operator: Operator,
        /// Bits as if for user, group and others.
        bits: u32,
        /// `X`: execute permission for directories and for files that have one already.
        search: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Remove,
    Assign,
}

const EXECUTE: u32 = 0o111;

impl std::str::FromStr for Chmod {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut changes = Vec::new();
        for part in text.split(',') {
            let wrong = || format!("`{part}` is no change of permissions; write u+rwX or D755");
            let (scope, rest) = match part.as_bytes().first() {
                Some(b'D') => (Scope::Directories, &part[1..]),
                Some(b'F') => (Scope::Others, &part[1..]),
                _ => (Scope::All, part),
            };
            if rest.starts_with(|first: char| first.is_ascii_digit()) {
                let mode = u32::from_str_radix(rest, 8).ok().filter(|mode| *mode <= 0o7777);
                changes.push(Change { scope, action: Action::Set(mode.ok_or_else(wrong)?) });
                continue;
            }
            for action in symbolic(rest).ok_or_else(wrong)? {
                changes.push(Change { scope, action });
            }
        }
        Ok(Self { changes })
    }
}

fn symbolic(text: &str) -> Option<Vec<Action>> {
    let split = text.find(['+', '-', '='])?;
    let (whom, mut rest) = text.split_at(split);
    let mut who = 0;
    for letter in whom.chars() {
        who |= match letter {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o0007,
            'a' => 0o7777,
            _ => return None,
        };
    }
    if whom.is_empty() {
        who = 0o7777;
    }
    let mut actions = Vec::new();
    while let Some(sign) = rest.chars().next() {
        let operator = match sign {
            '+' => Operator::Add,
            '-' => Operator::Remove,
            '=' => Operator::Assign,
            _ => return None,
        };
        rest = &rest[1..];
        let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
        let (mut bits, mut search) = (0, false);
        for letter in rest[..end].chars() {
            bits |= match letter {
                'r' => 0o444,
                'w' => 0o222,
                'x' => EXECUTE,
                's' => 0o6000,
                't' => 0o1000,
                'X' => {
                    search = true;
                    0
                }
                _ => return None,
            };
        }
        rest = &rest[end..];
        // The sticky bit belongs to none of user, group and others.
        let who = if bits & 0o1000 != 0 { who | 0o1000 } else { who };
        actions.push(Action::Symbolic { who, operator, bits, search });
    }
    Some(actions)
}

impl Chmod {
    /// Returns the permissions after all changes.
    pub fn apply(&self, permissions: u32, is_directory: bool) -> u32 {
        self.changes.iter().fold(permissions, |mode, change| {
            match change.scope {
                Scope::Directories if !is_directory => return mode,
                Scope::Others if is_directory => return mode,
                _ => {}
            }
            match change.action {
                Action::Set(mode) => mode,
                Action::Symbolic { who, operator, mut bits, search } => {
                    if search && (is_directory || mode & EXECUTE != 0) {
                        bits |= EXECUTE;
                    }
                    match operator {
                        Operator::Add => mode | bits & who,
                        Operator::Remove => mode & !(bits & who),
                        // Setuid, setgid and sticky bits of a directory stay, as with chmod.
                        Operator::Assign if is_directory => mode & !(who & 0o777) | bits & who,
                        Operator::Assign => mode & !who | bits & who,
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_as_with_chmod() {
        let apply = |text: &str, mode, dir| text.parse::<Chmod>().unwrap().apply(mode, dir);
        assert_eq!(apply("u+rwX,go-w", 0o666, false), 0o644);
        assert_eq!(apply("u+rwX,go=rX", 0o600, true), 0o755);
        assert_eq!(apply("a=rX", 0o750, false), 0o555);
        assert_eq!(apply("D755,F644", 0o7777, true), 0o755);
        assert_eq!(apply("D755,F644", 0o7777, false), 0o644);
        assert_eq!(apply("-w", 0o4755, false), 0o4555);
        assert_eq!(apply("u-s,+t", 0o6755, false), 0o3755);
    }

    #[test]
    fn mistakes_are_told() {
        for bad in ["", "u", "q+r", "u+q", "99", "10000", "D"] {
            assert!(bad.parse::<Chmod>().is_err(), "{bad}");
        }
    }
}
