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
    let mut lines = Lines { out, start, end: start + plain_len };
    let mut numbers = Cursor { form, at: numbers_at };
    let mut places = vec![Value::default(); templates.slot_count_max];
    let mut seen = 0;
    for line in 0..line_count {
        if line > 0 {
            lines.push(b"\n")?;
        }
        let template = next_template(&mut numbers, &mut seen, templates.count())?;
        let slots = templates.slots(template);
        let first = slots.start;
        for slot in slots {
            lines.push(templates.piece(form, template, slot - first))?;
            columns.fill(slot, &mut places[slot - first], form, &mut lines)?;
        }
        lines.push(templates.last_piece(form, template))?;
    }
    if lines.out.len() == lines.end { Ok(()) } else { Err("the lines are too short") }
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
    fn varint(&mut self) -> Result<u64, Fault> {
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

    fn piece<'a>(&self, form: &'a [u8], template: usize, index: usize) -> &'a [u8] {
        let piece = self.firsts[template] as usize + index;
        &form[self.ends[piece] as usize + 1..self.ends[piece + 1] as usize]
    }

    fn last_piece<'a>(&self, form: &'a [u8], template: usize) -> &'a [u8] {
        let count = self.firsts[template + 1] - self.firsts[template];
        self.piece(form, template, count as usize - 1)
    }
}

/// Where a value lies in the lines, counted from their start. No value is empty.
#[derive(Clone, Copy, Default)]
struct Value {
    at: u32,
    len: u32,
}

/// The lines that are written so far, and where they must end.
struct Lines<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    end: usize,
}

impl Lines<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.len() > self.end - self.out.len() {
            return Err("the lines are too long");
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn repeat(&mut self, value: Value) -> Result<(), Fault> {
        let (at, len) = (self.start + value.at as usize, value.len as usize);
        if len > self.end - self.out.len() {
            return Err("the lines are too long");
        }
        self.out.extend_from_within(at..at + len);
        Ok(())
    }

    fn bytes(&self, value: Value) -> &[u8] {
        &self.out[self.start + value.at as usize..][..value.len as usize]
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
            for _ in 0..line_count {
                if rest.varint()? == CODE_LITERAL {
                    let len = rest.varint()?;
                    rest.take(len)?;
                }
            }
        }
        Ok(Self(columns))
    }

    /// Writes the next value of a slot.
    fn fill(
        &mut self,
        slot: usize,
        place: &mut Value,
        form: &[u8],
        lines: &mut Lines<'_>,
    ) -> Result<(), Fault> {
        let column = &mut self.0[slot];
        let known = if column.mode & MODE_PLACE == 0 { column.last } else { *place };
        let at = (lines.out.len() - lines.start) as u32;
        let mut codes = Cursor { form, at: column.at as usize };
        match codes.varint()? {
            CODE_SAME => lines.repeat(known)?,
            CODE_LITERAL => {
                let len = codes.varint()?;
                lines.push(codes.take(len)?)?;
            }
            step => {
                let known = lines.bytes(known);
                let width = if column.mode & MODE_NATURAL == 0 { known.len() } else { 1 };
                let before =
                    number(known).ok_or("a difference from a value that is not a number")?;
                let after = before.checked_add_signed(unzigzag(step - 1));
                let mut digits = [0; DIGIT_COUNT_MAX];
                lines.push(in_digits(after.ok_or(RANGE)?, width, &mut digits)?)?;
            }
        }
        column.at = codes.at as u32;
        let len = (lines.out.len() - lines.start) as u32 - at;
        if len == 0 {
            // Otherwise a line could have any number of slots that cost time and give no byte.
            return Err("a value is empty");
        }
        column.last = Value { at, len };
        *place = column.last;
        Ok(())
    }
}

const RANGE: Fault = "a difference leaves the range of numbers";

/// Maps 1, 2, 3, 4 to -1, 1, -2, 2.
fn unzigzag(step: u64) -> i64 {
    ((step >> 1) as i64) ^ -((step & 1) as i64)
}

/// Writes a number with at least `width` digits.
fn in_digits(
    mut number: u64,
    width: usize,
    digits: &mut [u8; DIGIT_COUNT_MAX],
) -> Result<&[u8], Fault> {
    let mut from = DIGIT_COUNT_MAX;
    while number > 0 || DIGIT_COUNT_MAX - from < width {
        from = from.checked_sub(1).ok_or(RANGE)?;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    Ok(&digits[from..])
}
