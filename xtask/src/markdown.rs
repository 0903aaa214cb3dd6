//! Tables of a markdown document and the markers that say what each must equal.
//!
//! A marker is a comment of its own line, `<!-- tidy: WHAT -->`; the table that follows it, blank
//! lines aside, is its table. Cells lose surrounding spaces and back quotes.

/// A table and the marker before it.
#[derive(Debug, PartialEq, Eq)]
pub struct MarkedTable {
    /// Text of the marker after `tidy:`.
    pub marker: String,
    /// Line of the marker, from 1.
    pub line: usize,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Rows with their lines, from 1.
    pub rows: Vec<(usize, Vec<String>)>,
}

/// All marked tables in order. A marker without a table has no header and no rows.
pub fn marked_tables(text: &str) -> Vec<MarkedTable> {
    let lines: Vec<&str> = text.lines().collect();
    let mut tables = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let marker = line.trim().strip_prefix("<!-- tidy:").and_then(|l| l.strip_suffix("-->"));
        let Some(marker) = marker else { continue };
        let start = (index + 1..lines.len()).find(|&i| !lines[i].trim().is_empty());
        let mut table = MarkedTable {
            marker: marker.trim().to_owned(),
            line: index + 1,
            header: Vec::new(),
            rows: Vec::new(),
        };
        for (at, line) in lines.iter().enumerate().skip(start.unwrap_or(lines.len())) {
            let Some(cells) = cells(line) else { break };
            if table.header.is_empty() {
                table.header = cells;
            } else if !cells.iter().all(|c| !c.is_empty() && c.chars().all(|c| "-:".contains(c))) {
                table.rows.push((at + 1, cells));
            }
        }
        tables.push(table);
    }
    tables
}

/// The cells of a row of a table; `\|` does not end a cell.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let inner = inner.replace("\\|", "\u{0}");
    let clean = |cell: &str| cell.trim().trim_matches('`').replace('\u{0}', "|");
    Some(inner.split('|').map(clean).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_table_after_its_marker_only() {
        let text = "| x |\n|---|\n\n<!-- tidy: struct A -->\n\n| a | b |\n|---|--:|\n| `1` | p\\|q |\n\
                    \n| other |\n<!-- tidy: none -->\ntext\n";
        let tables = marked_tables(text);
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].marker, "struct A");
        assert_eq!(tables[0].header, ["a", "b"]);
        assert_eq!(tables[0].rows, [(8, vec!["1".to_owned(), "p|q".to_owned()])]);
        assert!(tables[1].header.is_empty());
    }
}
