//! The header in front of an entry's data. It repeats what the directory says, so it shows whether
//! that is damaged, and it has extra fields of its own.

use super::directory::Entry;
use super::extra::Extra;
use super::records::{FLAG_DESCRIPTOR, FLAG_ENCRYPTED, LOCAL_LEN, LOCAL_MAGIC};
use crate::names::shown;
use crate::tree::{ImageFile, le};

/// Reads the local header of `entry`, compares it, and adds what only its extra fields say. Returns
/// where the data begin.
///
/// # Errors
/// Says where the header and the directory differ.
pub(super) fn read(file: &ImageFile, entry: &mut Entry) -> Result<u64, String> {
    let offset = entry.offset;
    let head = file.read(offset, LOCAL_LEN)?;
    if &head[..4] != LOCAL_MAGIC {
        return Err(format!("there is no header of an entry at byte {offset}: corrupt"));
    }
    let field = |at: usize, len: usize| le(&head[at..at + len]);
    let (name_len, extra_len) = (field(26, 2), field(28, 2));
    let rest = file.read(offset + LOCAL_LEN, name_len + extra_len)?;
    let (name, extra) = rest.split_at(name_len as usize);
    if name != entry.raw_name {
        return Err(format!(
            "its header at byte {offset} has another name, {}: corrupt",
            shown(name)
        ));
    }
    let differs = |what: &str| {
        Err(format!("its header at byte {offset} and the directory differ in {what}: corrupt"))
    };
    let flags = field(6, 2) as u16;
    if field(8, 2) as u16 != entry.method || (flags ^ entry.flags) & FLAG_ENCRYPTED != 0 {
        return differs("the compression method or encryption");
    }
    let mut of_header = Extra::default();
    of_header.add(extra)?;
    // What follows the data is not known yet when this header is written.
    if (flags | entry.flags) & FLAG_DESCRIPTOR == 0 {
        let (mut stored_len, mut len) = (field(18, 4), field(22, 4));
        if let [large_len, large_stored_len, ..] = of_header.large[..]
            && (len == u64::from(u32::MAX) || stored_len == u64::from(u32::MAX))
        {
            (len, stored_len) = (large_len, large_stored_len);
        }
        if (stored_len, len) != (entry.stored_len, entry.len) {
            return differs("the length");
        }
        if field(14, 4) as u32 != entry.crc {
            return differs("the checksum");
        }
    }
    entry.extra.add(extra)?;
    Ok(offset + LOCAL_LEN + name_len + extra_len)
}
