//! Owners and groups as people write them: a number, or a name of this machine.

use anyhow::Context;
use shale::owners::find_id;

use crate::exit::Misuse;

/// Parses a number, or looks up a name in a list of this machine.
///
/// # Errors
/// The name is not in the list, or the list cannot be read.
pub fn id(who: &str, list: &str) -> anyhow::Result<u32> {
    if let Ok(id) = who.parse() {
        return Ok(id);
    }
    let found = find_id(who, list).with_context(|| format!("cannot read {list}"))?;
    let id = found.ok_or_else(|| Misuse(format!("`{who}` is not in {list}; use a number")))?;
    Ok(id)
}
