//! A small stream in memory: which pieces a content becomes.

use std::convert::Infallible;

use super::*;

/// The stream in memory.
#[derive(Default)]
struct Memory {
    stream: Vec<u8>,
    /// Of the content at hand: lengths of new bytes and of matches.
    pieces: Vec<(char, u64)>,
}

impl Sink for Memory {
    type Error = Infallible;

    fn piece(&mut self, piece: Piece<'_>) -> Result<(), Infallible> {
        self.pieces.push(match piece {
            Piece::New(bytes) => {
                self.stream.extend_from_slice(bytes);
                ('n', bytes.len() as u64)
            }
            Piece::Match { len, .. } => ('m', len),
        });
        Ok(())
    }

    fn read_at(&self, stream_offset: u64, out: &mut [u8]) -> Result<(), Infallible> {
        out.copy_from_slice(&self.stream[stream_offset as usize..][..out.len()]);
        Ok(())
    }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// The pieces of a content that comes in slices of `step` bytes.
fn pieces(
    segmenter: &mut Segmenter,
    memory: &mut Memory,
    content: &[u8],
    step: usize,
) -> Vec<(char, u64)> {
    segmenter.begin_content(content.len() as u64, Grain::TEXT);
    content.chunks(step).for_each(|slice| segmenter.push(slice, None, memory).unwrap());
    segmenter.end_content(memory).unwrap();
    std::mem::take(&mut memory.pieces)
}

#[test]
fn a_match_at_the_end_of_a_content_has_to_be_worth_it_too() {
    let settings = Settings { window_len: 128, index_bytes_max: 1 << 20 };
    let mut segmenter = Segmenter::new(settings, 0);
    let mut memory = Memory::default();
    let (far, between) = (noise(1, 64 << 10), noise(2, 4 << 20));
    pieces(&mut segmenter, &mut memory, &far, far.len());
    pieces(&mut segmenter, &mut memory, &between, between.len());
    // A small file that is the end of another, or has it at its own end, stays whole.
    let small = &far[far.len() - 600..];
    assert_eq!(pieces(&mut segmenter, &mut memory, small, small.len()), [('n', 600)]);
    let ends = [&noise(3, 3000)[..], &far[10_000..14_000]].concat();
    assert_eq!(pieces(&mut segmenter, &mut memory, &ends, ends.len()), [('n', 7000)]);
    // What is long enough is taken, however it comes.
    for step in [100_000, 5000, 1000] {
        let begins = [&noise(4 + step as u64, 3000)[..], &far[20_000..40_000]].concat();
        let found = pieces(&mut segmenter, &mut memory, &begins, step);
        let matched: u64 = found.iter().filter(|piece| piece.0 == 'm').map(|piece| piece.1).sum();
        assert!(matched >= 19_000, "in steps of {step}: {found:?}");
    }
}

#[test]
fn what_two_slices_share_is_counted_to_the_byte() {
    for len in [0, 1, 7, 8, 9, 40, 300] {
        let a = noise(1, len);
        assert_eq!((common_len(&a, &a), common_len_back(&a, &a)), (len, len));
        for at in 0..len {
            let mut b = a.clone();
            b[at] ^= 0x10;
            assert_eq!((common_len(&a, &b), common_len_back(&a, &b)), (at, len - at - 1));
        }
    }
}

#[test]
fn anchors_that_are_known_beforehand_give_the_same_pieces() {
    // Contents that repeat parts of earlier ones, with windows that are shorter and longer than
    // what the hash covers, and an index that thins.
    for window_len in [32, 48, 64, 128, 1000] {
        let settings = Settings { window_len, index_bytes_max: 96 << 10 };
        let mut contents: Vec<Vec<u8>> = Vec::new();
        for seed in 0..40u64 {
            let mut content = noise(seed, 1 + (seed as usize * 7919) % 300_000);
            if let Some(earlier) = contents.get(seed as usize / 2) {
                let from = earlier.len() / 3;
                let at = content.len() / 2;
                content.splice(at..at, earlier[from..].iter().copied());
            }
            contents.push(content);
        }
        // No anchors for long, and next to nothing but anchors.
        contents.push(vec![7; 3 << 20]);
        contents.push(b"ab".repeat(700_000));
        let mut found = Vec::new();
        for is_known in [false, true] {
            let mut segmenter = Segmenter::new(settings, 0);
            let mut memory = Memory::default();
            let mut pieces = Vec::new();
            for (number, content) in contents.iter().enumerate() {
                let grain = if number % 3 == 0 { Grain::BINARY } else { Grain::TEXT };
                segmenter.begin_content(content.len() as u64, grain);
                // As contents come: in parts of at most 1 MiB.
                let mut at = 0;
                for part in content.chunks(1 << 20) {
                    let before = at - usize::min(at, window_len.max(64) as usize);
                    let mut anchors = Vec::new();
                    let step_log2 = segmenter.step_log2().max(grain.step_log2);
                    anchors_after(
                        &content[before..at],
                        (part, at as u64),
                        window_len,
                        step_log2,
                        &mut anchors,
                    );
                    let known = is_known.then_some(&anchors[..]);
                    segmenter.push(part, known, &mut memory).unwrap();
                    at += part.len();
                }
                segmenter.end_content(&mut memory).unwrap();
                pieces.push(std::mem::take(&mut memory.pieces));
            }
            assert!(segmenter.step_log2() > 4, "the index was thinned");
            found.push((pieces, memory.stream));
        }
        assert!(found[0] == found[1], "windows of {window_len}");
        let matches = found[0].0.iter().flatten().filter(|piece| piece.0 == 'm').count();
        assert!(matches > 20, "{matches}");
    }
}
