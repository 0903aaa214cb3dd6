//! From lines to columns: which lines share a template, and what of them is a slot.
//!
//! Lines of one *shape* have the same bytes between their tokens and the same kinds of tokens.
//! Within a shape, numbers are slots. Words are part of the template where few differ, so that the
//! values of each kind of event are compared with those of the same kind; where many differ they
//! are slots as well. What never changes goes back into the template.

use std::collections::{HashMap, HashSet};

use super::tokens::{Grain, Token, tokens_of};
use super::{
    CODE_LITERAL, CODE_SAME, MODE_NATURAL, MODE_PLACE, SLOT, SLOT_COUNT_MAX, number, push_varint,
};

/// Longer frames are left as they are: their tokens would take several times as much memory.
const PLAIN_LEN_MAX: usize = 16 << 20;
/// A line form must be shorter by at least one part in this many to be worth a trial.
const GAIN_SHARE: usize = 8;
/// Lines that are looked at before there is a judgement on them all.
const SAMPLE_LINE_COUNT: usize = 256;
/// Words that may differ at a place of a template, tried in this order.
const WORD_COUNTS_MAX: [usize; 3] = [16, 4, 1];
/// Lines that each template of a shape must have on average, for its words to be part of it.
const LINES_PER_TEMPLATE: usize = 8;
/// Fewer lines of a shape are templates themselves.
const LINES_PER_SHAPE_MIN: usize = 4;

/// The lines form of text, or nothing where its lines are not alike enough for it to be much
/// shorter. What [`crate::Encoder::encode_form`] compresses, for [`crate::Filter::Lines`].
///
/// Takes [`lines_memory_len`] bytes at most, and some 10 ns a byte.
pub fn lines_form(plain: &[u8]) -> Option<Vec<u8>> {
    if plain.len() > PLAIN_LEN_MAX || plain.contains(&SLOT) {
        return None;
    }
    // What is too different when it is taken apart may be alike in larger parts.
    [Grain::Fine, Grain::Coarse].into_iter().find_map(|grain| {
        let text = Text::of(plain, grain)?;
        let mut templates = Templates::of(&text);
        templates.bake(&text);
        let form = Form::of(&text, &templates)?.bytes();
        (form.len() + plain.len() / GAIN_SHARE < plain.len()).then_some(form)
    })
}

/// About the memory that [`lines_form`] of so many bytes takes: a token of two bytes takes twelve,
/// and codes are kept in four modes. For budgets, as [`crate::Settings::encoder_memory_len`].
pub const fn lines_memory_len(plain_len: usize) -> u64 {
    let len = if plain_len < PLAIN_LEN_MAX { plain_len } else { PLAIN_LEN_MAX };
    8 * len as u64
}

/// Lines taken apart, and which have one shape.
struct Text<'a> {
    plain: &'a [u8],
    tokens: Vec<Token>,
    lines: Vec<Line>,
    /// The lines of each shape.
    shapes: Vec<Vec<u32>>,
}

struct Line {
    start: u32,
    end: u32,
    /// First of the line's tokens.
    token: u32,
    shape: u32,
}

impl<'a> Text<'a> {
    fn of(plain: &'a [u8], grain: Grain) -> Option<Self> {
        let mut text = Text { plain, tokens: Vec::new(), lines: Vec::new(), shapes: Vec::new() };
        let (mut known, mut shape) = (HashMap::new(), Vec::new());
        let mut start = 0;
        for line in plain.split(|&byte| byte == b'\n') {
            let token = text.tokens.len();
            tokens_of(line, start, grain, &mut text.tokens);
            shape.clear();
            let mut at = start;
            for token in &text.tokens[token..] {
                shape.extend_from_slice(&plain[at as usize..token.start as usize]);
                // No other byte is one, so no two shapes are mixed up.
                shape.extend_from_slice(&[SLOT, u8::from(token.is_number)]);
                at = token.end;
            }
            let end = start + line.len() as u32;
            shape.extend_from_slice(&plain[at as usize..end as usize]);
            let shape = match known.get(&shape[..]) {
                Some(&shape) => shape,
                None => {
                    known.insert(shape.clone(), text.shapes.len());
                    text.shapes.push(Vec::new());
                    text.shapes.len() - 1
                }
            };
            text.shapes[shape].push(text.lines.len() as u32);
            let (token, shape) = (token as u32, shape as u32);
            text.lines.push(Line { start, end, token, shape });
            if text.lines.len() == SAMPLE_LINE_COUNT && text.shapes.len() > SAMPLE_LINE_COUNT / 2 {
                return None;
            }
            start = end + 1;
        }
        Some(text)
    }

    /// The tokens of a line.
    fn tokens(&self, line: u32) -> &[Token] {
        let line = line as usize;
        let end = self.lines.get(line + 1).map_or(self.tokens.len(), |next| next.token as usize);
        &self.tokens[self.lines[line].token as usize..end]
    }

    fn bytes(&self, token: Token) -> &'a [u8] {
        &self.plain[token.start as usize..token.end as usize]
    }

    /// The bytes of a line's tokens at some places.
    fn key(&self, line: u32, places: &[usize]) -> Vec<&'a [u8]> {
        let tokens = self.tokens(line);
        places.iter().map(|&place| self.bytes(tokens[place])).collect()
    }
}

/// Which template each line has, and which tokens of it are slots.
struct Templates {
    /// By line.
    of_line: Vec<u32>,
    all: Vec<Template>,
}

struct Template {
    shape: u32,
    line_first: u32,
    line_count: u32,
    /// Whether each token is a slot.
    is_slot: Vec<bool>,
}

impl Templates {
    fn of(text: &Text<'_>) -> Self {
        let fixed: Vec<Option<Vec<usize>>> =
            text.shapes.iter().map(|lines| fixed_words(text, lines)).collect();
        let mut templates =
            Templates { of_line: Vec::with_capacity(text.lines.len()), all: Vec::new() };
        let mut known = HashMap::new();
        for (number, line) in text.lines.iter().enumerate() {
            let line_first = number as u32;
            // A template of its own, for a shape that is rare.
            let Some(fixed) = &fixed[line.shape as usize] else {
                let key = &text.plain[line.start as usize..line.end as usize];
                let count = text.tokens(line_first).len();
                templates
                    .add((line.shape, vec![key]), &mut known, line_first, || vec![false; count]);
                continue;
            };
            let key = (line.shape, text.key(line_first, fixed));
            templates.add(key, &mut known, line_first, || {
                let tokens = text.tokens(line_first).iter().enumerate();
                tokens.map(|(place, token)| token.is_number || !fixed.contains(&place)).collect()
            });
        }
        templates
    }

    /// Gives the next line its template.
    fn add<'a>(
        &mut self,
        key: (u32, Vec<&'a [u8]>),
        known: &mut HashMap<(u32, Vec<&'a [u8]>), u32>,
        line_first: u32,
        is_slot: impl FnOnce() -> Vec<bool>,
    ) {
        let shape = key.0;
        let template = *known.entry(key).or_insert_with(|| {
            let is_slot = is_slot();
            self.all.push(Template { shape, line_first, line_count: 0, is_slot });
            self.all.len() as u32 - 1
        });
        self.all[template as usize].line_count += 1;
        self.of_line.push(template);
    }

    /// What never changes in any template of a shape is no slot, nor is anything of a template
    /// that a single line has. Templates of a shape keep their slots in common, because values are
    /// also compared with those that other templates have in the same place.
    fn bake(&mut self, text: &Text<'_>) {
        let mut changes: HashMap<u32, Vec<bool>> = HashMap::new();
        for (line, &number) in self.of_line.iter().enumerate() {
            let template = &self.all[number as usize];
            let first = text.tokens(template.line_first);
            let changes = changes.entry(template.shape).or_insert_with(|| vec![false; first.len()]);
            for ((change, token), first) in
                changes.iter_mut().zip(text.tokens(line as u32)).zip(first)
            {
                *change = *change || text.bytes(*token) != text.bytes(*first);
            }
        }
        for template in &mut self.all {
            let changes = &changes[&template.shape];
            for (is_slot, change) in template.is_slot.iter_mut().zip(changes) {
                *is_slot &= *change && template.line_count > 1;
            }
        }
    }
}

/// The places of words that belong to the templates of a shape; nothing where the shape is rare.
fn fixed_words(text: &Text<'_>, lines: &[u32]) -> Option<Vec<usize>> {
    if lines.len() < LINES_PER_SHAPE_MIN {
        return None;
    }
    let words: Vec<usize> = (text.tokens(lines[0]).iter().enumerate())
        .filter(|(_, token)| !token.is_number)
        .map(|(place, _)| place)
        .collect();
    let differing: Vec<usize> = words
        .iter()
        .map(|&place| {
            let mut seen = HashSet::new();
            for &line in lines {
                seen.insert(text.bytes(text.tokens(line)[place]));
                if seen.len() > WORD_COUNTS_MAX[0] {
                    break;
                }
            }
            seen.len()
        })
        .collect();
    let fixed_at = |most: usize| -> Vec<usize> {
        let places = words.iter().zip(&differing);
        places.filter(|&(_, &count)| count <= most).map(|(&place, _)| place).collect()
    };
    for most in WORD_COUNTS_MAX {
        let fixed = fixed_at(most);
        let bound = (lines.len() / LINES_PER_TEMPLATE).max(1);
        let mut seen = HashSet::new();
        if lines.iter().all(|&line| {
            seen.insert(text.key(line, &fixed));
            seen.len() <= bound
        }) {
            return Some(fixed);
        }
    }
    Some(fixed_at(1))
}

/// The parts of a lines form.
struct Form<'a> {
    line_count: usize,
    text: Vec<u8>,
    numbers: Vec<u8>,
    columns: Vec<Column<'a>>,
}

impl<'a> Form<'a> {
    fn of(text: &Text<'a>, templates: &Templates) -> Option<Self> {
        let mut form = Form {
            line_count: text.lines.len(),
            text: Vec::new(),
            numbers: Vec::with_capacity(text.lines.len()),
            columns: Vec::new(),
        };
        // First column of each template.
        let mut firsts = Vec::with_capacity(templates.all.len());
        for template in &templates.all {
            firsts.push(form.columns.len());
            let line = &text.lines[template.line_first as usize];
            let mut at = line.start as usize;
            for (token, &is_slot) in text.tokens(template.line_first).iter().zip(&template.is_slot)
            {
                if is_slot {
                    form.text.extend_from_slice(&text.plain[at..token.start as usize]);
                    form.text.push(SLOT);
                    let place = form.columns.len() - firsts[firsts.len() - 1];
                    form.columns.push(Column { place, ..Column::default() });
                    at = token.end as usize;
                }
            }
            form.text.extend_from_slice(&text.plain[at..line.end as usize]);
            form.text.push(b'\n');
            if form.columns.len() > SLOT_COUNT_MAX {
                return None;
            }
        }
        let mut places: Vec<&'a [u8]> = Vec::new();
        let mut seen = 0;
        for (line, &number) in templates.of_line.iter().enumerate() {
            if number == seen {
                seen += 1;
                form.numbers.push(0);
            } else {
                push_varint(u64::from(number) + 1, &mut form.numbers);
            }
            let template = &templates.all[number as usize];
            let slots = (text.tokens(line as u32).iter().zip(&template.is_slot))
                .filter(|&(_, &is_slot)| is_slot)
                .map(|(token, _)| text.bytes(*token));
            let columns = &mut form.columns[firsts[number as usize]..];
            for (place, (column, value)) in columns.iter_mut().zip(slots).enumerate() {
                if places.len() == place {
                    places.push(&[]);
                }
                column.push(value, places[place]);
                places[place] = value;
            }
        }
        Some(form)
    }

    fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_varint(self.line_count as u64, &mut bytes);
        push_varint(self.text.len() as u64, &mut bytes);
        bytes.extend_from_slice(&self.text);
        bytes.extend_from_slice(&self.numbers);
        let modes: Vec<u8> = self.columns.iter().map(Column::best).collect();
        bytes.extend_from_slice(&modes);
        let mut ways: Vec<_> = (self.columns.iter().zip(modes))
            .map(|(column, mode)| (column.place, &column.ways[usize::from(mode)].codes))
            .collect();
        // What is in one place of several templates is often of one kind.
        ways.sort_by_key(|&(place, _)| place);
        for (_, codes) in ways {
            bytes.extend_from_slice(codes);
        }
        bytes
    }
}

/// What fills a slot, in every mode, until all values tell which mode is best.
#[derive(Default)]
struct Column<'a> {
    /// Slots before it in its template.
    place: usize,
    last: &'a [u8],
    /// By mode.
    ways: [Way; MODE_COUNT],
}

const MODE_COUNT: usize = (MODE_PLACE | MODE_NATURAL) as usize + 1;
/// About the bytes that a compressor leaves of a code that is the one before.
const COST_AGAIN: usize = 1;
/// And of another one, in the same unit.
const COST_OTHER: usize = 8;

#[derive(Default)]
struct Way {
    codes: Vec<u8>,
    /// Where the last code begins.
    last: usize,
    cost: usize,
}

impl<'a> Column<'a> {
    fn push(&mut self, value: &'a [u8], place: &'a [u8]) {
        for (mode, way) in self.ways.iter_mut().enumerate() {
            let mode = mode as u8;
            let known = if mode & MODE_PLACE == 0 { self.last } else { place };
            way.push(value, known, mode & MODE_NATURAL != 0);
        }
        self.last = value;
    }

    /// The mode that is cheapest; of those that cost the same, the first.
    fn best(&self) -> u8 {
        let modes = 0..MODE_COUNT as u8;
        modes.min_by_key(|&mode| self.ways[usize::from(mode)].cost).unwrap_or(0)
    }
}

impl Way {
    fn push(&mut self, value: &[u8], known: &[u8], is_natural: bool) {
        let from = self.codes.len();
        if value == known {
            push_varint(CODE_SAME, &mut self.codes);
        } else if let Some(step) = step(value, known, is_natural) {
            push_varint(fold(step) + CODE_LITERAL, &mut self.codes);
        } else {
            push_varint(CODE_LITERAL, &mut self.codes);
            push_varint(value.len() as u64, &mut self.codes);
            self.codes.extend_from_slice(value);
        }
        let is_again = self.codes[self.last..from] == self.codes[from..];
        self.cost += if is_again { COST_AGAIN } else { COST_OTHER * (self.codes.len() - from) };
        self.last = from;
    }
}

/// The difference between two numbers, if the decoder makes the same digits of it.
fn step(value: &[u8], known: &[u8], is_natural: bool) -> Option<i64> {
    let is_alike =
        if is_natural { value.len() == 1 || value[0] != b'0' } else { value.len() == known.len() };
    if !is_alike {
        return None;
    }
    // Both have at most 18 digits.
    let step = number(value)? as i64 - number(known)? as i64;
    // 007 and 7 are not the same value.
    (step != 0).then_some(step)
}

/// -1, 1, -2, 2 are 1, 2, 3, 4.
fn fold(step: i64) -> u64 {
    ((step << 1) ^ (step >> 63)) as u64
}
