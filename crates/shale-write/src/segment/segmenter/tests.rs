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
    content.chunks(step).for_each(|slice| segmenter.push(slice, memory).unwrap());
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
