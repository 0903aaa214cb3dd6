//! The filter of arrays: records of equal length, as planes.
//!
//! Arrays of numbers hold records of equal elements. What is alike lies a record apart: sign,
//! exponent and high bytes change slowly, low bytes are noise. The filter replaces each element by
//! its difference from the same element of the record before, and then stores all first bytes of
//! records together, then all second bytes, and so on; or all first bits. A codec finds much more
//! in that form. (Shuffling: Masui et al., "A compression scheme for radio data in high performance
//! computing", 2015, and the filters of HDF5.)
//!
//! The form is as long as the plain bytes. Three bytes before the compressed form say how it was
//! made; the layout is in `docs/format.md`, chapter 9.2. Any bytes have a form of any shape: a
//! wrong shape costs compression, never correctness.

/// Longest record, in bytes.
const RECORD_LEN_MAX: usize = 255;
/// Bytes of a shape in front of a compressed form.
pub(crate) const SHAPE_LEN: usize = 3;

/// The records of an array, and how they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    width: u8,
    count: u8,
    difference: Difference,
    shuffle: Shuffle,
}

/// What is stored of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Difference {
    /// The element.
    None = 0,
    /// The element less the one before, both little-endian.
    Little = 1,
    /// The element less the one before, both big-endian.
    Big = 2,
    /// The bits in which it differs from the element before.
    Xor = 3,
}

/// The order in which bytes of records are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shuffle {
    /// Record by record.
    None = 0,
    /// The first bytes of all records, then the second bytes, and so on.
    Bytes = 1,
    /// The lowest bits of the first bytes of all records, and so on.
    Bits = 2,
}

impl ArrayShape {
    /// Describes records of `count` elements of `width` bytes. Returns nothing for widths other
    /// than 1, 2, 4 and 8, and for records that are empty or longer than 255 bytes.
    pub fn new(
        width: usize,
        count: usize,
        difference: Difference,
        shuffle: Shuffle,
    ) -> Option<ArrayShape> {
        let fits = matches!(width, 1 | 2 | 4 | 8) && count > 0;
        (fits && count <= RECORD_LEN_MAX / width).then_some(ArrayShape {
            width: width as u8,
            count: count as u8,
            difference,
            shuffle,
        })
    }

    /// The same records in another order.
    #[must_use]
    pub fn with_shuffle(self, shuffle: Shuffle) -> ArrayShape {
        ArrayShape { shuffle, ..self }
    }

    /// Reports whether this is the last of [`array_shapes`] that takes records as single bytes.
    pub fn is_last_of_bytes(self) -> bool {
        self.width == 1 && self.difference == Difference::Xor
    }

    /// Bytes of a record.
    pub fn record_len(self) -> usize {
        usize::from(self.width) * usize::from(self.count)
    }

    pub(crate) fn to_bytes(self) -> [u8; SHAPE_LEN] {
        [self.width, self.count, self.difference as u8 | (self.shuffle as u8) << 4]
    }

    /// Reads a shape from the front of stored bytes.
    pub(crate) fn split(stored: &[u8]) -> Option<(ArrayShape, &[u8])> {
        let (&[width, count, ways], rest) = stored.split_first_chunk()?;
        let difference = match ways & 15 {
            0 => Difference::None,
            1 => Difference::Little,
            2 => Difference::Big,
            3 => Difference::Xor,
            _ => return None,
        };
        let shuffle = match ways >> 4 {
            0 => Shuffle::None,
            1 => Shuffle::Bytes,
            2 => Shuffle::Bits,
            _ => return None,
        };
        let shape = ArrayShape::new(usize::from(width), usize::from(count), difference, shuffle)?;
        Some((shape, rest))
    }
}

/// Appends the form of `plain` to `out`: as many bytes. Needs memory for one more copy of them.
pub fn array_form(shape: ArrayShape, plain: &[u8], out: &mut Vec<u8>) {
    let differences;
    let elements = match shape.difference {
        Difference::None => plain,
        _ => {
            differences = differences_of(shape, plain);
            &differences
        }
    };
    let (record_len, start) = (shape.record_len(), out.len());
    out.resize(start + plain.len(), 0);
    let form = &mut out[start..];
    match shape.shuffle {
        Shuffle::None => form.copy_from_slice(elements),
        Shuffle::Bytes => shuffle_bytes(record_len, elements, form),
        Shuffle::Bits => shuffle_bits(record_len, elements, form),
    }
}

/// Appends to `out` the plain bytes that a form stands for: as many bytes.
pub(crate) fn undo(shape: ArrayShape, form: &[u8], out: &mut Vec<u8>) {
    let (record_len, start) = (shape.record_len(), out.len());
    out.resize(start + form.len(), 0);
    let plain = &mut out[start..];
    match shape.shuffle {
        Shuffle::None => plain.copy_from_slice(form),
        Shuffle::Bytes => unshuffle_bytes(record_len, form, plain),
        Shuffle::Bits => unshuffle_bits(record_len, form, plain),
    }
    let little = shape.difference == Difference::Little;
    match (shape.difference, shape.width) {
        (Difference::None, _) => {}
        (Difference::Xor, _) => {
            for at in record_len..plain.len() {
                plain[at] ^= plain[at - record_len];
            }
        }
        (_, 1) => {
            for at in record_len..plain.len() {
                plain[at] = plain[at].wrapping_add(plain[at - record_len]);
            }
        }
        (_, 2) => add_up(plain, record_len, little, u16::from_le_bytes, u16::to_le_bytes),
        (_, 4) => add_up(plain, record_len, little, u32::from_le_bytes, u32::to_le_bytes),
        _ => add_up(plain, record_len, little, u64::from_le_bytes, u64::to_le_bytes),
    }
}

/// An integer of a fixed width whose sums wrap.
trait Wrapping: Copy {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn swapped(self) -> Self;
}

macro_rules! wrapping {
    ($($int:ty),*) => {$(
        impl Wrapping for $int {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn swapped(self) -> Self {
                self.swap_bytes()
            }
        }
    )*};
}

wrapping!(u16, u32, u64);

/// Adds to each whole element the one a record before, from front to back.
fn add_up<T: Wrapping, const W: usize>(
    plain: &mut [u8],
    record_len: usize,
    little: bool,
    load: fn([u8; W]) -> T,
    store: fn(T) -> [u8; W],
) {
    let (elements, _) = plain.as_chunks_mut::<W>();
    let distance = record_len / W;
    for at in distance..elements.len() {
        let (one, before) = (load(elements[at]), load(elements[at - distance]));
        let sum =
            if little { one.plus(before) } else { one.swapped().plus(before.swapped()).swapped() };
        elements[at] = store(sum);
    }
}

/// Subtracts from each whole element the one a record before.
fn subtract<T: Wrapping, const W: usize>(
    plain: &[u8],
    out: &mut [u8],
    record_len: usize,
    little: bool,
    load: fn([u8; W]) -> T,
    store: fn(T) -> [u8; W],
) {
    let ((elements, _), (out, _)) = (plain.as_chunks::<W>(), out.as_chunks_mut::<W>());
    let distance = record_len / W;
    for at in distance..elements.len() {
        let (one, before) = (load(elements[at]), load(elements[at - distance]));
        let left = if little {
            one.minus(before)
        } else {
            one.swapped().minus(before.swapped()).swapped()
        };
        out[at] = store(left);
    }
}

fn differences_of(shape: ArrayShape, plain: &[u8]) -> Vec<u8> {
    let record_len = shape.record_len();
    let mut out = plain.to_vec();
    let little = shape.difference == Difference::Little;
    let (load, store) = (u16::from_le_bytes, u16::to_le_bytes);
    match (shape.difference, shape.width) {
        (Difference::None, _) => {}
        (Difference::Xor, _) => {
            for at in record_len..plain.len() {
                out[at] = plain[at] ^ plain[at - record_len];
            }
        }
        (_, 1) => {
            for at in record_len..plain.len() {
                out[at] = plain[at].wrapping_sub(plain[at - record_len]);
            }
        }
        (_, 2) => subtract(plain, &mut out, record_len, little, load, store),
        (_, 4) => {
            subtract(plain, &mut out, record_len, little, u32::from_le_bytes, u32::to_le_bytes);
        }
        _ => subtract(plain, &mut out, record_len, little, u64::from_le_bytes, u64::to_le_bytes),
    }
    out
}

fn shuffle_bytes(record_len: usize, plain: &[u8], form: &mut [u8]) {
    let count = plain.len() / record_len;
    for plane in 0..record_len.min(plain.len()) {
        let out = &mut form[plane * count..][..count];
        for (out, record) in out.iter_mut().zip(plain.chunks_exact(record_len)) {
            *out = record[plane];
        }
    }
    let whole = count * record_len;
    form[whole..].copy_from_slice(&plain[whole..]);
}

fn unshuffle_bytes(record_len: usize, form: &[u8], plain: &mut [u8]) {
    let count = form.len() / record_len;
    for plane in 0..record_len.min(form.len()) {
        let from = &form[plane * count..][..count];
        for (&byte, record) in from.iter().zip(plain.chunks_exact_mut(record_len)) {
            record[plane] = byte;
        }
    }
    let whole = count * record_len;
    plain[whole..].copy_from_slice(&form[whole..]);
}

/// Turns 8 bytes of 8 bits each round: bit `b` of byte `a` becomes bit `a` of byte `b`.
fn transpose(mut x: u64) -> u64 {
    let mut swap = |shift: u32, mask: u64| {
        let t = (x ^ (x >> shift)) & mask;
        x ^= t ^ (t << shift);
    };
    swap(7, 0x00AA_00AA_00AA_00AA);
    swap(14, 0x0000_CCCC_0000_CCCC);
    swap(28, 0x0000_0000_F0F0_F0F0);
    x
}

/// Records that are shuffled by bits: whole groups of eight.
fn group_count(record_len: usize, len: usize) -> usize {
    len / record_len / 8
}

fn shuffle_bits(record_len: usize, plain: &[u8], form: &mut [u8]) {
    let groups = group_count(record_len, plain.len());
    for plane in 0..record_len {
        for group in 0..groups {
            let start = group * 8 * record_len + plane;
            let bytes = std::array::from_fn(|i| plain[start + i * record_len]);
            let bits = transpose(u64::from_le_bytes(bytes)).to_le_bytes();
            for (bit, byte) in bits.into_iter().enumerate() {
                form[(plane * 8 + bit) * groups + group] = byte;
            }
        }
    }
    let whole = groups * 8 * record_len;
    form[whole..].copy_from_slice(&plain[whole..]);
}

fn unshuffle_bits(record_len: usize, form: &[u8], plain: &mut [u8]) {
    let groups = group_count(record_len, form.len());
    for plane in 0..record_len {
        for group in 0..groups {
            let bits = std::array::from_fn(|bit| form[(plane * 8 + bit) * groups + group]);
            let bytes = transpose(u64::from_le_bytes(bits)).to_le_bytes();
            let start = group * 8 * record_len + plane;
            for (i, byte) in bytes.into_iter().enumerate() {
                plain[start + i * record_len] = byte;
            }
        }
    }
    let whole = groups * 8 * record_len;
    plain[whole..].copy_from_slice(&form[whole..]);
}

/// Lengths of records that are looked for, each after its divisors.
const RECORD_LENS: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 24];
/// A look at a frame: windows, spread evenly.
const WINDOW_COUNT: usize = 6;
const WINDOW_LEN: usize = 512;
/// Shorter inputs are not looked at.
const LEN_MIN: usize = 4096;
/// Bytes that differ by at most this are near.
const NEAR_MAX: u8 = 3;
/// A record length counts if more bytes are near at its distance than at the worst one: by this
/// share of all bytes, in percent, and twice as many.
const NEARER_PERCENT: usize = 8;

/// Guesses the length of records from a few kilobytes, or returns nothing where the bytes do not
/// look like an array. Costs about ten microseconds.
///
/// A wrong guess costs the caller a trial. Text has words of its favourite lengths, so do not ask
/// for text.
pub fn guess_record_len(plain: &[u8]) -> Option<usize> {
    if plain.len() < LEN_MIN {
        return None;
    }
    let stride = (plain.len() - WINDOW_LEN) / (WINDOW_COUNT - 1);
    let mut near = [0usize; RECORD_LENS.len()];
    let mut seen = 0;
    for index in 0..WINDOW_COUNT {
        let window = &plain[index * stride..][..WINDOW_LEN];
        let longest = RECORD_LENS[RECORD_LENS.len() - 1];
        let here = &window[longest..];
        seen += here.len();
        for (near, len) in near.iter_mut().zip(RECORD_LENS) {
            let before = &window[longest - len..];
            let is_near = |(&a, &b): (&u8, &u8)| a.abs_diff(b) <= NEAR_MAX;
            *near += here.iter().zip(before).filter(|pair| is_near(*pair)).count();
        }
    }
    // The shortest of the lengths that are nearly the best.
    let best = *near.iter().max()?;
    let margin = seen * NEARER_PERCENT / 100;
    let at = near.iter().position(|&near| near + margin / 2 >= best)?;
    let len = RECORD_LENS[at];
    let others = RECORD_LENS.iter().zip(near).filter(|(other, _)| **other % len != 0);
    let worst = others.map(|(_, near)| near).min().unwrap_or(best);
    // Where all distances are alike, as in noise and zeroes, there are no records.
    (len > 1 && best >= worst + margin.max(worst)).then_some(len)
}

/// Shapes worth a trial for records of this length: one for each way to take differences, with
/// shuffled bytes.
pub fn array_shapes(record_len: usize) -> Vec<ArrayShape> {
    let mut shapes = Vec::new();
    let mut add = |width: usize, differences: &[Difference]| {
        if record_len.is_multiple_of(width) {
            let shape = |&d| ArrayShape::new(width, record_len / width, d, Shuffle::Bytes);
            shapes.extend(differences.iter().filter_map(shape));
        }
    };
    add(1, &[Difference::None, Difference::Little, Difference::Xor]);
    for width in [2, 4, 8] {
        add(width, &[Difference::Little, Difference::Big]);
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        let mut stream = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
        let mut out = vec![0; len];
        stream.fill(&mut out);
        out
    }

    const DIFFERENCES: [Difference; 4] =
        [Difference::None, Difference::Little, Difference::Big, Difference::Xor];
    const SHUFFLES: [Shuffle; 3] = [Shuffle::None, Shuffle::Bytes, Shuffle::Bits];

    #[test]
    fn every_shape_gives_any_bytes_back() {
        for len in [0, 1, 7, 8, 63, 64, 1000, 4099] {
            let plain = noise(len as u64, len);
            for (width, count) in [(1, 1), (1, 3), (2, 1), (2, 5), (4, 3), (8, 1), (8, 31)] {
                for difference in DIFFERENCES {
                    for shuffle in SHUFFLES {
                        let shape = ArrayShape::new(width, count, difference, shuffle).unwrap();
                        let mut form = b"before".to_vec();
                        array_form(shape, &plain, &mut form);
                        let mut back = b"before".to_vec();
                        undo(shape, &form[6..], &mut back);
                        assert_eq!(&back[6..], plain, "{shape:?}");
                        let bytes = [&shape.to_bytes()[..], b"rest"].concat();
                        assert_eq!(ArrayShape::split(&bytes), Some((shape, &b"rest"[..])));
                    }
                }
            }
        }
    }

    #[test]
    fn shapes_that_are_not_defined_are_refused() {
        for bytes in [[0, 1, 0], [3, 1, 0], [16, 1, 0], [1, 0, 0], [2, 128, 0], [8, 32, 0]] {
            assert_eq!(ArrayShape::split(&bytes), None, "{bytes:?}");
        }
        for ways in [4, 15, 0x30, 0xF0] {
            assert_eq!(ArrayShape::split(&[2, 1, ways]), None, "{ways:#x}");
        }
        assert_eq!(ArrayShape::split(&[2, 1]), None, "cut off");
    }

    #[test]
    fn counters_become_their_steps() {
        let plain: Vec<u8> = (0..1000u32).flat_map(|i| (i * 3 + 250).to_be_bytes()).collect();
        let shape = ArrayShape::new(4, 1, Difference::Big, Shuffle::Bytes).unwrap();
        let mut form = Vec::new();
        array_form(shape, &plain, &mut form);
        assert_eq!(&form[..4], [0, 0, 0, 0]);
        assert_eq!(&form[3000..3003], [250, 3, 3]);
    }

    #[test]
    fn the_length_of_records_is_guessed_and_noise_and_zeroes_have_none() {
        let wave = |i: usize| (i as f64 / 300.0).sin();
        let f32s = |n| (0..n).flat_map(|i| (wave(i) as f32).to_le_bytes()).collect::<Vec<u8>>();
        let f64s = |n| (0..n).flat_map(|i| wave(i).to_be_bytes()).collect::<Vec<u8>>();
        let samples = |n| {
            let dither = noise(4, n);
            let one = move |i| ((wave(i) * 9000.0) as i16 + i16::from(dither[i])).to_le_bytes();
            (0..n).flat_map(one).collect::<Vec<u8>>()
        };
        let pixels = |n: usize| {
            let one = |i: usize| [i as u8 / 9, 200 - i as u8 / 7, 90 + (i % 50) as u8];
            (0..n).flat_map(one).collect::<Vec<u8>>()
        };
        let mut counters = Vec::new();
        for i in 0..20_000u32 {
            counters.extend((i * 1003).to_le_bytes());
        }
        assert_eq!(guess_record_len(&f32s(20_000)), Some(4));
        assert_eq!(guess_record_len(&f64s(20_000)), Some(8));
        assert_eq!(guess_record_len(&samples(20_000)), Some(2));
        assert_eq!(guess_record_len(&pixels(20_000)), Some(3));
        assert_eq!(guess_record_len(&counters), Some(4));
        for (name, bytes) in [("noise", noise(1, 50_000)), ("zeroes", vec![0; 50_000])] {
            assert_eq!(guess_record_len(&bytes), None, "{name}");
        }
        assert_eq!(guess_record_len(&f32s(1000)), None, "too short");
    }
}
