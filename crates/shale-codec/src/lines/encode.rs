//! From lines to columns: which lines share a template, and which of their parts are slots.
//!
//! Lines of one *shape* have the same bytes between their tokens and the same kinds of tokens.
//! Within a shape, numbers are slots. Words are part of the template where few differ, so that the
//! values of each kind of event are compared with those of the same kind; where many differ they
//! are slots as well. What never changes goes back into the template.

use hashbrown::{HashMap, HashSet};

use super::columns::Columns;
use super::tokens::{Grain, Token, tokens_of};
use super::{SLOT, SLOT_COUNT_MAX, push_varint};

/// Longer frames are left as they are, as their tokens take several times as much memory.
const PLAIN_LEN_MAX: usize = 16 << 20;
/// A lines form must be shorter by at least one part in this many to be worth a trial.
const GAIN_SHARE: usize = 8;
/// Text with fewer lines, or with shorter ones on average, has nothing to gain.
const LINE_COUNT_MIN: usize = 8;
const LINE_LEN_MIN: usize = 12;
/// A token must have this many bytes on average, and a slot this many bytes of the text.
const TOKEN_LEN_MIN: usize = 2;
const SLOT_LEN_MIN: usize = 64;
/// Lines that a shape must have on average; checked at each line after the sample.
const LINES_PER_SHAPE: usize = 2;
const SAMPLE_LINE_COUNT: usize = 256;
/// Words that may differ at a place of a template, tried in this order.
const WORD_COUNTS_MAX: [usize; 3] = [16, 4, 1];
/// Lines that each template of a shape must have on average, for its words to be part of it.
const LINES_PER_TEMPLATE: usize = 8;
/// Fewer lines of a shape are templates themselves.
const LINES_PER_SHAPE_MIN: usize = 4;

/// Returns the lines form of text, or `None` where its lines are not alike enough for a form that
/// is much shorter. [`crate::Encoder::encode_form`] compresses it, for [`crate::Filter::Lines`].
///
/// Takes at most about [`lines_memory_len`] bytes, and 10 to 30 ns for each byte of text.
pub fn lines_form(plain: &[u8]) -> Option<Vec<u8>> {
    // Lines that differ too much in small parts may be alike in larger ones.
    [Grain::Fine, Grain::Coarse].into_iter().find_map(|grain| {
        form_of(plain, grain).filter(|form| form.len() + plain.len() / GAIN_SHARE < plain.len())
    })
}

/// Estimates the most memory that [`lines_form`] takes for a text of `plain_len` bytes: tokens take
/// eight bytes each, and lines, shapes and columns as much again. For budgets, as
/// [`crate::Settings::encoder_memory_len`] is.
pub const fn lines_memory_len(plain_len: usize) -> u64 {
    let len = if plain_len < PLAIN_LEN_MAX { plain_len } else { PLAIN_LEN_MAX };
    12 * len as u64
}

/// The lines form, whether it is shorter or not. `None` for text whose form would take much time or
/// memory and gain nothing.
pub(super) fn form_of(plain: &[u8], grain: Grain) -> Option<Vec<u8>> {
    let line_count = 1 + plain.iter().filter(|&&byte| byte == b'\n').count();
    let is_short = line_count < LINE_COUNT_MIN || plain.len() / line_count < LINE_LEN_MIN;
    if is_short || plain.len() > PLAIN_LEN_MAX || plain.contains(&SLOT) {
        return None;
    }
    let mut text = Text::of(plain, grain)?;
    let templates = Templates::of(&text);
    text.find_slots(&templates);
    bytes_of(&text, &templates)
}

/// Text split into lines and tokens.
struct Text<'a> {
    plain: &'a [u8],
    tokens: Vec<Token>,
    lines: Vec<Line>,
    shapes: Vec<Shape>,
}

struct Line {
    start: u32,
    end: u32,
    /// First of the line's tokens.
    token: u32,
    shape: u32,
}

#[derive(Default)]
struct Shape {
    lines: Vec<u32>,
    /// Which tokens of a line are slots, in ascending order.
    slots: Vec<u32>,
}

impl<'a> Text<'a> {
    fn of(plain: &'a [u8], grain: Grain) -> Option<Self> {
        let token_count_max = plain.len() / TOKEN_LEN_MIN;
        let tokens = Vec::with_capacity(token_count_max);
        let mut text = Text { plain, tokens, lines: Vec::new(), shapes: Vec::new() };
        let (mut known, mut shape) = (HashMap::new(), Vec::new());
        let mut start = 0;
        for line in plain.split(|&byte| byte == b'\n') {
            let token = text.tokens.len();
            tokens_of(line, start, grain, &mut text.tokens);
            if text.tokens.len() > token_count_max {
                return None;
            }
            shape.clear();
            let mut at = start;
            for token in &text.tokens[token..] {
                shape.extend_from_slice(&plain[at as usize..token.start as usize]);
                // No other byte is one, so no two shapes are mixed up.
                shape.extend_from_slice(&[SLOT, u8::from(token.is_number())]);
                at = token.end();
            }
            let end = start + line.len() as u32;
            shape.extend_from_slice(&plain[at as usize..end as usize]);
            let shape = match known.get(&shape[..]) {
                Some(&shape) => shape,
                None => {
                    known.insert(shape.clone(), text.shapes.len());
                    text.shapes.push(Shape::default());
                    text.shapes.len() - 1
                }
            };
            text.shapes[shape].lines.push(text.lines.len() as u32);
            let (token, shape) = (token as u32, shape as u32);
            text.lines.push(Line { start, end, token, shape });
            if text.shapes.len() > text.lines.len().max(SAMPLE_LINE_COUNT) / LINES_PER_SHAPE {
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
        &self.plain[token.start as usize..token.end() as usize]
    }

    /// The bytes of a line's tokens at some places.
    fn key(&self, line: u32, places: &[u32]) -> Vec<&'a [u8]> {
        let tokens = self.tokens(line);
        places.iter().map(|&place| self.bytes(tokens[place as usize])).collect()
    }

    /// The places of words that belong to the templates of a shape; nothing where it is rare.
    fn fixed_words(&self, shape: &Shape) -> Option<Vec<u32>> {
        let lines = &shape.lines;
        if lines.len() < LINES_PER_SHAPE_MIN {
            return None;
        }
        // Places, and how many words differ there.
        let words: Vec<(u32, usize)> = (0..)
            .zip(self.tokens(lines[0]))
            .filter(|(_, token)| !token.is_number())
            .map(|(place, _)| {
                let mut seen = HashSet::new();
                for &line in lines {
                    seen.insert(self.bytes(self.tokens(line)[place as usize]));
                    if seen.len() > WORD_COUNTS_MAX[0] {
                        break;
                    }
                }
                (place, seen.len())
            })
            .collect();
        let mut before = None;
        for most in WORD_COUNTS_MAX {
            let fixed: Vec<u32> = words
                .iter()
                .filter(|&&(_, count)| count <= most)
                .map(|&(place, _)| place)
                .collect();
            if before.as_ref() != Some(&fixed) {
                let bound = (lines.len() / LINES_PER_TEMPLATE).max(1);
                let mut seen = HashSet::new();
                if lines.iter().all(|&line| {
                    seen.insert(self.key(line, &fixed));
                    seen.len() <= bound
                }) {
                    return Some(fixed);
                }
            }
            before = Some(fixed);
        }
        before
    }

    /// Numbers and words that are not part of templates are slots where they change in any template
    /// of the shape. Templates of a shape have their slots in common, because values are also
    /// compared with those that other templates have in the same place.
    fn find_slots(&mut self, templates: &Templates) {
        let mut changes: Vec<Vec<bool>> = self.shapes.iter().map(|_| Vec::new()).collect();
        for (line, &template) in (0..).zip(&templates.of_line) {
            let first = templates.all[template as usize].line_first;
            let changes = &mut changes[self.lines[line as usize].shape as usize];
            let tokens = self.tokens(line);
            changes.resize(tokens.len(), false);
            if line != first {
                for ((change, token), first) in
                    changes.iter_mut().zip(tokens).zip(self.tokens(first))
                {
                    *change = *change || self.bytes(*token) != self.bytes(*first);
                }
            }
        }
        for (shape, changes) in self.shapes.iter_mut().zip(changes) {
            let places = (0..).zip(changes).filter(|&(_, change)| change);
            shape.slots = places.map(|(place, _)| place).collect();
        }
    }
}

/// The template of each line. Lines with the same template differ in slots only.
struct Templates {
    /// By line; templates are numbered in the order of their first lines.
    of_line: Vec<u32>,
    all: Vec<Template>,
}

struct Template {
    line_first: u32,
    line_count: u32,
}

impl Templates {
    fn of(text: &Text<'_>) -> Self {
        let fixed: Vec<Option<Vec<u32>>> =
            text.shapes.iter().map(|shape| text.fixed_words(shape)).collect();
        let of_line = Vec::with_capacity(text.lines.len());
        let mut templates = Templates { of_line, all: Vec::new() };
        let (mut known, mut known_lines) = (HashMap::new(), HashMap::new());
        for (number, line) in (0..).zip(&text.lines) {
            let next = templates.all.len() as u32;
            let template = match &fixed[line.shape as usize] {
                Some(fixed) => *known.entry((line.shape, text.key(number, fixed))).or_insert(next),
                None => {
                    let whole = &text.plain[line.start as usize..line.end as usize];
                    *known_lines.entry(whole).or_insert(next)
                }
            };
            if template == next {
                templates.all.push(Template { line_first: number, line_count: 0 });
            }
            templates.all[template as usize].line_count += 1;
            templates.of_line.push(template);
        }
        templates
    }
}

/// Joins the parts of the lines form. `None` if there are too many slots.
fn bytes_of(text: &Text<'_>, templates: &Templates) -> Option<Vec<u8>> {
    let slots_of = |template: &Template| -> &[u32] {
        let shape = text.lines[template.line_first as usize].shape as usize;
        // A template of a single line needs no slots.
        if template.line_count > 1 { &text.shapes[shape].slots } else { &[] }
    };
    let slot_count_max = SLOT_COUNT_MAX.min(text.plain.len() / SLOT_LEN_MIN);
    // First slot of each template.
    let mut firsts = Vec::with_capacity(templates.all.len());
    let (mut texts, mut places) = (Vec::new(), Vec::new());
    for template in &templates.all {
        let slots = slots_of(template);
        firsts.push(places.len());
        if places.len() + slots.len() > slot_count_max {
            return None;
        }
        places.extend(0..slots.len() as u32);
        let line = &text.lines[template.line_first as usize];
        let tokens = text.tokens(template.line_first);
        let mut at = line.start as usize;
        for &slot in slots {
            let token = tokens[slot as usize];
            texts.extend_from_slice(&text.plain[at..token.start as usize]);
            texts.push(SLOT);
            at = token.end() as usize;
        }
        texts.extend_from_slice(&text.plain[at..line.end as usize]);
        texts.push(b'\n');
    }

    let mut bytes = Vec::with_capacity(text.plain.len() / 2);
    push_varint(text.lines.len() as u64, &mut bytes);
    push_varint(texts.len() as u64, &mut bytes);
    bytes.append(&mut texts);
    let mut seen = 0;
    for &template in &templates.of_line {
        if template == seen {
            seen += 1;
            bytes.push(0);
        } else {
            push_varint(u64::from(template) + 1, &mut bytes);
        }
    }
    // The values of a line, from its first slot on. Twice, as modes are chosen by all of them.
    let values = |line: u32| {
        let template = templates.of_line[line as usize] as usize;
        let tokens = text.tokens(line);
        let slots = slots_of(&templates.all[template]).iter();
        (firsts[template], slots.map(|&slot| text.bytes(tokens[slot as usize])))
    };
    let line_count = text.lines.len() as u32;
    let mut columns = Columns::new(places);
    for line in 0..line_count {
        let (first, values) = values(line);
        columns.weigh(first, values);
    }
    columns.choose(&mut bytes);
    for line in 0..line_count {
        let (first, values) = values(line);
        columns.push(first, values);
    }
    columns.write(&mut bytes);
    Some(bytes)
}
