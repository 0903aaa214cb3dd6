//! A file that is shown: as lines of text, or as bytes in hexadecimal.

use shale::read::{Attributes, ReadError, Tree};

use super::cells;
use super::place::moved;
use super::search::contains;

/// Bytes of a file that are shown as text. As bytes, all of it is shown.
pub const TEXT_LEN_MAX: usize = 1 << 20;
/// Bytes that decide whether a file is text.
const SAMPLE_LEN: usize = 4096;

/// A file.
pub struct Preview {
    pub path: Vec<u8>,
    pub attributes: Attributes,
    tree: Tree,
    /// The first bytes.
    head: Vec<u8>,
    /// Where each line of them begins and ends.
    lines: Vec<std::ops::Range<usize>>,
    pub is_hex: bool,
    /// The first line, or row of bytes, on the screen, and the first column of text.
    pub top: usize,
    pub left: usize,
    /// Bytes in a row.
    pub row_len: usize,
}

impl Preview {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(tree: &Tree, attributes: Attributes, path: Vec<u8>) -> Result<Self, ReadError> {
        let len = attributes.size.min(TEXT_LEN_MAX as u64) as usize;
        let mut head = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match tree.read(attributes.inode, filled as u64, &mut head[filled..])? {
                0 => break,
                read_len => filled += read_len,
            }
        }
        head.truncate(filled);
        let is_hex = head[..filled.min(SAMPLE_LEN)].contains(&0);
        let mut lines = Vec::new();
        let mut start = 0;
        for line in head.split_inclusive(|&byte| byte == b'\n') {
            let end = start + line.len();
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            lines.push(start..start + text.len());
            start = end;
        }
        let tree = tree.clone();
        Ok(Self { path, attributes, tree, head, lines, is_hex, top: 0, left: 0, row_len: 16 })
    }

    /// Lines or rows that there are.
    pub fn count(&self) -> usize {
        match self.is_hex {
            true => self.attributes.size.div_ceil(self.row_len as u64) as usize,
            false => self.lines.len(),
        }
    }

    /// Whether text of the file is not shown.
    pub fn is_cut(&self) -> bool {
        !self.is_hex && (self.head.len() as u64) < self.attributes.size
    }

    /// Fits the rows to the width, and the first line to the height.
    pub fn fit(&mut self, width: usize, height: usize) {
        let row_len = if width >= 78 { 16 } else { 8 };
        if self.is_hex {
            self.top = self.top * self.row_len / row_len;
        }
        self.row_len = row_len;
        self.top = self.top.min(self.count().saturating_sub(height));
    }

    /// Moves by lines or rows.
    pub fn scroll(&mut self, by: isize) {
        self.top = moved(self.top, by, self.count());
    }

    /// Shows it in the other way, at about the same place.
    pub fn toggle(&mut self) {
        let at = match self.is_hex {
            true => self.top * self.row_len,
            false => self.lines.get(self.top).map_or(0, |line| line.start),
        };
        self.is_hex = !self.is_hex;
        self.top = match self.is_hex {
            true => at / self.row_len,
            false => self.lines.partition_point(|line| line.end < at),
        };
    }

    /// Goes to the next line, or the one before, that contains a text. Returns whether there is
    /// one.
    pub fn find(&mut self, wanted: &str, is_backwards: bool) -> bool {
        let has = |index: &usize| contains(&self.head[self.lines[*index].clone()], wanted);
        let found = match is_backwards {
            false => (self.top + 1..self.lines.len()).find(has),
            true => (0..self.top.min(self.lines.len())).rev().find(has),
        };
        if self.is_hex || found.is_none() {
            return false;
        }
        self.top = found.unwrap_or(self.top);
        true
    }

    /// What is on the screen: at most `height` lines.
    pub fn shown(&self, height: usize) -> Vec<String> {
        match self.is_hex {
            true => self.rows(height),
            false => {
                let lines = self.lines.iter().skip(self.top).take(height);
                let lines = lines.map(|line| cells::line(&self.head[line.clone()]));
                lines.map(|line| cells::skip(&line, self.left).to_owned()).collect()
            }
        }
    }

    /// Rows of bytes, read when they are shown.
    fn rows(&self, height: usize) -> Vec<String> {
        let start = (self.top * self.row_len) as u64;
        let left = self.attributes.size.saturating_sub(start);
        let len = left.min((height * self.row_len) as u64) as usize;
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            let at = start + filled as u64;
            match self.tree.read(self.attributes.inode, at, &mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read_len) => filled += read_len,
                Err(error) => {
                    let error = crate::text::safe(&error.to_string());
                    return vec![format!("cannot be read from {at}: {error}")];
                }
            }
        }
        let rows = bytes[..filled].chunks(self.row_len).enumerate();
        rows.map(|(index, row)| hex_row(start + (index * self.row_len) as u64, row, self.row_len))
            .collect()
    }
}

/// A row as `hexdump -C` shows it.
fn hex_row(offset: u64, bytes: &[u8], row_len: usize) -> String {
    let mut out = format!("{offset:08x} ");
    for at in 0..row_len {
        if at % 8 == 0 {
            out.push(' ');
        }
        match bytes.get(at) {
            Some(byte) => out += &format!("{byte:02x} "),
            None => out += "   ",
        }
    }
    let shown = bytes.iter().map(|byte| match byte {
        0x20..=0x7e => char::from(*byte),
        _ => '.',
    });
    out + " |" + &shown.collect::<String>() + "|"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_like_those_of_hexdump() {
        assert_eq!(
            hex_row(16, b"\x00\x7fELF", 16),
            "00000010  00 7f 45 4c 46                                    |..ELF|"
        );
        assert_eq!(hex_row(0, b"12345678", 8), "00000000  31 32 33 34 35 36 37 38  |12345678|");
    }
}
