//! `docs/format.md` against the crates: a table of the specification is a test input.
//!
//! A marker names what its table must equal: `struct NAME in PATH`, `enum NAME in PATH`,
//! `schema NAME in PATH` or `constants in PATH`. Every on-disk struct and schema of the format
//! crate and every limit must have its table, so that nothing on disk is unspecified. Checks
//! names, types, sizes, order and numbers; whether the meaning is told well is for people.

use crate::expression::{self, Constants};
use crate::markdown::{MarkedTable, marked_tables};
use crate::source::{self, Field};
use crate::tree::{Problem, Tree};
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = "docs/format.md";
const FORMAT_SOURCE: &str = "crates/shale-format/src/";
const LIMITS: [&str; 2] = ["crates/shale-format/src/limits.rs", "crates/shale-table/src/limits.rs"];

/// Compares every marked table of the specification with its source.
pub fn check(tree: &Tree, problems: &mut Vec<Problem>) {
    let Some(text) = tree.text(DOCUMENT) else {
        let message = "is missing: the format needs its specification".to_owned();
        problems.push(Problem { path: DOCUMENT.to_owned(), line: 0, message });
        return;
    };
    let format = || tree.texts().filter(|(path, _)| path.starts_with(FORMAT_SOURCE));
    let known = Known {
        constants: source::all_constants(
            tree.texts().filter(|(p, _)| p.starts_with("crates/")).map(|(_, text)| text),
        ),
        structs: format().flat_map(|(_, text)| source::raw_structs(text)).collect(),
    };
    let mut seen = BTreeSet::new();
    for table in marked_tables(text) {
        let mut report = |line, message| {
            problems.push(Problem { path: DOCUMENT.to_owned(), line, message });
        };
        let Some((what, path)) = table.marker.split_once(" in ") else { continue };
        let what = if table.marker.starts_with("in ") { "" } else { what };
        let Some(source) = tree.text(path.trim()) else {
            report(table.line, format!("the marker names `{path}`, which is not there"));
            continue;
        };
        seen.insert(table.marker.clone());
        match what.split_once(' ').unwrap_or((what, "")) {
            ("struct", name) => known.check_struct(&table, name, source, &mut report),
            ("enum", name) => known.check_enum(&table, name, source, &mut report),
            ("schema", name) => check_schema(&table, name, source, &mut report),
            ("constants", "") => known.check_constants(&table, source, &mut report),
            _ => report(table.line, format!("tidy knows no `{what}`")),
        }
    }
    let mut wanted: Vec<String> = Vec::new();
    for (path, text) in format() {
        let structs = source::raw_structs(text).into_iter();
        wanted.extend(structs.map(|(name, _)| format!("struct {name} in {path}")));
        let schemas = source::schemas(text).into_iter();
        wanted.extend(schemas.map(|(name, _)| format!("schema {name} in {path}")));
    }
    let limits = LIMITS.iter().filter(|path| tree.exists(path));
    wanted.extend(limits.map(|path| format!("constants in {path}")));
    for marker in wanted.iter().filter(|marker| !seen.contains(*marker)) {
        let message = format!("no table has the marker `<!-- tidy: {marker} -->`");
        problems.push(Problem { path: DOCUMENT.to_owned(), line: 0, message });
    }
}

/// What expressions and nested structs are looked up in.
struct Known {
    constants: Constants,
    structs: BTreeMap<String, Vec<Field>>,
}

impl Known {
    fn check_struct(
        &self,
        table: &MarkedTable,
        name: &str,
        source: &str,
        report: &mut impl FnMut(usize, String),
    ) {
        let Some((_, fields)) = source::raw_structs(source).into_iter().find(|(n, _)| n == name)
        else {
            report(table.line, format!("the source has no struct `{name}`"));
            return;
        };
        let mut offset = 0;
        let mut rows = Vec::new();
        for field in fields {
            match self.type_of(&field.kind) {
                Ok((kind, size)) => {
                    let kept = ["reserved", "unused"].iter().find(|k| field.name.starts_with(**k));
                    let begin = kept.map_or("", |k| k);
                    rows.push((
                        vec![offset.to_string(), size.to_string(), field.name, kind],
                        begin.to_owned(),
                    ));
                    offset += size;
                }
                Err(error) => report(table.line, format!("`{name}.{}`: {error}", field.name)),
            }
        }
        compare(table, &["offset", "size", "field", "type", "meaning"], rows, report);
    }

    /// The specification's word for a type of the source, and its size.
    fn type_of(&self, kind: &str) -> Result<(String, u64), String> {
        match kind {
            "u8" => return Ok(("u8".to_owned(), 1)),
            "U16" => return Ok(("u16".to_owned(), 2)),
            "U32" => return Ok(("u32".to_owned(), 4)),
            "U64" => return Ok(("u64".to_owned(), 8)),
            _ => {}
        }
        if let Some(count) = kind.strip_prefix("[u8; ").and_then(|k| k.strip_suffix(']')) {
            let count = expression::rust_value(count, &self.constants)? as u64;
            return Ok((format!("u8[{count}]"), count));
        }
        let fields = self.structs.get(kind).ok_or(format!("no on-disk type is named `{kind}`"))?;
        let mut size = 0;
        for field in fields {
            size += self.type_of(&field.kind)?.1;
        }
        Ok((words(kind.trim_end_matches("Raw")), size))
    }

    fn check_enum(
        &self,
        table: &MarkedTable,
        name: &str,
        source: &str,
        report: &mut impl FnMut(usize, String),
    ) {
        let Some(variants) = source::numbered_enum(source, name) else {
            report(table.line, format!("the source has no enum `{name}`"));
            return;
        };
        let mut rows = Vec::new();
        for (variant, number) in variants {
            match expression::rust_value(&number, &self.constants) {
                Ok(number) => {
                    rows.push((vec![number.to_string(), words(&variant)], String::new()));
                }
                Err(error) => report(table.line, format!("`{name}::{variant}`: {error}")),
            }
        }
        compare(table, &["number", "name", "meaning"], rows, report);
    }

    fn check_constants(
        &self,
        table: &MarkedTable,
        source: &str,
        report: &mut impl FnMut(usize, String),
    ) {
        let mut rows = Vec::new();
        for (name, text) in source::constants(source) {
            // Written numbers are brought to the form of the document's cell before comparing.
            let cell = table.rows.iter().find(|(_, cells)| cells[0] == name);
            let written = cell.and_then(|(_, cells)| cells.get(1)).cloned().unwrap_or_default();
            let value = match expression::rust_bytes(&text) {
                Some(bytes) => {
                    let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
                    hex.join(" ")
                }
                None => match expression::rust_value(&text, &self.constants) {
                    Ok(value) if expression::written_value(&written) == Some(value) => written,
                    Ok(value) => value.to_string(),
                    Err(error) => {
                        report(table.line, format!("`{name}`: {error}"));
                        continue;
                    }
                },
            };
            rows.push((vec![name, value], String::new()));
        }
        compare(table, &["constant", "value", "reason"], rows, report);
    }
}

fn check_schema(
    table: &MarkedTable,
    name: &str,
    source: &str,
    report: &mut impl FnMut(usize, String),
) {
    let Some((_, columns)) = source::schemas(source).into_iter().find(|(n, _)| n == name) else {
        report(table.line, format!("the source has no schema `{name}`"));
        return;
    };
    let row = |(index, (column, kind)): (usize, (String, String))| {
        (vec![index.to_string(), column.to_lowercase(), kind.to_lowercase()], String::new())
    };
    let rows = columns.into_iter().enumerate().map(row).collect();
    compare(table, &["#", "column", "kind", "meaning"], rows, report);
}

/// Compares the leading cells of each row; the last column is prose, which must be there and
/// begin with the given word, if one is given.
fn compare(
    table: &MarkedTable,
    header: &[&str],
    wanted: Vec<(Vec<String>, String)>,
    report: &mut impl FnMut(usize, String),
) {
    if table.header != header {
        report(table.line, format!("the table's columns are not {}", header.join(", ")));
        return;
    }
    for (index, (cells, begin)) in wanted.iter().enumerate() {
        let Some((line, found)) = table.rows.get(index) else {
            report(table.line, format!("a row is missing: {}", cells.join(" | ")));
            continue;
        };
        let Some((meaning, leading)) = found.split_last() else { continue };
        if leading != cells.as_slice() {
            let message = format!(
                "`{}` stands where the source has `{}`",
                leading.join(" | "),
                cells.join(" | ")
            );
            report(*line, message);
        } else if meaning.is_empty() || !meaning.to_lowercase().starts_with(begin.as_str()) {
            report(*line, format!("the last column does not tell: {begin}"));
        }
    }
    for (line, found) in table.rows.iter().skip(wanted.len()) {
        report(*line, format!("the source has no row `{}`", found.join(" | ")));
    }
}

/// `TableRoot` as words: `table root`.
fn words(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push(' ');
        }
        out.extend(c.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! S.\npub const N: usize = 1 << 10;\n\
        pub struct InnerRaw {\n    pub a: U32,\n}\n\
        pub struct OuterRaw {\n    pub magic: [u8; 8],\n    pub inner: InnerRaw,\n\
        \x20   pub reserved: u8,\n}\n\
        pub enum Kind {\n    FirstOne = 1,\n}\n\
        \nschema!(\n    t, \"t\", [A = 0: U64]\n);\n";

    const GOOD: &str = "\
<!-- tidy: struct InnerRaw in crates/shale-format/src/x.rs -->\n\
| offset | size | field | type | meaning |\n|---|---|---|---|---|\n| 0 | 4 | a | u32 | A. |\n\n\
<!-- tidy: struct OuterRaw in crates/shale-format/src/x.rs -->\n\
| offset | size | field | type | meaning |\n|---|---|---|---|---|\n| 0 | 8 | magic | u8[8] | M. |\n\
| 8 | 4 | inner | inner | I. |\n| 12 | 1 | reserved | u8 | Reserved. |\n\n\
<!-- tidy: enum Kind in crates/shale-format/src/x.rs -->\n\
| number | name | meaning |\n|---|---|---|\n| 1 | first one | F. |\n\n\
<!-- tidy: schema t in crates/shale-format/src/x.rs -->\n\
| # | column | kind | meaning |\n|---|---|---|---|\n| 0 | a | u64 | A. |\n\n\
<!-- tidy: constants in crates/shale-format/src/x.rs -->\n\
| constant | value | reason |\n|---|---|---|\n| N | 1,024 | R. |\n";

    fn problems(document: &str) -> Vec<String> {
        let tree = Tree::of(&[(DOCUMENT, document), ("crates/shale-format/src/x.rs", SOURCE)]);
        let mut problems = Vec::new();
        check(&tree, &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_true_document_passes() {
        assert_eq!(problems(GOOD), [""; 0]);
    }

    #[test]
    fn every_kind_of_wrong_table_is_found() {
        let lies = [
            ("| 8 | 4 | inner |", "| 8 | 8 | inner |"),
            ("| 12 | 1 |", "| 16 | 1 |"),
            ("u8[8]", "u8[4]"),
            ("| 0 | 4 | a |", "| 0 | 4 | b |"),
            ("| Reserved. |", "| Anything. |"),
            ("| M. |", "| |"),
            ("first one", "first"),
            ("| a | u64 |", "| a | bytes |"),
            ("1,024", "1,025"),
            ("| 12 | 1 | reserved | u8 | Reserved. |\n", ""),
            ("| N | 1,024 | R. |\n", "| N | 1,024 | R. |\n| M | 1 | R. |\n"),
            ("struct InnerRaw in crates", "struct GoneRaw in crates"),
            ("enum Kind in crates/shale-format/src/x.rs", "enum Kind in crates/gone.rs"),
            ("| # | column |", "| number | column |"),
            ("<!-- tidy: schema t in crates/shale-format/src/x.rs -->", ""),
        ];
        for (truth, lie) in lies {
            assert!(GOOD.contains(truth), "{truth}");
            let found = problems(&GOOD.replacen(truth, lie, 1));
            assert!(!found.is_empty(), "not found: {lie}");
        }
    }
}
