//! Just enough Rust: on-disk structs, enums with numbers, table schemas and constants.
//!
//! Works on source formatted by rustfmt, line by line, and reads only the shapes that the format
//! crates use. What it cannot read it reports, so a new shape cannot pass unseen.

use crate::expression::Constants;

/// A field of an on-disk struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Type as written.
    pub kind: String,
}

/// `pub struct NAME { .. }` items whose names end in `Raw`, in order of the text.
pub fn raw_structs(text: &str) -> Vec<(String, Vec<Field>)> {
    let mut structs = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("pub struct ").and_then(|l| l.strip_suffix(" {"));
        let Some(name) = name.filter(|n| n.ends_with("Raw")) else { continue };
        let fields = lines.by_ref().take_while(|l| *l != "}").filter_map(field).collect();
        structs.push((name.to_owned(), fields));
    }
    structs
}

fn field(line: &str) -> Option<Field> {
    let (name, kind) = line.trim().strip_prefix("pub ")?.split_once(':')?;
    Some(Field { name: name.to_owned(), kind: kind.trim().trim_end_matches(',').to_owned() })
}

/// Variants of `pub enum NAME` with their numbers as written.
pub fn numbered_enum(text: &str, name: &str) -> Option<Vec<(String, String)>> {
    let opening = format!("pub enum {name} {{");
    let mut lines = text.lines().skip_while(|l| *l != opening);
    lines.next()?;
    let variant = |line: &str| {
        let (name, number) = line.trim().split_once(" = ")?;
        let plain = name.chars().all(char::is_alphanumeric);
        plain.then(|| (name.to_owned(), number.trim_end_matches(',').to_owned()))
    };
    Some(lines.take_while(|l| *l != "}").filter_map(variant).collect())
}

/// A table schema: its name and its columns with their kinds.
pub type SchemaSource = (String, Vec<(String, String)>);

/// Every `schema!( .. )` of the text, then every `pub static NAME: Schema`, in order.
pub fn schemas(text: &str) -> Vec<SchemaSource> {
    let mut found = Vec::new();
    for block in text.split("\nschema!(").skip(1) {
        let block = block.split("\n);").next().unwrap_or(block);
        let code: String =
            block.lines().filter(|l| !l.trim().starts_with("///")).collect::<Vec<_>>().join(" ");
        let Some((head, columns)) = code.split_once('[') else { continue };
        let name = head.split('"').nth(1).unwrap_or_default().to_owned();
        let column = |text: &str| {
            let (name, rest) = text.split_once('=')?;
            let (_, kind) = rest.split_once(':')?;
            Some((name.trim().to_owned(), kind.trim().to_owned()))
        };
        let columns = columns.trim_end().trim_end_matches(']');
        found.push((name, columns.split(',').filter_map(column).collect()));
    }
    for block in text.split(": Schema = Schema {").skip(1) {
        let block = block.split("\n};").next().unwrap_or(block);
        let name = block.split('"').nth(1).unwrap_or_default().to_owned();
        let column = |line: &str| {
            let (kind, rest) = line.trim().strip_prefix("ColumnSpec::")?.split_once("(\"")?;
            Some((rest.split('"').next()?.to_owned(), kind.to_owned()))
        };
        let columns: Vec<_> = block.lines().filter_map(column).collect();
        if !columns.is_empty() {
            found.push((name, columns));
        }
    }
    found
}

/// Every `pub const NAME: T = VALUE;` of the text, in order.
pub fn constants(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for item in text.split("\npub const ").skip(1) {
        // `[u8; 8]` holds a semicolon too, but not at the end of a line.
        let Some((item, _)) = item.split_once(";\n") else { continue };
        let Some((head, value)) = item.split_once('=') else { continue };
        let name = head.split(':').next().unwrap_or_default().trim();
        if !name.starts_with("fn ") {
            found.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    found
}

/// The constants of many texts by name, for expressions that name each other.
pub fn all_constants<'a>(texts: impl Iterator<Item = &'a str>) -> Constants {
    texts.flat_map(constants).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"//! Example.
/// Length.
pub const LEN: usize = 1 << 4;
/// Magic.
pub const MAGIC: [u8; 2] = *b"\x8bA";
/// Layout.
#[repr(C)]
pub struct ThingRaw {
    /// Bytes.
    pub magic: [u8; 2],
    /// Number.
    pub count: U64,
}
#[repr(u8)]
pub enum Kind {
    /// First.
    #[default]
    One = 1,
    /// Second.
    Two = 2,
}
schema!(
    /// Things.
    things, "things", [
        A = 0: U64, B = 1: Bytes,
    ]
);
pub static INDEX: Schema = Schema {
    name: "index",
    columns: &[
        // First.
        ColumnSpec::u64("a"),
        ColumnSpec::bytes("b"),
    ],
};
"#;

    #[test]
    fn reads_the_shapes_of_the_format_crates() {
        let structs = raw_structs(TEXT);
        assert_eq!(structs[0].0, "ThingRaw");
        assert_eq!(structs[0].1[0], Field { name: "magic".into(), kind: "[u8; 2]".into() });
        assert_eq!(structs[0].1[1].kind, "U64");
        let kinds = numbered_enum(TEXT, "Kind").expect("there");
        assert_eq!(kinds, [("One".into(), "1".into()), ("Two".into(), "2".into())]);
        assert_eq!(numbered_enum(TEXT, "Other"), None);
        let (name, columns) = &schemas(TEXT)[0];
        assert_eq!(name, "things");
        assert_eq!(columns[..], [("A".into(), "U64".into()), ("B".into(), "Bytes".into())]);
        let (name, columns) = &schemas(TEXT)[1];
        assert_eq!(name, "index");
        assert_eq!(columns[..], [("a".into(), "u64".into()), ("b".into(), "bytes".into())]);
        let constants = constants(TEXT);
        assert_eq!(constants[0], ("LEN".into(), "1 << 4".into()));
        assert_eq!(constants[1], ("MAGIC".into(), r#"*b"\x8bA""#.into()));
    }
}
