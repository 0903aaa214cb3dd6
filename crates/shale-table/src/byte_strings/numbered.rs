//! Names with numbers: `file-17.txt` is prefix `file-`, number 17, suffix `.txt`.
//!
//! Names are cut at one of their digit runs. Each distinct (prefix, suffix, form) is a template, a
//! name without such a run is a template of its own, and what remains of a name is two integers,
//! which mostly rise by equal steps: a directory of a million numbered files takes a few bytes. How
//! digit runs become integers is in [`super::sequence`].
//!
//! Layout: `count` of templates, varint (1 to the number of strings); `prefixes` and `suffixes`,
//! nested string sections with one string a template; `forms`, an integer section of tier 0, one a
//! template; `codes` and `numbers`, integer sections of tier 4, one a string. A code that is not
//! below the count, an unknown form and a number that its form cannot have are damage.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    ops::Range,
};

use super::{
    buffer::{StringBuffer, TOO_LONG},
    sequence::{DIGITS_MAX, Form, digit_run},
    simple::{self, Simple},
};
use crate::{
    error::Damage,
    integers::{self, Integers, TIER_COLUMN, TIER_FLAT},
    limits::VALUE_LEN_MAX,
    varint::{self, Reader},
};

const BATCH: usize = 64;

#[derive(Debug)]
pub(crate) struct Numbered {
    count: usize,
    prefixes: Simple,
    suffixes: Simple,
    forms: Integers,
    codes: Integers,
    numbers: Integers,
}

impl Numbered {
    pub(super) fn parse(reader: &mut Reader, count: usize) -> Result<Self, Damage> {
        let template_count = reader.varint_max(count, "there are more templates than names")?;
        if template_count == 0 {
            return Err(Damage("there are no templates"));
        }
        Ok(Self {
            count: template_count,
            prefixes: Simple::parse_part(reader, template_count)?,
            suffixes: Simple::parse_part(reader, template_count)?,
            forms: Integers::parse(reader, template_count, TIER_FLAT)?,
            codes: Integers::parse(reader, count, TIER_COLUMN)?,
            numbers: Integers::parse(reader, count, TIER_COLUMN)?,
        })
    }

    /// Puts string `index` together in `string`.
    pub(super) fn build(
        &self,
        page: &[u8],
        index: usize,
        string: &mut Vec<u8>,
    ) -> Result<(), Damage> {
        let code = self.codes.get(page, index)?;
        let number = self.numbers.get(page, index)?;
        self.build_from(page, code, number, string)
    }

    fn build_from(
        &self,
        page: &[u8],
        code: u64,
        number: u64,
        string: &mut Vec<u8>,
    ) -> Result<(), Damage> {
        if code >= self.count as u64 {
            return Err(Damage("a code is beyond the templates"));
        }
        let code = code as usize;
        let mut part = Vec::new();
        string.clear();
        string.extend_from_slice(self.prefixes.view(page, code, &mut part)?);
        Form::from_id(self.forms.get(page, code)?)?.write(number, string)?;
        string.extend_from_slice(self.suffixes.view(page, code, &mut part)?);
        if string.len() > VALUE_LEN_MAX {
            return Err(TOO_LONG);
        }
        Ok(())
    }

    pub(super) fn scan(
        &self,
        page: &[u8],
        range: Range<usize>,
        visit: &mut dyn FnMut(usize, &[u8]) -> bool,
    ) -> Result<(), Damage> {
        let mut string = Vec::new();
        let (mut codes, mut numbers) = ([0; BATCH], [0; BATCH]);
        let mut index = range.start;
        while index < range.end {
            let len = (range.end - index).min(BATCH);
            self.codes.read(page, index, &mut codes[..len])?;
            self.numbers.read(page, index, &mut numbers[..len])?;
            for (&code, &number) in codes[..len].iter().zip(&numbers) {
                self.build_from(page, code, number, &mut string)?;
                if !visit(index, &string) {
                    return Ok(());
                }
                index += 1;
            }
        }
        Ok(())
    }

    pub(super) fn heap_len(&self) -> usize {
        [&self.prefixes, &self.suffixes].map(Simple::heap_len).iter().sum::<usize>()
            + [&self.forms, &self.codes, &self.numbers]
                .map(Integers::heap_len)
                .iter()
                .sum::<usize>()
    }
}

impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, prefixes, suffixes, forms, codes, numbers } = self;
        write!(f, "numbered of {count}({prefixes}, {suffixes}, {forms}, {codes}, {numbers})")
    }
}

/// A name cut at a digit run; without one, all is prefix.
struct Cut<'n> {
    prefix: &'n [u8],
    digits: &'n [u8],
    suffix: &'n [u8],
}

impl<'n> Cut<'n> {
    fn new(name: &'n [u8], from_right: usize) -> Self {
        let (start, end) = digit_run(name, from_right).unwrap_or((name.len(), name.len()));
        Self { prefix: &name[..start], digits: &name[start..end], suffix: &name[end..] }
    }

    /// Names with equal keys share a template.
    fn key(&self) -> (&'n [u8], &'n [u8], bool) {
        (self.prefix, self.suffix, self.digits.is_empty())
    }
}

/// A template while it is being found.
struct Template<'n> {
    prefix: &'n [u8],
    suffix: &'n [u8],
    digits_min: usize,
    digits_max: usize,
}

impl Template<'_> {
    /// The form, and the one to try instead.
    fn forms(&self) -> (Form, Form) {
        debug_assert!(self.digits_max <= DIGITS_MAX);
        match self.digits_max {
            0 => (Form::None, Form::None),
            len if len == self.digits_min => (Form::Fixed(len), Form::Fixed(len)),
            len => (Form::Dense(len), Form::Spaced(len)),
        }
    }
}

/// False if the names follow too many templates to be worth it, or hold no number.
pub(super) fn encode(strings: &StringBuffer, out: &mut Vec<u8>) -> bool {
    let Some(from_right) = choose_run(strings) else { return false };
    let templates_max = (strings.len() / 4).max(1);
    let mut templates: Vec<Template> = Vec::new();
    let mut codes = Vec::with_capacity(strings.len());
    let mut known = HashMap::new();
    let mut before = None;
    for name in strings.iter() {
        let cut = Cut::new(name, from_right);
        let len = cut.digits.len();
        let code = match before {
            // Most names follow the template of the one before: no need to look it up.
            Some((key, code)) if key == cut.key() => code,
            _ => *known.entry(cut.key()).or_insert_with(|| {
                let Cut { prefix, suffix, .. } = cut;
                templates.push(Template { prefix, suffix, digits_min: len, digits_max: len });
                templates.len() - 1
            }),
        };
        before = Some((cut.key(), code));
        if templates.len() > templates_max {
            return false;
        }
        let template = &mut templates[code];
        template.digits_min = template.digits_min.min(len);
        template.digits_max = template.digits_max.max(len);
        codes.push(code as u64);
    }
    if templates.iter().all(|template| template.digits_max == 0) {
        return false;
    }
    let encode_numbers = |forms: &[Form]| {
        let mut before = 0;
        let number = |(name, &code): (&[u8], &u64)| {
            // A name without a number repeats the number before, which is the cheapest there is.
            if forms[code as usize] != Form::None {
                before = forms[code as usize].number(Cut::new(name, from_right).digits);
            }
            before
        };
        let numbers: Vec<u64> = strings.iter().zip(&codes).map(number).collect();
        let mut section = Vec::new();
        integers::encode(&numbers, TIER_COLUMN, &mut section);
        section
    };
    let (mut forms, others): (Vec<Form>, Vec<Form>) = templates.iter().map(Template::forms).unzip();
    let mut numbers = encode_numbers(&forms);
    // Dense numbers that take a bit each or less are in order: no need to try.
    if forms != others && numbers.len() > strings.len() / 8 {
        let section = encode_numbers(&others);
        if section.len() < numbers.len() {
            (forms, numbers) = (others, section);
        }
    }
    varint::write(templates.len() as u64, out);
    simple::encode(&templates.iter().map(|t| t.prefix).collect(), out);
    simple::encode(&templates.iter().map(|t| t.suffix).collect(), out);
    integers::encode(&forms.iter().map(|form| form.id()).collect::<Vec<_>>(), TIER_FLAT, out);
    integers::encode(&codes, TIER_COLUMN, out);
    out.extend_from_slice(&numbers);
    true
}

/// Which digit run, counted from the right, leaves the fewest templates in a sample; `None` if no
/// run leaves few enough to try.
fn choose_run(strings: &StringBuffer) -> Option<usize> {
    const SAMPLE: usize = 64;
    const RUNS: usize = 3;
    let stride = strings.len().div_ceil(SAMPLE);
    let sampled = strings.len().div_ceil(stride);
    let template_count = |from_right| {
        let names = (0..strings.len()).step_by(stride).map(|index| strings.get(index));
        names.map(|name| Cut::new(name, from_right).key()).collect::<HashSet<_>>().len()
    };
    let (count, from_right) = (0..RUNS).map(|run| (template_count(run), run)).min()?;
    (count <= (sampled / 2).max(1)).then_some(from_right)
}
