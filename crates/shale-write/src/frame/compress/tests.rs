//! Tests of the choice between the forms that a frame can take.

use super::*;
use shale_codec::{Meaning, SampleShape};

use crate::tests::random;

fn packing(codec: Codec) -> Packing {
    let settings = Settings::new(codec, Settings::default_level(codec)).unwrap();
    Packing {
        choice: CodecChoice::one(settings),
        array_choice: CodecChoice::one(settings),
        tries_incompressible: false,
        tries_filters: true,
        tries_lines: true,
        effort: Some(Effort::THOROUGH),
        samples: None,
    }
}

#[test]
fn references_are_kept_where_they_pay_and_only_there() {
    let mut scratch = EncoderScratch::default();
    let mut compressor = Compressor::new(&mut scratch);
    let related = Arc::new(random(1, 100_000));
    let unrelated = Arc::new(random(2, 100_000));
    let mut plain = related[20_000..90_000].to_vec();
    plain[35_000] ^= 1;
    for codec in [Codec::Zstd, Codec::Lzma] {
        let packing = packing(codec);
        let references = vec![(7, Arc::clone(&related))];
        let packed = compressor.pack(&packing, &plain, Category::Generic, references).unwrap();
        assert_eq!(packed.references, [7]);
        assert!(packed.stored.len() < 1000 && packed.saved_bytes > 30_000);
        let mut decoded = Vec::new();
        shale_codec::Decoder::new()
            .decode(codec, &related, &packed.stored, plain.len(), &mut decoded)
            .unwrap();
        assert_eq!(decoded, plain);
        let references = vec![(8, Arc::clone(&unrelated))];
        let packed = compressor.pack(&packing, &plain, Category::Generic, references).unwrap();
        assert!(packed.references.is_empty() && packed.references_dropped);
        assert_eq!(packed.stored, plain, "stored, as it does not compress");
    }
}

#[test]
fn what_references_save_is_estimated_well_where_it_is_not_tried() {
    let letters =
        |seed| -> Vec<u8> { random(seed, 200_000).iter().map(|byte| b'a' + byte % 23).collect() };
    let related = Arc::new(letters(3));
    let mut plain = letters(4);
    plain[20_000..70_000].copy_from_slice(&related[90_000..140_000]);
    let packing = packing(Codec::Zstd);
    let mut scratch = EncoderScratch::default();
    let mut compressor = Compressor::new(&mut scratch);
    let alone = compressor.pack(&packing, &plain, Category::Code, vec![]).unwrap();
    let references = vec![(1, Arc::clone(&related))];
    // A trial of machine code chooses the filter, so its result is known.
    let packed = compressor.pack(&packing, &plain, Category::Code, references).unwrap();
    assert_eq!(packed.references, [1]);
    let saved = alone.stored.len() - packed.stored.len();
    assert!(saved > alone.stored.len() / 5, "{saved}");
    assert!(packed.saved_bytes.abs_diff(saved as u64) < saved as u64 / 10);
}

#[test]
fn trials_leave_out_what_others_hold_already_and_what_saves_little() {
    let letters =
        |seed| -> Vec<u8> { random(seed, 200_000).iter().map(|byte| b'a' + byte % 23).collect() };
    let plain = letters(5);
    let holding = |seed, range: std::ops::Range<usize>| {
        let mut other = letters(seed);
        other[range.clone()].copy_from_slice(&plain[range]);
        Arc::new(other)
    };
    let little = holding(9, 0..10_000);
    let references: References = vec![
        (1, holding(6, 100_000..130_000)),
        (2, holding(7, 0..80_000)),
        (3, Arc::clone(&little)),
        (4, holding(8, 80_000..160_000)),
    ];
    let settings = Settings::new(Codec::Zstd, TRIAL_LEVEL_MIN).unwrap();
    let packing = Packing { choice: CodecChoice::one(settings), ..packing(Codec::Zstd) };
    let mut scratch = EncoderScratch::default();
    let mut compressor = Compressor::new(&mut scratch);
    let alone = compressor.pack(&packing, &plain, Category::Generic, vec![]).unwrap();
    let packed = compressor.pack(&packing, &plain, Category::Generic, references.clone()).unwrap();
    assert_eq!(packed.references, [2, 4]);
    let saved = (alone.stored.len() - packed.stored.len()) as u64;
    assert!(packed.saved_bytes.abs_diff(saved) < saved / 10, "{saved}");
    let prefix = [&references[1].1[..], &references[3].1[..]].concat();
    let mut decoded = Vec::new();
    shale_codec::Decoder::new()
        .decode(Codec::Zstd, &prefix, &packed.stored, plain.len(), &mut decoded)
        .unwrap();
    assert_eq!(decoded, plain);
    // A twentieth is not worth sorting a frame for.
    let references = vec![(3, little)];
    let packed = compressor.pack(&packing, &plain, Category::Generic, references.clone()).unwrap();
    assert!(packed.references.is_empty() && packed.references_dropped);
    assert_eq!(packed.stored, alone.stored);
    // For text it is.
    let packed = compressor.pack(&packing, &plain, Category::Text, references).unwrap();
    assert_eq!(packed.references, [3]);
    assert!(packed.stored.len() < alone.stored.len());
}

#[test]
fn lines_are_columns_where_that_is_shorter_than_with_references() {
    let log = |first: u32| -> Vec<u8> {
        let took = |i: u32| i.wrapping_mul(2_654_435_761) >> 22;
        let line = |i: u32| format!("{:07} worker {} took {} us\n", i * 3, i % 4, took(i));
        (first..first + 3000).flat_map(|i| line(i).into_bytes()).collect()
    };
    let mut scratch = EncoderScratch::default();
    let mut compressor = Compressor::new(&mut scratch);
    let packing = packing(Codec::Zstd);
    let other = Arc::new(log(500_000));
    let plain = log(10);
    let references = vec![(7, Arc::clone(&other))];
    let packed = compressor.pack(&packing, &plain, Category::Text, references).unwrap();
    let record = &packed.record;
    assert_eq!((record.filter, record.reference_count), (Filter::Lines.id(), 0));
    assert!(packed.references_dropped);
    let mut decoded = Vec::new();
    shale_codec::Decoder::new()
        .decode_filtered(
            (Codec::Zstd, Filter::Lines),
            &[],
            &packed.stored,
            plain.len(),
            &mut decoded,
        )
        .unwrap();
    assert_eq!(decoded, plain);
    // With the frame itself as reference, nothing is left that columns could make shorter.
    let references = vec![(7, Arc::new(plain.clone()))];
    let packed = compressor.pack(&packing, &plain, Category::Text, references).unwrap();
    assert_eq!((packed.record.filter, &packed.references[..]), (Filter::None.id(), &[7][..]));
    // Filters are off.
    let untried = Packing { tries_lines: false, ..packing };
    let packed = compressor.pack(&untried, &plain, Category::Text, Vec::new()).unwrap();
    assert_eq!(packed.record.filter, Filter::None.id());
}

#[test]
fn arrays_are_planes_where_that_is_shorter_and_nothing_else_is() {
    let wave = |i: u32| (f64::from(i) / 400.0).sin() * 3.0 + 5.0;
    let plain: Vec<u8> = (0..60_000).flat_map(|i| (wave(i) as f32).to_le_bytes()).collect();
    let mut scratch = EncoderScratch::default();
    let mut compressor = Compressor::new(&mut scratch);
    let packing = packing(Codec::Zstd);
    let untried = Packing { tries_filters: false, ..packing };
    let pack = |compressor: &mut Compressor<'_>, packing, bytes: &[u8], references| {
        compressor.pack(packing, bytes, Category::Generic, references).unwrap()
    };
    let other = Arc::new(random(8, plain.len()));
    let packed = pack(&mut compressor, &packing, &plain, vec![(3, other)]);
    let record = &packed.record;
    assert_eq!((record.filter, record.category), (Filter::Array.id(), Category::Array as u64));
    assert!(packed.references.is_empty() && packed.references_dropped);
    let plainly = pack(&mut compressor, &untried, &plain, vec![]);
    assert_eq!(plainly.record.filter, Filter::None.id());
    assert!(packed.stored.len() * 2 < plainly.stored.len(), "{}", packed.stored.len());
    let mut decoded = Vec::new();
    let ways = (Codec::Zstd, Filter::Array);
    shale_codec::Decoder::new()
        .decode_filtered(ways, &[], &packed.stored, plain.len(), &mut decoded)
        .unwrap();
    assert_eq!(decoded, plain);
    // With the frame itself as reference, planes cannot be shorter.
    let packed = pack(&mut compressor, &packing, &plain, vec![(7, Arc::new(plain.clone()))]);
    assert_eq!((packed.record.filter, &packed.references[..]), (Filter::None.id(), &[7][..]));
    // The codec asked for arrays is that of arrays only.
    let stored = CodecChoice::one(Settings::STORED);
    let packing = Packing { array_choice: stored, ..packing };
    let packed = pack(&mut compressor, &packing, &plain, vec![]);
    assert_eq!(packed.record.filter, Filter::None.id(), "planes that are stored save nothing");
}

#[test]
fn samples_are_residuals_where_that_is_shorter_than_with_references() {
    let noise = random(12, 100_000);
    let wave = |i: usize| (i as f64 / 20.0).sin() * 9000.0;
    let sample = |(i, byte): (usize, &u8)| (wave(i) as i16 + i16::from(*byte)).to_le_bytes();
    let mut plain = b"a header".to_vec();
    plain.extend(noise.iter().enumerate().flat_map(sample));
    plain.extend_from_slice(b"end");
    let shape = SampleShape::new(2, 1, false, Meaning::Signed).unwrap();
    let layout = SampleLayout { shape, head_len: 8, samples_len: 200_000, row_len: 0 };
    let with = Packing { samples: Some(layout), ..packing(Codec::Zstd) };
    let mut scratch = EncoderScratch::default();
    let mut compressor = Compressor::new(&mut scratch);
    let packed = compressor.pack(&with, &plain, Category::Audio, vec![]).unwrap();
    let record = &packed.record;
    assert_eq!((record.filter, record.category), (Filter::Samples.id(), Category::Audio as u64));
    assert!(packed.stored.len() < 110_000, "{}", packed.stored.len());
    let mut decoded = Vec::new();
    let ways = (Codec::from_id(record.codec).unwrap(), Filter::Samples);
    let mut decoder = shale_codec::Decoder::new();
    decoder.decode_filtered(ways, &[], &packed.stored, plain.len(), &mut decoded).unwrap();
    assert_eq!(decoded, plain);
    // With the frame itself as reference, residuals cannot be shorter.
    let references = vec![(7, Arc::new(plain.clone()))];
    let packed = compressor.pack(&with, &plain, Category::Audio, references).unwrap();
    assert_eq!((packed.record.filter, &packed.references[..]), (Filter::None.id(), &[7][..]));
    let choice = CodecChoice::one(Settings::STORED);
    for packing in [Packing { effort: None, ..with }, Packing { choice, ..with }] {
        let packed = compressor.pack(&packing, &plain, Category::Audio, vec![]).unwrap();
        assert_ne!(packed.record.filter, Filter::Samples.id());
    }
}

#[test]
fn nothing_is_stored_longer_than_plain() {
    let mut scratch = EncoderScratch::default();
    let mut compressor = Compressor::new(&mut scratch);
    for codec in [Codec::Stored, Codec::Lz4, Codec::Zstd, Codec::Lzma] {
        for plain in [vec![1u8], random(3, 50), random(4, 5000), vec![0; 5000]] {
            let packed =
                compressor.pack(&packing(codec), &plain, Category::Generic, Vec::new()).unwrap();
            assert!(packed.stored.len() <= plain.len(), "{codec}");
            assert_eq!(packed.record.plain_sum, xxh3_64(&plain));
            assert_eq!(packed.record.stored_sum, xxh3_64(&packed.stored));
        }
    }
}
