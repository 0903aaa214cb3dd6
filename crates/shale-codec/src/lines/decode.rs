//! From columns to lines. The bytes are not trusted: they give an error or exactly the length asked
//! for, in time that grows with both lengths together.

use std::ops::Range;

use super::{
    CODE_LITERAL, CODE_SAME, DIGIT_COUNT_MAX, MODE_NATURAL, MODE_PLACE, SLOT, SLOT_COUNT_MAX,
    number,
};

/// Why bytes are not a lines form, in words.
type Fault = &'static str;

/// Appends to `out` the `plain_len` bytes that `form` decodes to. The caller reserves room for
/// them. Memory besides `out`: twelve bytes a template, so at most six times the form, as each
/// template has two bytes of it; and at most 4 MiB for the slots.
///
/// # Errors
/// The form is damaged. `out` may then hold some of the lines.
pub(crate) fn decode(form: &[u8], plain_len: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut rest = Cursor { form, at: 0 };
    let line_count = rest.varint()?;
    let templates = Templates::parse(&mut rest, line_count)?;
    let numbers_at = rest.at;
    let line_counts = count_lines(&mut rest, line_count, templates.count())?;
    let mut columns = Columns::find(&mut rest, &templates, &line_counts)?;
    if rest.at != form.len() {
        return Err("bytes follow the last column");
    }

    let start = out.len();
    // Zeroes first: then pieces are written with copies of a fixed length.
    out.resize(start + plain_len, 0);
    let mut lines = Lines { out: &mut out[start..], at: 0 };
    let mut numbers = Cursor { form, at: numbers_at };
    let mut places = vec![Value::default(); templates.slot_count_max];
    let mut seen = 0;
    for line in 0..line_count {
        if line > 0 {
            lines.push(b"\n", 0..1)?;
        }
        let template = next_template(&mut numbers, &mut seen, templates.count())?;
        let slots = columns.0[templates.slots(template)].iter_mut();
        let mut pieces = templates.pieces(template);
        // One piece more than slots: the first iterator ends first.
        for ((column, place), piece) in slots.zip(&mut places).zip(&mut pieces) {
            lines.push(form, piece)?;
            column.fill(place, form, &mut lines)?;
        }
        for piece in pieces {
            lines.push(form, piece)?;
        }
    }
    if lines.at == lines.out.len() { Ok(()) } else { Err("the lines are too short") }
}

/// Splits stored bytes into the length of the form and the rest. The length is at most the plain
/// length, which bounds memory.
pub(crate) fn split_len(stored: &[u8], plain_len: usize) -> Option<(usize, &[u8])> {
    let mut rest = Cursor { form: stored, at: 0 };
    let len = usize::try_from(rest.varint().ok()?).ok().filter(|&len| len <= plain_len)?;
    Some((len, &stored[rest.at..]))
}

/// A position in the form.
struct Cursor<'a> {
    form: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn varint(&mut self) -> Result<u64, Fault> {
        if let Some(&byte) = self.form.get(self.at)
            && byte < 0x80
        {
            self.at += 1;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = *self.form.get(self.at).ok_or("it ends within a number")?;
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too long")
    }

    /// Passes over the codes of `count` values.
    fn skip_codes(&mut self, mut count: u32) -> Result<(), Fault> {
        while count > 0 {
            // Eight codes at once where each has one byte and none is a literal.
            if count >= 8
                && let Some(codes) = self.form[self.at..].first_chunk::<8>()
                && codes.iter().all(|&code| code < 0x80 && u64::from(code) != CODE_LITERAL)
            {
                self.at += 8;
                count -= 8;
                continue;
            }
            if self.varint()? == CODE_LITERAL {
                let len = self.varint()?;
                self.take(len)?;
            }
            count -= 1;
        }
        Ok(())
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], Fault> {
        let left = &self.form[self.at..];
        let len = usize::try_from(len).ok().filter(|&len| len <= left.len());
        let len = len.ok_or("it ends within bytes")?;
        self.at += len;
        Ok(&left[..len])
    }
}

/// The next line's template; 0 is the first one that no line had before.
fn next_template(numbers: &mut Cursor<'_>, seen: &mut usize, count: usize) -> Result<usize, Fault> {
    let number = numbers.varint()?;
    if number > 0 && number <= *seen as u64 {
        return Ok(number as usize - 1);
    }
    if number > 0 || *seen == count {
        return Err("a line has a template that does not exist");
    }
    *seen += 1;
    Ok(*seen - 1)
}

/// Counts the lines of each template.
fn count_lines(rest: &mut Cursor<'_>, count: u64, templates: usize) -> Result<Vec<u32>, Fault> {
    let mut counts = vec![0u32; templates];
    let mut seen = 0;
    // Each takes a byte or more, so a count that is too great fails at the end of the form.
    for _ in 0..count {
        counts[next_template(rest, &mut seen, templates)?] += 1;
    }
    if seen == templates { Ok(counts) } else { Err("a template has no line") }
}

/// The texts between slots, and where each template begins among them.
struct Templates {
    /// The byte before the first piece, then the byte after each piece.
    ends: Vec<u32>,
    /// First piece of each template, and one number more.
    firsts: Vec<u32>,
    /// Most slots of a template.
    slot_count_max: usize,
    slot_count: usize,
}

impl Templates {
    fn parse(rest: &mut Cursor<'_>, line_count: u64) -> Result<Self, Fault> {
        let len = rest.varint()?;
        let start = rest.at;
        let text = rest.take(len)?;
        if rest.at > u32::MAX as usize {
            return Err("it is too long");
        }
        if text.last().is_some_and(|&last| last != b'\n') {
            return Err("the last template has no end");
        }
        let count_of = |wanted| text.iter().filter(|&&byte| byte == wanted).count();
        let (count, slot_count) = (count_of(b'\n'), count_of(SLOT));
        // Each template has a line, and each line a number, so this bounds memory.
        if count as u64 > line_count || count > rest.form.len() - rest.at {
            return Err("a template has no line");
        }
        if slot_count > SLOT_COUNT_MAX {
            return Err("it has too many slots");
        }
        let mut ends = Vec::with_capacity(1 + count + slot_count);
        // Two numbers precede the text.
        ends.push(start as u32 - 1);
        let mut firsts = Vec::with_capacity(count + 1);
        firsts.push(0);
        let (mut slot_count_max, mut slots) = (0, 0);
        for (at, &byte) in text.iter().enumerate() {
            match byte {
                SLOT => slots += 1,
                b'\n' => {
                    slot_count_max = slot_count_max.max(slots);
                    slots = 0;
                    firsts.push(ends.len() as u32);
                }
                _ => continue,
            }
            ends.push((start + at) as u32);
        }
        Ok(Self { ends, firsts, slot_count_max, slot_count })
    }

    fn count(&self) -> usize {
        self.firsts.len() - 1
    }

    /// The numbers of a template's slots among all slots. A template has one piece more than slots,
    /// so these are the pieces before it, less one for each template.
    fn slots(&self, template: usize) -> Range<usize> {
        let first = self.firsts[template] as usize - template;
        first..self.firsts[template + 1] as usize - template - 1
    }

    /// The pieces of a template, one more than its slots.
    fn pieces(&self, template: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let pieces = self.firsts[template] as usize..=self.firsts[template + 1] as usize;
        self.ends[pieces].windows(2).map(|ends| ends[0] as usize + 1..ends[1] as usize)
    }
}

/// Where a value lies in the lines, counted from their start. No value is empty.
#[derive(Clone, Copy, Default)]
struct Value {
    at: u32,
    len: u32,
}

/// The room for all lines, and how much of it is written.
struct Lines<'a> {
    out: &'a mut [u8],
    at: usize,
}

/// Most pieces and values are shorter. A copy of a fixed length is faster than one of any length;
/// what it writes too much is overwritten next.
const COPY_LEN: usize = 16;

impl Lines<'_> {
    /// Appends a range of bytes.
    #[inline(always)]
    fn push(&mut self, bytes: &[u8], range: Range<usize>) -> Result<(), Fault> {
        let Range { start, end } = range;
        let len = end - start;
        if len > self.out.len() - self.at {
            return Err("the lines are too long");
        }
        let to = &mut self.out[self.at..];
        self.at += len;
        match (to.first_chunk_mut::<COPY_LEN>(), bytes[start..].first_chunk::<COPY_LEN>()) {
            (Some(to), Some(from)) if len <= COPY_LEN => *to = *from,
            _ => to[..len].copy_from_slice(&bytes[start..end]),
        }
        Ok(())
    }

    /// Appends a value that was written before.
    #[inline(always)]
    fn repeat(&mut self, value: Value) -> Result<(), Fault> {
        let (from, len) = (value.at as usize, value.len as usize);
        if len > self.out.len() - self.at {
            return Err("the lines are too long");
        }
        let to = self.at;
        self.at += len;
        if len <= COPY_LEN && self.out.len() - to >= COPY_LEN {
            self.out.copy_within(from..from + COPY_LEN, to);
        } else {
            self.out.copy_within(from..from + len, to);
        }
        Ok(())
    }

    fn bytes(&self, value: Value) -> &[u8] {
        &self.out[value.at as usize..][..value.len as usize]
    }
}

/// A slot's codes.
#[derive(Clone, Copy)]
struct Column {
    at: u32,
    mode: u8,
    last: Value,
}

struct Columns(Vec<Column>);

impl Columns {
    /// Finds where each column begins, by skipping those before.
    fn find(
        rest: &mut Cursor<'_>,
        templates: &Templates,
        line_counts: &[u32],
    ) -> Result<Self, Fault> {
        let modes = rest.take(templates.slot_count as u64)?;
        if modes.iter().any(|&mode| mode > MODE_PLACE | MODE_NATURAL) {
            return Err("a slot has an unknown mode");
        }
        let column = |&mode| Column { at: 0, mode, last: Value::default() };
        let mut columns: Vec<Column> = modes.iter().map(column).collect();
        let mut places = Vec::with_capacity(modes.len());
        for (template, &line_count) in line_counts.iter().enumerate() {
            let slots = templates.slots(template).enumerate();
            places.extend(slots.map(|(place, slot)| (place as u32, slot as u32, line_count)));
        }
        places.sort_unstable();
        for (_, slot, line_count) in places {
            columns[slot as usize].at = u32::try_from(rest.at).map_err(|_| "it is too long")?;
            rest.skip_codes(line_count)?;
        }
        Ok(Self(columns))
    }
}

impl Column {
    /// Writes the slot's next value.
    fn fill(&mut self, place: &mut Value, form: &[u8], lines: &mut Lines<'_>) -> Result<(), Fault> {
        let known = if self.mode & MODE_PLACE == 0 { self.last } else { *place };
        let at = lines.at as u32;
        let mut codes = Cursor { form, at: self.at as usize };
        match codes.varint()? {
            CODE_SAME => lines.repeat(known)?,
            CODE_LITERAL => {
                let len = codes.varint()?;
                let len = codes.take(len)?.len();
                lines.push(form, codes.at - len..codes.at)?;
            }
            step => {
                let known = lines.bytes(known);
                let width = if self.mode & MODE_NATURAL == 0 { known.len() } else { 1 };
                let before =
                    number(known).ok_or("a difference from a value that is not a number")?;
                let after = before.checked_add_signed(unzigzag(step - 1));
                let mut digits = [0; DIGIT_COUNT_MAX];
                let from = in_digits(after.ok_or(RANGE)?, width, &mut digits)?;
                lines.push(&digits, from..DIGIT_COUNT_MAX)?;
            }
        }
        self.at = codes.at as u32;
        let len = lines.at as u32 - at;
        if len == 0 {
            // Otherwise a line could have any number of slots that cost time and give no byte.
            return Err("a value is empty");
        }
        self.last = Value { at, len };
        *place = self.last;
        Ok(())
    }
}

const RANGE: Fault = "a difference leaves the range of numbers";

/// Maps 1, 2, 3, 4 to -1, 1, -2, 2.
fn unzigzag(step: u64) -> i64 {
    ((step >> 1) as i64) ^ -((step & 1) as i64)
}

/// Writes a number with at least `width` digits to the end of `digits`. Returns where it begins.
fn in_digits(
    mut number: u64,
    width: usize,
    digits: &mut [u8; DIGIT_COUNT_MAX],
) -> Result<usize, Fault> {
    let mut from = DIGIT_COUNT_MAX;
    while number > 0 || DIGIT_COUNT_MAX - from < width {
        from = from.checked_sub(1).ok_or(RANGE)?;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    Ok(from)
}
