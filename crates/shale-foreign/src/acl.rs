//! POSIX access control lists as text, and as the bytes that Linux keeps them in.
//!
//! Text is as in `acl(5)` and in star's records: entries between commas or line ends, each a tag,
//! who, and permissions, with the number as a fourth field where there is a name in the second.
//! Names alone cannot be told: this crate asks no user database, as the same archive shall be the
//! same image everywhere.

/// Version of the bytes.
const VERSION: u32 = 2;
/// Stands for no number.
const NO_ID: u32 = u32::MAX;

/// Tags in the order in which they are kept.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The bytes of a list. `None` for one that says no more than permission bits do, which is not kept
/// as a list.
pub(crate) fn from_text(text: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut entries: Vec<(u16, u32, u16)> = Vec::new();
    for line in text.split(|&byte| byte == b',' || byte == b'\n') {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii();
        if line.is_empty() {
            continue;
        }
        entries.push(entry(line).map_err(|what| {
            format!("access control list entry `{}`: {what}", line.escape_ascii())
        })?);
    }
    entries.sort_unstable();
    if entries.windows(2).any(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1)) {
        return Err("access control list with two entries of one name".to_owned());
    }
    let has = |tag| entries.iter().any(|entry| entry.0 == tag);
    if entries.is_empty() {
        return Ok(None);
    }
    if !(has(USER_OBJ) && has(GROUP_OBJ) && has(OTHER)) {
        return Err("access control list without user, group or other".to_owned());
    }
    if entries.len() == 3 {
        return Ok(None);
    }
    let mut out = VERSION.to_le_bytes().to_vec();
    for (tag, id, permissions) in entries {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&permissions.to_le_bytes());
        out.extend_from_slice(&id.to_le_bytes());
    }
    Ok(Some(out))
}

/// The text of a list, as `getfacl` would write it with numbers. `None` if the bytes are none, or
/// one that would not come back the same.
pub(crate) fn to_text(bytes: &[u8], is_default: bool) -> Option<Vec<u8>> {
    let (version, entries) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
        return None;
    }
    let mut out = Vec::new();
    for entry in entries.chunks_exact(8) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let bits = u16::from_le_bytes([entry[2], entry[3]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let word: &[u8] = match tag {
            USER_OBJ | USER => b"user:",
            GROUP_OBJ | GROUP => b"group:",
            MASK => b"mask:",
            OTHER => b"other:",
            _ => return None,
        };
        out.extend_from_slice(word);
        if matches!(tag, USER | GROUP) {
            out.extend_from_slice(id.to_string().as_bytes());
        }
        out.push(b':');
        for (bit, letter) in [(4, b'r'), (2, b'w'), (1, b'x')] {
            out.push(if bits & bit != 0 { letter } else { b'-' });
        }
        out.push(b'\n');
    }
    let again = if is_default { default_from_text(&out) } else { from_text(&out) };
    (again == Ok(Some(bytes.to_vec()))).then_some(out)
}

/// The permission bits that a list stands for: Linux shows the mask as those of the group.
pub(crate) fn permissions(bytes: &[u8]) -> Option<u32> {
    let entries = bytes.get(4..)?.chunks_exact(8);
    let find = |wanted: u16| {
        entries.clone().find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == wanted)
    };
    let bits = |entry: &[u8]| u32::from(u16::from_le_bytes([entry[2], entry[3]])) & 7;
    let group = find(MASK).or_else(|| find(GROUP_OBJ))?;
    Some(bits(find(USER_OBJ)?) << 6 | bits(group) << 3 | bits(find(OTHER)?))
}

/// Like [`from_text`] for a default list, which is kept however short it is.
pub(crate) fn default_from_text(text: &[u8]) -> Result<Option<Vec<u8>>, String> {
    match from_text(text)? {
        None if !text.trim_ascii().is_empty() => {
            // A short one: make it long with an entry, and take that out again.
            let mut long = text.to_vec();
            long.extend_from_slice(b"\nuser:4294967294:---");
            let bytes = from_text(&long)?.unwrap_or_default();
            let (head, entries) = bytes.split_at(bytes.len().min(4));
            let kept = entries.chunks(8).filter(|entry| entry.first() != Some(&(USER as u8)));
            Ok(Some([head.to_vec(), kept.flatten().copied().collect()].concat()))
        }
        list => Ok(list),
    }
}

fn entry(line: &[u8]) -> Result<(u16, u32, u16), &'static str> {
    let mut fields = line.split(|&byte| byte == b':').map(<[u8]>::trim_ascii);
    let tag = fields.next().unwrap_or_default();
    let who = fields.next().unwrap_or_default();
    let mut permissions = fields.next();
    let mut number = fields.next();
    // `other:r--` and `mask:r--` without the empty field.
    if permissions.is_none() && matches!(tag, b"o" | b"other" | b"m" | b"mask") {
        (permissions, number) = (Some(who), None);
    }
    let who = if permissions == Some(who) && number.is_none() && is_permissions(who) {
        &[][..]
    } else {
        who
    };
    let permissions = permissions.ok_or("it has no permissions")?;
    if !is_permissions(permissions) {
        return Err("its permissions are not of r, w, x and -");
    }
    let bits = permissions.iter().fold(0, |bits, byte| {
        bits | match byte {
            b'r' => 4,
            b'w' => 2,
            b'x' => 1,
            _ => 0,
        }
    });
    let named = |plain, named| match (who, number) {
        (b"", None | Some(b"")) => Ok((plain, NO_ID, bits)),
        (who, number) => {
            let number = number.filter(|number| !number.is_empty()).unwrap_or(who);
            let id = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
            let id = id.ok_or("it names someone without a number")?;
            Ok((named, id, bits))
        }
    };
    match tag {
        b"u" | b"user" => named(USER_OBJ, USER),
        b"g" | b"group" => named(GROUP_OBJ, GROUP),
        b"m" | b"mask" => Ok((MASK, NO_ID, bits)),
        b"o" | b"other" => Ok((OTHER, NO_ID, bits)),
        _ => Err("its tag is not user, group, mask or other"),
    }
}

fn is_permissions(text: &[u8]) -> bool {
    !text.is_empty() && text.len() <= 3 && text.iter().all(|byte| b"rwx-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_writers_are_the_same_bytes() {
        let star = b"user::rw-,group::---,other::---,user:nobody:rw-:65534,mask::r--";
        let gnu = b"user::rw-\nuser:65534:rw-\ngroup::---\nmask::r--\nother::---\n";
        let bytes = from_text(star).unwrap().unwrap();
        assert_eq!(bytes, from_text(gnu).unwrap().unwrap());
        assert_eq!(bytes.len(), 4 + 5 * 8);
        assert_eq!(from_text(&to_text(&bytes, false).unwrap()).unwrap().unwrap(), bytes);
        assert_eq!(to_text(&bytes[..20], false), None);
        assert_eq!(permissions(&bytes), Some(0o640));
        assert_eq!(permissions(&bytes[..3]), None);
        assert_eq!(bytes[..12], [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255]);
        assert_eq!(bytes[12..20], [2, 0, 6, 0, 0xfe, 0xff, 0, 0]);
        assert_eq!(from_text(b"user::rw-,group::r--,other::r--").unwrap(), None);
        let short = default_from_text(b"user::rwx,group::r-x,other::---").unwrap().unwrap();
        assert_eq!(short.len(), 4 + 3 * 8);
        assert_eq!(default_from_text(b"").unwrap(), None);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for bad in
            ["user:bob:rw-,user::r--,group::r--,other::r--", "user::rw-", "x::rwx", "user::q"]
        {
            assert!(from_text(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
