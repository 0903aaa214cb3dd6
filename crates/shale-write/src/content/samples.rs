//! Finds the samples of sound and pictures in a content, from front to back.
//!
//! A content is recognised by its first bytes, see `sound.rs`, `fits.rs` and `pictures.rs`. What
//! is found only decides how bytes are compressed: a wrong guess costs size, never correctness.

use std::ops::Range;

use shale_codec::SampleShape;
use shale_format::Category;

use crate::content::fits;
use crate::content::pictures::picture_of;
use crate::content::sound::sound_of;

/// Shorter runs of samples are treated as any bytes.
const SAMPLES_LEN_MIN: u64 = 4096;

/// Samples of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Samples {
    pub(crate) shape: SampleShape,
    /// Groups of a row, or 0.
    pub(crate) row_len: u32,
}

/// Bytes that are samples, and how far they are from the first sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleRun {
    pub(crate) samples: Samples,
    pub(crate) at: u64,
}

impl SampleRun {
    /// The run without its first `len` bytes.
    pub(crate) fn after(self, len: u64) -> SampleRun {
        SampleRun { at: self.at + len, ..self }
    }
}

/// Splits a content into samples and other bytes while it is read.
#[derive(Debug)]
pub(crate) struct SampleFinder {
    /// Length of the content, as far as known.
    len: u64,
    /// Position of the next byte.
    at: u64,
    /// The samples that come next, or that go on.
    next: Option<(Range<u64>, Samples)>,
    /// Where the next header begins, and as much of it as was read.
    header: Option<(u64, Vec<u8>)>,
    category: Option<Category>,
}

impl SampleFinder {
    /// For a content of about `len` bytes.
    pub(crate) fn new(len: u64) -> SampleFinder {
        SampleFinder { len, at: 0, next: None, header: None, category: None }
    }

    /// What the content is, if its first bytes say so.
    pub(crate) fn category(&self) -> Option<Category> {
        self.category
    }

    /// Takes the next bytes. Returns the ranges of them that are samples, in order.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<(Range<usize>, SampleRun)> {
        if self.at == 0 {
            self.recognise(bytes);
        }
        let mut found = Vec::new();
        let mut done = 0;
        while done < bytes.len() {
            let at = self.at + done as u64;
            let left = bytes.len() - done;
            let up_to = |position: u64| {
                usize::try_from(position.saturating_sub(at)).unwrap_or(usize::MAX).min(left)
            };
            if let Some((range, samples)) = &self.next {
                if at < range.start {
                    done += up_to(range.start);
                } else if at < range.end {
                    let len = up_to(range.end);
                    let run = SampleRun { samples: *samples, at: at - range.start };
                    found.push((done..done + len, run));
                    done += len;
                } else {
                    self.next = None;
                }
            } else if let Some((start, header)) = &mut self.header {
                if at < *start {
                    done += up_to(*start);
                    continue;
                }
                let len = left.min(fits::BLOCK_LEN - header.len() % fits::BLOCK_LEN);
                header.extend_from_slice(&bytes[done..done + len]);
                done += len;
                if header.len().is_multiple_of(fits::BLOCK_LEN) {
                    self.end_block(at + len as u64);
                }
            } else {
                break;
            }
        }
        self.at += bytes.len() as u64;
        found
    }

    /// Skips a hole.
    pub(crate) fn skip(&mut self, len: u64) {
        self.at += len;
        // A header with a hole in it is none.
        if self.header.as_ref().is_some_and(|(start, _)| *start < self.at) {
            self.header = None;
        }
    }

    fn recognise(&mut self, bytes: &[u8]) {
        if let Some((range, shape)) = sound_of(bytes, self.len) {
            self.expect(range, Samples { shape, row_len: 0 });
            self.category = Some(Category::Audio);
        } else if fits::is_fits(bytes) {
            self.header = Some((0, Vec::new()));
            self.category = Some(Category::Sensor);
        } else if let Some((range, shape, row_len)) = picture_of(bytes) {
            let row_len = u32::try_from(row_len).unwrap_or(0);
            self.expect(range, Samples { shape, row_len });
        }
    }

    /// Notes samples, unless they are few.
    fn expect(&mut self, range: Range<u64>, samples: Samples) {
        let range = range.start..range.end.min(self.len);
        if range.start < range.end && range.end - range.start >= SAMPLES_LEN_MIN {
            self.next = Some((range, samples));
        }
    }

    /// Looks whether a header ended with the block that ends at `end`.
    fn end_block(&mut self, end: u64) {
        let Some((_, header)) = &self.header else { return };
        let block = &header[header.len() - fits::BLOCK_LEN..];
        if !fits::ends_header(block) {
            if header.len() >= fits::HEADER_LEN_MAX {
                self.header = None;
            }
            return;
        }
        let unit = fits::unit_of(header);
        self.header = None;
        let Some(unit) = unit else { return };
        if let Some((shape, row_len)) = unit.picture {
            let row_len = u32::try_from(row_len).unwrap_or(0);
            self.expect(end..end.saturating_add(unit.data_len), Samples { shape, row_len });
        }
        let after = end.saturating_add(unit.data_len);
        if let Some(next) = after.checked_next_multiple_of(fits::BLOCK_LEN as u64) {
            self.header = Some((next, Vec::new()));
        }
    }
}

#[cfg(test)]
mod tests {
    use shale_codec::Meaning;

    use super::*;
    use crate::tests::random;

    /// Finds samples in a content that comes in pieces.
    fn found(bytes: &[u8], piece_len: usize) -> (Option<Category>, Vec<(Range<u64>, SampleRun)>) {
        let mut finder = SampleFinder::new(bytes.len() as u64);
        let mut all: Vec<(Range<u64>, SampleRun)> = Vec::new();
        for (index, piece) in bytes.chunks(piece_len).enumerate() {
            let start = (index * piece_len) as u64;
            for (range, run) in finder.push(piece) {
                let range = start + range.start as u64..start + range.end as u64;
                match all.last_mut() {
                    Some((last, first))
                        if last.end == range.start && first.after(last.end - last.start) == run =>
                    {
                        last.end = range.end;
                    }
                    _ => all.push((range, run)),
                }
            }
        }
        (finder.category(), all)
    }

    fn shape(width: usize, channels: usize, is_big: bool, meaning: Meaning) -> SampleShape {
        SampleShape::new(width, channels, is_big, meaning).unwrap()
    }

    fn le(numbers: &[(u64, usize)]) -> Vec<u8> {
        numbers.iter().flat_map(|(n, len)| n.to_le_bytes()[..*len].to_vec()).collect()
    }

    fn be(numbers: &[(u64, usize)]) -> Vec<u8> {
        numbers.iter().flat_map(|(n, len)| n.to_be_bytes()[8 - len..].to_vec()).collect()
    }

    fn wav(id: &[u8], tag: u64, channels: u64, width: u64, claimed_len: u64) -> Vec<u8> {
        let format = le(&[
            (tag, 2),
            (channels, 2),
            (44_100, 4),
            (44_100 * channels * width, 4),
            (channels * width, 2),
            (8 * width, 2),
        ]);
        let parts: [&[u8]; 7] = [
            id,
            &le(&[(claimed_len, 4)]),
            b"WAVEfmt ",
            &le(&[(16, 4)]),
            &format,
            b"data",
            &le(&[(claimed_len, 4)]),
        ];
        parts.concat()
    }

    /// The only samples of a file with this header: where, and of which shape.
    fn only(header: &[u8], data_len: usize, tail: &[u8]) -> Option<(Range<u64>, SampleShape)> {
        let bytes = [header, &random(3, data_len), tail].concat();
        let whole = found(&bytes, bytes.len());
        for piece_len in [header.len().max(2880), 10_007] {
            assert_eq!(found(&bytes, piece_len), whole);
        }
        let mut runs = whole.1.into_iter();
        let first = runs.next().map(|(range, run)| {
            assert_eq!(run.at, 0);
            (range, run.samples.shape)
        });
        assert!(runs.next().is_none());
        first
    }

    #[test]
    fn sound_is_found_in_every_container() {
        let signed = |width, channels, is_big| shape(width, channels, is_big, Meaning::Signed);
        let header = wav(b"RIFF", 1, 2, 2, 40_000);
        assert_eq!(only(&header, 40_000, b"LIST"), Some((44..40_044, signed(2, 2, false))));
        let header = wav(b"RIFF", 1, 1, 1, 9000);
        let unsigned = shape(1, 1, false, Meaning::Unsigned);
        assert_eq!(only(&header, 9000, b""), Some((44..9044, unsigned)));
        let header = wav(b"RIFF", 3, 8, 4, 64_000);
        let floats = shape(4, 8, false, Meaning::Float);
        assert_eq!(only(&header, 64_000, b""), Some((44..64_044, floats)));
        // Lengths that are not true end with the file; so do streams.
        for claimed_len in [0, 9001, u64::from(u32::MAX), 0xFFFF_FF00] {
            let header = wav(b"RF64", 1, 2, 3, claimed_len);
            assert_eq!(only(&header, 9000, b""), Some((44..9044, signed(3, 2, false))));
        }
        // A chunk before the others, with an odd length.
        let header = wav(b"RIFF", 1, 2, 2, 40_000);
        let odd = [&header[..12], b"junk\x05\0\0\0odd..\0", &header[12..]].concat();
        assert_eq!(only(&odd, 40_000, b""), Some((58..40_058, signed(2, 2, false))));
        // Extensible.
        let mut long = header.clone();
        (long[16], long[20], long[21]) = (40, 0xFE, 0xFF);
        let more = [&le(&[(22, 2), (16, 2), (3, 4), (1, 2)])[..], &[0; 14]].concat();
        long.splice(36..36, more);
        assert_eq!(only(&long, 40_000, b""), Some((68..40_068, signed(2, 2, false))));
        let w64 = [
            b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\0\0",
            &le(&[(50_000, 8)])[..],
            b"wave\xf3\xac\xd3\x11\x8c\xd1\0\xc0\x4f\x8e\xdb\x8a",
            b"fmt \xf3\xac\xd3\x11\x8c\xd1\0\xc0\x4f\x8e\xdb\x8a",
            &le(&[(40, 8)]),
            &header[20..36],
            b"data\xf3\xac\xd3\x11\x8c\xd1\0\xc0\x4f\x8e\xdb\x8a",
            &le(&[(40_024, 8)]),
        ]
        .concat();
        assert_eq!(only(&w64, 40_000, b"more"), Some((104..40_104, signed(2, 2, false))));
        let common = be(&[(2, 2), (10_000, 4), (20, 2), (0, 8), (0, 2)]);
        let aiff = [
            b"FORM\0\0\x10\0AIFFCOMM",
            &be(&[(18, 4)])[..],
            &common,
            b"SSND",
            &be(&[(60_012, 4), (4, 4), (0, 4)]),
            b"skip",
        ]
        .concat();
        assert_eq!(only(&aiff, 60_000, b"MARK"), Some((58..60_058, signed(3, 2, true))));
        let aifc = [
            b"FORM\0\0\x10\0AIFCCOMM",
            &be(&[(24, 4)])[..],
            &common,
            b"sowt\0\0SSND",
            &be(&[(60_008, 4), (0, 8)]),
        ]
        .concat();
        assert_eq!(only(&aifc, 60_000, b""), Some((60..60_060, signed(3, 2, false))));
        let caf = [
            b"caff\0\x01\0\0desc",
            &be(&[(32, 8), (0, 8)])[..],
            b"lpcm",
            &be(&[(2, 4), (4, 4), (1, 4), (2, 4), (16, 4)]),
            b"data",
            &be(&[(u64::MAX, 8), (0, 4)]),
        ]
        .concat();
        assert_eq!(only(&caf, 40_000, b""), Some((68..40_068, signed(2, 2, false))));
        let au = [b".snd", &be(&[(24, 4), (40_000, 4), (3, 4), (8000, 4), (1, 4)])[..]].concat();
        assert_eq!(only(&au, 40_000, b"!"), Some((24..40_024, signed(2, 1, true))));
    }

    #[test]
    fn what_is_not_plain_sound_or_contradicts_itself_has_no_samples() {
        let header = wav(b"RIFF", 1, 2, 2, 40_000);
        for cut in 0..44 {
            assert_eq!(found(&header[..cut], 7).1, []);
        }
        for (at, value) in [(8, b'?'), (20, 2), (20, 85), (22, 0), (22, 17), (32, 99), (36, b'?')] {
            let mut wrong = header.clone();
            wrong[at] = value;
            if at == 32 {
                wrong[34] = 0;
            }
            assert_eq!(only(&wrong, 40_000, b""), None, "{at} {value}");
        }
        // A chunk that goes round, and four thousand tiny ones.
        let endless = [&header[..12], b"junk\xff\xff\xff\xff"].concat();
        assert_eq!(only(&endless, 40_000, b""), None);
        let many = [&header[..12], &b"junk\0\0\0\0".repeat(4000)[..], &header[12..]].concat();
        assert_eq!(only(&many, 40_000, b""), None);
        for start in [&b"fLaC\0\0\0\x22"[..], b"ID3\x03", b"OggS\0", b"\xff\xfb\x90"] {
            assert_eq!(only(start, 40_000, b""), None);
        }
    }

    fn fits_header(cards: &[&str]) -> Vec<u8> {
        let mut header: Vec<u8> =
            cards.iter().flat_map(|card| format!("{card:80}").into_bytes()).collect();
        header.resize(header.len().next_multiple_of(2880), b' ');
        header
    }

    #[test]
    fn pictures_of_a_fits_file_are_found_and_its_tables_are_not() {
        let first = fits_header(&[
            "SIMPLE  =                    T",
            "BITPIX  =                   16 / bits",
            "NAXIS   =                    2",
            "NAXIS1  =                  100",
            "NAXIS2  =                   50",
            "BAYERPAT= 'RGGB    '",
            "END",
        ]);
        let table = fits_header(&[
            "XTENSION= 'BINTABLE'",
            "BITPIX  =                    8",
            "NAXIS   =                    2",
            "NAXIS1  =                   12",
            "NAXIS2  =                 1000",
            "PCOUNT  =                    7",
            "GCOUNT  =                    1",
            "END",
        ]);
        let mut cards = vec![
            "XTENSION= 'IMAGE   '",
            "BITPIX  =                  -32",
            "NAXIS   =                    3",
            "NAXIS1  =                   64",
            "NAXIS2  =                   32",
            "NAXIS3  =                    2",
        ];
        cards.extend(["COMMENT of many"; 60]);
        cards.push("END");
        let cube = fits_header(&cards);
        let bytes = [
            &first[..],
            &random(1, 10_000usize.next_multiple_of(2880)),
            &table,
            &random(2, 12_007usize.next_multiple_of(2880)),
            &cube,
            &random(3, 16_384),
        ]
        .concat();
        let big = |width, channels, meaning| shape(width, channels, true, meaning);
        let at_cube = bytes.len() as u64 - 16_384;
        let expected = [
            (2880..12_880, big(2, 2, Meaning::Signed), 100),
            (at_cube..at_cube + 16_384, big(4, 1, Meaning::Float), 64),
        ];
        for piece_len in [bytes.len(), 2880, 12_000] {
            let (category, runs) = found(&bytes, piece_len);
            assert_eq!(category, Some(Category::Sensor));
            let runs: Vec<_> = runs
                .into_iter()
                .map(|(range, run)| (range, run.samples.shape, run.samples.row_len))
                .collect();
            assert_eq!(runs, expected, "{piece_len}");
        }
        // A header that lies, or never ends.
        for lie in ["BITPIX  =                   17", "NAXIS1  =                   -1"] {
            let mut cards =
                vec!["SIMPLE  = T", "BITPIX  = 16", "NAXIS   = 2", "NAXIS1  = 9", "NAXIS2  = 900"];
            cards.extend([lie, "END"]);
            let bytes = [fits_header(&cards), random(4, 50_000)].concat();
            assert!(found(&bytes, 2880).1.is_empty() || lie.starts_with("NAXIS1"));
        }
        let endless = [&first[..400], &[b' '; 2_000_000]].concat();
        assert_eq!(found(&endless, 1 << 20).1, []);
        let huge = fits_header(&[
            "SIMPLE  = T",
            "BITPIX  = 64",
            "NAXIS   = 2",
            "NAXIS1  = 9223372036854775807",
            "NAXIS2  = 9223372036854775807",
            "END",
        ]);
        assert_eq!(found(&[huge, random(4, 50_000)].concat(), 2880).1, []);
    }

    #[test]
    fn plain_pictures_and_arrays_are_found() {
        let unsigned = |width, channels, is_big| shape(width, channels, is_big, Meaning::Unsigned);
        let ppm = b"P6\n# drawn\n100 80\n255\n";
        assert_eq!(only(ppm, 24_000, b""), Some((22..24_022, unsigned(1, 3, true))));
        let pgm = b"P5 100 80 65535\n";
        assert_eq!(only(pgm, 16_000, b""), Some((16..16_016, unsigned(2, 1, true))));
        let mut bmp = b"BM".to_vec();
        bmp.extend(le(&[(0, 8), (54, 4), (40, 4), (100, 4), (80, 4), (1, 2), (24, 2), (0, 4)]));
        bmp.resize(54, 0);
        assert_eq!(only(&bmp, 24_000, b""), Some((54..24_054, unsigned(1, 3, false))));
        let text = "{'descr': '<i2', 'fortran_order': False, 'shape': (100, 80), }";
        let npy = [b"\x93NUMPY\x01\0v\0", format!("{text:117}\n").as_bytes()].concat();
        let signed = shape(2, 1, false, Meaning::Signed);
        assert_eq!(only(&npy, 16_000, b""), Some((128..16_128, signed)));
        for cut in 0..128 {
            assert_eq!(found(&npy[..cut], 50).1, []);
        }
    }
}
