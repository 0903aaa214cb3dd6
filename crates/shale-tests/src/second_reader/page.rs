//! Table pages, by chapter 6 of the specification. `None` is whatever it calls damage.

use std::collections::BTreeSet;

/// The values of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// A column of integers.
    Integers(Vec<u64>),
    /// A column of byte strings.
    Strings(Vec<Vec<u8>>),
}

impl Column {
    /// Adds rows of `other` at the end, after the sentinel row is taken away: those for which
    /// `shift` has a number, integers with it added. Marks of holes and zero runs stay as they are.
    pub fn join(&mut self, other: &Column, shift: impl Fn(usize) -> Option<u64>) {
        let (Self::Integers(all), Self::Integers(other)) = (self, other) else { return };
        all.pop();
        for (row, &value) in other.iter().enumerate() {
            if let Some(shift) = shift(row) {
                all.push(if value >= u64::MAX - 1 { value } else { value + shift });
            }
        }
    }
}

/// What was met: a kind of thing, and its number, such as a tag.
pub type Met = BTreeSet<(&'static str, u64)>;

/// Reads a page whose schema has these kinds of columns: true for integers, false for byte strings.
pub fn page(bytes: &[u8], columns_are_integers: &[bool]) -> Option<Vec<Column>> {
    page_met(bytes, columns_are_integers, &mut Met::new())
}

/// As [`page`], and notes tags of sections and forms of numbers.
pub fn page_met(bytes: &[u8], columns_are_integers: &[bool], met: &mut Met) -> Option<Vec<Column>> {
    let mut input = Input { bytes, met };
    if input.byte()? != 1 || usize::from(input.byte()?) != columns_are_integers.len() {
        return None;
    }
    let rows = usize::try_from(input.varint()?).ok().filter(|rows| (1..=65_536).contains(rows))?;
    let mut columns = Vec::new();
    for is_integers in columns_are_integers {
        columns.push(match is_integers {
            true => Column::Integers(integers(&mut input, rows, 4)?),
            false => Column::Strings(strings(&mut input, rows, true)?),
        });
    }
    input.bytes.is_empty().then_some(columns)
}

/// The head of a page of codec 4: a reference of 32 bytes to its base, and codec and stored bytes
/// of the patch.
pub fn patch_head(stored: &[u8]) -> Option<([u8; 32], u8, &[u8])> {
    let mut met = Met::new();
    let mut input = Input { bytes: stored, met: &mut met };
    input.varint()?;
    let mut reference = [0; 32];
    reference[..8].copy_from_slice(&input.varint()?.to_le_bytes());
    reference[8..16].copy_from_slice(input.take(8)?);
    for at in [16, 20] {
        let len = u32::try_from(input.varint()?).ok()?;
        reference[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }
    reference[24] = input.byte()?;
    let codec = input.byte().filter(|codec| *codec < 2)?;
    let rest = input.bytes.len();
    Some((reference, codec, &stored[stored.len() - rest..]))
}

/// Applies a patch to the columns of a page.
pub fn patched(before: &[Column], patch: &[u8], met: &mut Met) -> Option<Vec<Column>> {
    let mut input = Input { bytes: patch, met };
    let rows = usize::try_from(input.varint()?).ok().filter(|rows| (1..=65_536).contains(rows))?;
    let segment_count = usize::try_from(input.varint()?).ok().filter(|count| *count <= 65_536)?;
    let rows_before = match before.first()? {
        Column::Integers(values) => values.len(),
        Column::Strings(values) => values.len(),
    };
    // For each row the one that it comes from, and whether it is that row.
    let mut from: Vec<(Option<usize>, bool)> =
        (0..rows_before).map(|row| (Some(row), true)).collect();
    if segment_count > 0 {
        from.clear();
        let mut numbers = || integers(&mut input, segment_count, 4);
        let (kept, dropped, inserted) = (numbers()?, numbers()?, numbers()?);
        let mut at = 0u64;
        for ((kept, dropped), inserted) in kept.into_iter().zip(dropped).zip(inserted) {
            let end = at.checked_add(kept).filter(|end| *end <= rows_before as u64)?;
            from.extend((at..end).map(|row| (Some(row as usize), true)));
            let last = from.last().and_then(|last| last.0);
            let room = (rows - from.len().min(rows)) as u64;
            from.extend((0..inserted.min(room + 1)).map(|_| (last, false)));
            at = end.checked_add(dropped)?;
        }
        if at != rows_before as u64 {
            return None;
        }
        input.met.insert(("segments of patch", 1));
    }
    if from.len() != rows {
        return None;
    }
    let inserted: Vec<usize> = (0..rows).filter(|&row| !from[row].1).collect();
    let (mut last, mut columns) = (Vec::new(), Vec::new());
    for column in before {
        let kind = input.byte()?;
        let (form, list) = (kind & 7, kind >> 3);
        input.met.insert(("form of patch", form.into()));
        let changed: Vec<usize> = match (form, list) {
            (0, 0) => Vec::new(),
            (1 | 2, 0) => {
                let count =
                    usize::try_from(input.varint()?).ok().filter(|c| (1..=rows).contains(c))?;
                let mut next = 0u64;
                last = Vec::new();
                for gap in integers(&mut input, count, 4)? {
                    let row = next.checked_add(gap).filter(|row| *row < rows as u64)?;
                    last.push(row as usize);
                    next = row + 1;
                }
                last.clone()
            }
            (1 | 2, 1) => last.clone(),
            (1 | 2, 2) => inserted.clone(),
            (3 | 4, 0) => (0..rows).collect(),
            _ => return None,
        };
        if matches!(form, 1 | 2) {
            input.met.insert(("rows of patch", list.into()));
        }
        if form > 0 && changed.is_empty() {
            return None;
        }
        columns.push(match column {
            Column::Integers(old) => {
                let mut values: Vec<u64> =
                    from.iter().map(|(row, _)| row.map_or(0, |row| old[row])).collect();
                if form > 0 {
                    let new = integers(&mut input, changed.len(), 4)?;
                    for (row, new) in changed.into_iter().zip(new) {
                        values[row] = match form {
                            2 | 3 => values[row].wrapping_add(new >> 1 ^ (new & 1).wrapping_neg()),
                            _ => new,
                        };
                    }
                }
                Column::Integers(values)
            }
            Column::Strings(old) => {
                let mut values: Vec<Vec<u8>> = from
                    .iter()
                    .map(|(row, _)| row.map_or(Vec::new(), |row| old[row].clone()))
                    .collect();
                if form > 0 {
                    if matches!(form, 2 | 3) {
                        return None;
                    }
                    let new = strings(&mut input, changed.len(), true)?;
                    changed.into_iter().zip(new).for_each(|(row, new)| values[row] = new);
                }
                Column::Strings(values)
            }
        });
    }
    input.bytes.is_empty().then_some(columns)
}

struct Input<'b> {
    bytes: &'b [u8],
    met: &'b mut Met,
}

impl<'b> Input<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (head, tail) = self.bytes.split_at_checked(len)?;
        self.bytes = tail;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u128;
        for place in 0..10 {
            let byte = self.byte()?;
            value |= u128::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return u64::try_from(value).ok();
            }
        }
        None
    }

    fn count(&mut self, max: usize) -> Option<usize> {
        usize::try_from(self.varint()?).ok().filter(|count| (1..=max).contains(count))
    }
}

fn unzigzag(value: u64) -> u64 {
    if value & 1 == 0 { value / 2 } else { !(value / 2) }
}

/// `count` packed values, bit by bit.
fn packed(bytes: &[u8], count: usize, width: u32) -> Vec<u64> {
    let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
    let value = |i: usize| (0..width as usize).map(|b| bit(i * width as usize + b) << b).sum();
    (0..count).map(value).collect()
}

fn packed_len(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

fn integers(input: &mut Input<'_>, n: usize, tier: u8) -> Option<Vec<u64>> {
    let tag = input.byte()?;
    input.met.insert(("integers", tag.min(0x80).into()));
    let from_tier = match tag {
        0x12 => 1,
        0x13 | 0x14 => 2,
        0x15 | 0x16 => 3,
        _ => 0,
    };
    if tier < from_tier {
        return None;
    }
    Some(match tag {
        0x80.. => vec![u64::from(tag - 0x80); n],
        0x01..=0x08 => {
            let mut wide = [0; 8];
            wide[..usize::from(tag)].copy_from_slice(input.take(tag.into())?);
            vec![u64::from_le_bytes(wide); n]
        }
        0x10 => {
            let (base, step) = (input.varint()?, unzigzag(input.varint()?));
            (0..n as u64).map(|i| base.wrapping_add(i.wrapping_mul(step))).collect()
        }
        0x11 => {
            let (min, scale, width) = (input.varint()?, input.varint()?, u32::from(input.byte()?));
            if width > 64 {
                return None;
            }
            let codes = packed(input.take(packed_len(n, width))?, n, width);
            codes.iter().map(|code| min.wrapping_add(scale.wrapping_mul(*code))).collect()
        }
        0x12 => blocks(input, n)?,
        0x13 => runs(input, n, tier)?,
        0x14 => {
            let count = input.count(n)?;
            let values = integers(input, count, 0)?;
            let codes = integers(input, n, tier - 1)?;
            let value = |code: &u64| values.get(usize::try_from(*code).ok()?).copied();
            codes.iter().map(value).collect::<Option<_>>()?
        }
        0x15 | 0x16 => {
            let checkpoints = integers(input, n.div_ceil(64), 1)?;
            let deltas = integers(input, n, tier - 1)?;
            let delta = |i: usize| if tag == 0x16 { unzigzag(deltas[i]) } else { deltas[i] };
            let sum = |i: usize| {
                (i / 64 * 64 + 1..=i).fold(checkpoints[i / 64], |sum, j| sum.wrapping_add(delta(j)))
            };
            (0..n).map(sum).collect()
        }
        _ => return None,
    })
}

fn blocks(input: &mut Input<'_>, n: usize) -> Option<Vec<u64>> {
    let count = n.div_ceil(64);
    let (mins, ends) = (integers(input, count, 0)?, integers(input, count, 0)?);
    let start = |k: usize| if k == 0 { 0 } else { ends[k - 1] };
    let width = |k: usize| u32::try_from(ends[k].wrapping_sub(start(k))).ok().filter(|w| *w <= 64);
    let last = count - 1;
    let last_len = packed_len(n - last * 64, width(last)?);
    let len = usize::try_from(start(last)).ok()?.checked_mul(8)?.checked_add(last_len)?;
    let bytes = input.take(len)?;
    let mut values = Vec::new();
    for (k, min) in mins.iter().enumerate() {
        let in_block = (n - k * 64).min(64);
        let at = usize::try_from(start(k)).ok()?.checked_mul(8)?;
        let codes = bytes.get(at..at.checked_add(packed_len(in_block, width(k)?))?)?;
        let codes = packed(codes, in_block, width(k)?);
        values.extend(codes.iter().map(|code| min.wrapping_add(*code)));
    }
    Some(values)
}

fn runs(input: &mut Input<'_>, n: usize, tier: u8) -> Option<Vec<u64>> {
    let count = input.count(n)?;
    let starts = integers(input, count, 0)?;
    let bases = integers(input, count, tier - 1)?;
    let steps = integers(input, count, 1)?;
    if starts[0] != 0 || starts.windows(2).any(|pair| pair[0] >= pair[1]) {
        return None;
    }
    let value = |i: u64| {
        let k = starts.iter().rposition(|start| *start <= i)?;
        Some(bases[k].wrapping_add(steps[k].wrapping_mul(i - starts[k])))
    };
    (0..n as u64).map(value).collect()
}

fn strings(input: &mut Input<'_>, n: usize, is_column: bool) -> Option<Vec<Vec<u8>>> {
    let tag = input.byte()?;
    input.met.insert(("strings", tag.into()));
    match (tag, is_column) {
        (0x20, _) => {
            let len = usize::try_from(input.varint()?).ok()?;
            Some(vec![input.take(len)?.to_vec(); n])
        }
        (0x21, _) => rests(input, n),
        (0x22, _) => {
            let interval = usize::from(input.byte()?);
            if !(1..=64).contains(&interval) {
                return None;
            }
            let shared = integers(input, n, 1)?;
            let rests = rests(input, n)?;
            let mut all: Vec<Vec<u8>> = Vec::new();
            for (i, rest) in rests.iter().enumerate() {
                let keep = if i % interval == 0 { 0 } else { usize::try_from(shared[i]).ok()? };
                let before = all.last().map_or(&[][..], |s| s.as_slice());
                all.push([before.get(..keep)?, rest].concat());
            }
            Some(all)
        }
        (0x23, true) => {
            let count = input.count(n)?;
            let values = strings(input, count, false)?;
            let codes = integers(input, n, 4)?;
            codes.iter().map(|code| values.get(usize::try_from(*code).ok()?).cloned()).collect()
        }
        (0x24, true) => {
            let count = input.count(n)?;
            let prefixes = strings(input, count, false)?;
            let suffixes = strings(input, count, false)?;
            let forms = integers(input, count, 0)?;
            input.met.extend(forms.iter().map(|&form| ("form", form)));
            let (codes, numbers) = (integers(input, n, 4)?, integers(input, n, 4)?);
            let string = |(code, number): (&u64, &u64)| {
                let c = usize::try_from(*code).ok().filter(|c| *c < count)?;
                Some([&prefixes[c][..], &digits(forms[c], *number)?, &suffixes[c]].concat())
            };
            codes.iter().zip(&numbers).map(string).collect()
        }
        _ => None,
    }
}

/// `ends`, length and bytes, cut.
fn rests(input: &mut Input<'_>, n: usize) -> Option<Vec<Vec<u8>>> {
    let ends = integers(input, n, 3)?;
    let len = usize::try_from(input.varint()?).ok()?;
    let bytes = input.take(len)?;
    let cut = |i: usize| {
        let start = if i == 0 { 0 } else { usize::try_from(ends[i - 1]).ok()? };
        bytes.get(start..usize::try_from(ends[i]).ok()?).map(<[u8]>::to_vec)
    };
    (0..n).map(cut).collect()
}

fn digits(form: u64, number: u64) -> Option<Vec<u8>> {
    match form {
        0 => Some(Vec::new()),
        1..=18 => {
            let text = format!("{number:0len$}", len = form as usize);
            (text.len() == form as usize).then(|| text.into_bytes())
        }
        19..=36 => {
            let (mut text, mut rest) = (Vec::new(), number);
            for j in (1..=form - 18).rev() {
                let strings = (10u64.pow(j as u32) - 1) / 9;
                text.push(b'0' + u8::try_from(rest / strings).ok().filter(|digit| *digit < 10)?);
                rest %= strings;
                if rest == 0 {
                    return Some(text);
                }
                rest -= 1;
            }
            None
        }
        37..=54 => {
            let (mut places, mut rest) = (Vec::new(), number);
            for _ in 0..form - 36 {
                places.push((rest % 11) as u8);
                rest /= 11;
            }
            places.reverse();
            let used = places.iter().position(|d| *d == 0).unwrap_or(places.len());
            let right = rest == 0 && used > 0 && places[used..].iter().all(|d| *d == 0);
            right.then(|| places[..used].iter().map(|d| b'0' + d - 1).collect())
        }
        _ => None,
    }
}
