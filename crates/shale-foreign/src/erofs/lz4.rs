//! LZ4 blocks of which only the first bytes may be wanted, because pieces of files share them.

/// Decompresses the block at the beginning of `bytes` to exactly `len` bytes.
///
/// # Errors
/// The bytes are not such a block.
pub(super) fn plain(bytes: &[u8], len: usize) -> Result<Vec<u8>, String> {
    block(bytes, len).ok_or_else(|| "corrupt LZ4 data".to_owned())
}

fn block(bytes: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut input = bytes.iter().copied();
    // A byte stands for at most 255 bytes, so the input bounds the output.
    let mut out = Vec::with_capacity(len.min(bytes.len().saturating_mul(255)));
    loop {
        let token = input.next()?;
        let literals = length(token >> 4, &mut input)?;
        if literals > input.len() {
            return None;
        }
        // The block may hold more than is wanted of it.
        let wanted = literals.min(len - out.len());
        out.extend(input.by_ref().take(wanted));
        if out.len() == len {
            return Some(out);
        }
        let offset = usize::from(u16::from_le_bytes([input.next()?, input.next()?]));
        let count = length(token & 15, &mut input)?.checked_add(4)?;
        let from = out.len().checked_sub(offset).filter(|_| offset > 0)?;
        // The last match may go on after what is wanted.
        for at in from..from + count.min(len - out.len()) {
            out.push(out[at]);
        }
        if out.len() == len {
            return Some(out);
        }
    }
}

/// A length of four bits, which goes on in whole bytes if all of them are set.
fn length(bits: u8, input: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut len = usize::from(bits);
    if bits == 15 {
        loop {
            let more = input.next()?;
            len += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_where_its_plain_bytes_do() {
        let text: Vec<u8> = (0..5000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let mut stored = shale_codec::stream::lz4_block_encode(&text);
        assert!(plain(&stored, text.len()).unwrap() == text);
        stored.extend_from_slice(&[0xa5; 100]);
        assert!(plain(&stored, text.len()).unwrap() == text);
        assert!(plain(&stored, 777).unwrap() == text[..777]);
        assert!(plain(&stored[..20], text.len()).is_err());
        assert!(plain(&[0x10, 1, 9, 0], 10).is_err() && plain(&[], 1).is_err());
    }
}
