//! tar archives that a test writes entry by entry, and the sums of their headers.
//!
//! Panics on wrong input: it is for names that tests choose.

/// A tar archive that a test writes entry by entry.
#[derive(Debug, Default)]
pub struct Tar(Vec<u8>);

impl Tar {
    /// Adds an entry. `name` has at most 100 bytes.
    pub fn entry(mut self, name: &str, type_flag: u8, data: &[u8]) -> Self {
        let start = self.0.len();
        self.0.resize(start + 512, 0);
        let header = &mut self.0[start..];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
        header[156] = type_flag;
        header[257..265].copy_from_slice(b"ustar\x0000");
        mend(header);
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Adds an extended header for the entry that follows.
    pub fn records(self, records: &[(&str, &[u8])]) -> Self {
        let mut data = Vec::new();
        for (name, value) in records {
            let body = [b" ", name.as_bytes(), b"=", value, b"\n"].concat();
            let mut len = body.len() + 1;
            while len != body.len() + len.to_string().len() {
                len = body.len() + len.to_string().len();
            }
            data.extend_from_slice(len.to_string().as_bytes());
            data.extend_from_slice(&body);
        }
        self.entry("header", b'x', &data)
    }

    /// Returns the archive, with the mark of its end.
    pub fn bytes(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// Makes the sums of the headers right whose place is a multiple of 512.
pub fn mend(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512) {
        if &block[257..262] == b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}
