//! Keys as text: Bech32 (BIP 173) with a word before it that says what they are.

use bech32::Bech32;
use bech32::primitives::decode::CheckedHrpstring;
use zeroize::Zeroizing;

/// Returns the 32 bytes of a key whose text begins with `word`, in one case throughout. `None` if
/// it is another text, or a character is wrong.
pub(crate) fn decode(text: &str, word: &str) -> Option<Zeroizing<[u8; 32]>> {
    let checked = CheckedHrpstring::new::<Bech32>(text).ok()?;
    if !checked.hrp().to_lowercase().eq(word) {
        return None;
    }
    let mut key = Zeroizing::new([0; 32]);
    let mut bytes = checked.byte_iter();
    for byte in &mut *key {
        *byte = bytes.next()?;
    }
    bytes.next().is_none().then_some(key)
}
