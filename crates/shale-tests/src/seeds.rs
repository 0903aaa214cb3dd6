//! Seeds of the fuzz targets: valid inputs, from which a search starts.

use crate::random::Random;
use shale_codec::{
    ArrayShape, Codec, Difference, Effort, Encoder, Filter, Meaning, SampleLayout, SampleShape,
    Settings, Shuffle, array_form, lines_form, samples_form,
};
use shale_deflate::{Chunk, Cut, InHand, Limits, Model, Strategy, Task, analyze, rebuild};
use shale_format::schema;
use shale_table::{
    Earlier, PageRef, PageRows, PageSink, Schema, TableBuilder, TableError, Value, patch,
};

/// Keeps the pages that a builder makes.
struct Pages(Vec<Vec<u8>>);

impl PageSink for Pages {
    type Error = TableError;

    fn put(&mut self, plain: &[u8]) -> Result<PageRef, TableError> {
        self.0.push(plain.to_vec());
        Ok(PageRef { offset: self.0.len() as u64, ..PageRef::default() })
    }
}

/// Inputs of [`crate::fuzz::manifest_lines`]: types of entries, escapes, numbers at their ends.
pub fn manifests() -> Vec<Vec<u8>> {
    let text = "d 755 0 0 1700000000 - .\nf#12 644 4294967295 = -0.25 @a\\x20b a b/c\nx user.a v\\n\n\
                l 777 = = 9223372036854775807.999999999 ../\\\\t l\nc 600 0 5 = 4:64 tty\n\
                b = = = = 4294967295:0 b\np 0 0 0 0 - p\ns 7777 0 0 -1 - s\nf 0 0 0 0 9223372036854775807 f";
    std::iter::once(text.as_bytes().to_vec())
        .chain(text.split('\n').map(|line| line.as_bytes().to_vec()))
        .collect()
}

/// Inputs of [`crate::fuzz::signature`]: a right one, and one that is not.
pub fn signatures() -> Vec<Vec<u8>> {
    let key = shale_codec::signature::SecretKey::new(&[3; 32]);
    let identity = shale_format::Identity([9; 32]);
    let right = key.sign(&shale_format::Signature::message(&identity));
    [right, [1; 64]]
        .map(|signature| {
            let signature =
                shale_format::Signature { public_key: key.public(), identity, signature };
            signature.encode().to_vec()
        })
        .to_vec()
}

/// Inputs of [`crate::fuzz::append_index`]: indexes that know too little and too much.
pub fn append_indexes() -> Vec<Vec<u8>> {
    let mut indexes = Vec::new();
    for (thin_log2, first, frame_count) in [(0, 0, 8), (3, 0, 2), (0, 5, 3), (20, 1 << 40, 4)] {
        let mut index = shale_format::AppendIndex::new(thin_log2, first);
        for frame in 0..frame_count {
            let prints = Random::new(frame).bytes(8 * 40);
            let prints = prints.as_chunks::<8>().0.iter().map(|print| u64::from_le_bytes(*print));
            index.push(&prints.collect::<Vec<_>>());
        }
        indexes.push(index.encode());
        // Tags of a few contents: all wrong but by chance.
        index.set_tags(first, vec![frame_count as u16; 40]);
        indexes.push(index.encode());
    }
    indexes
}

/// Inputs of [`crate::fuzz::build_then_read`]: choices of trees.
pub fn trees() -> Vec<Vec<u8>> {
    (0..8).map(|seed| Random::new(seed).bytes(40 << (seed % 4))).collect()
}

/// Inputs of [`crate::fuzz::damage_then_read`]: choices of damages, of images without parity and
/// with some.
pub fn damages() -> Vec<Vec<u8>> {
    (0..12u8)
        .map(|seed| {
            let mut bytes = Random::new(seed.into()).bytes(1 + 5 * (1 + usize::from(seed % 3)));
            bytes[0] = seed;
            bytes
        })
        .collect()
}

/// Inputs of [`crate::fuzz::table_page`]: the byte of the schema, then a page. Between them they
/// use every codec that a builder chooses.
pub fn pages() -> Vec<Vec<u8>> {
    let mut random = Random::new(1);
    let mut seeds = Vec::new();
    for (number, schema) in crate::fuzz::SCHEMAS.into_iter().enumerate() {
        if std::ptr::eq(schema, &shale_table::INDEX_SCHEMA) {
            // Index pages are what the builder of a long table makes last.
            let pages = table(&schema::extents::SCHEMA, 3000, 0, 16, &mut random);
            seeds.extend(pages.last().map(|page| seed(number, page)));
            continue;
        }
        for style in 0..6 {
            let pages = table(schema, 300, style, 4096, &mut random);
            seeds.extend(pages.first().map(|page| seed(number, page)));
        }
    }
    seeds
}

/// Inputs of [`crate::fuzz::page_patch`]: a page, and patches that make another one of its schema
/// of it, or a part of it.
pub fn patches() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for pair in pages().windows(2) {
        let schema = crate::fuzz::SCHEMAS[usize::from(pair[0][0])];
        if std::ptr::eq(schema, &shale_table::INDEX_SCHEMA) || pair[0][0] != pair[1][0] {
            continue;
        }
        let rows = |page: &[u8]| PageRows::from_plain(schema, page[1..].to_vec()).expect("a page");
        let earlier = Earlier::new(pair[0][1..].to_vec()).expect("a page");
        let (start, rest) = rows(&pair[0]).split(100);
        let Ok(len) = u16::try_from(pair[0].len()) else { continue };
        for new in [rows(&pair[1]), start, rest] {
            let aligned = earlier.align(&new).expect("pages of one schema");
            let patch = patch(&earlier, &new, &aligned);
            seeds.push([&len.to_le_bytes()[..], &pair[0], &patch].concat());
        }
    }
    seeds
}

fn seed(schema: usize, page: &[u8]) -> Vec<u8> {
    [&[schema as u8], page].concat()
}

fn table(
    schema: &'static Schema,
    rows: u64,
    style: u64,
    page_rows: usize,
    random: &mut Random,
) -> Vec<Vec<u8>> {
    let mut pages = Pages(Vec::new());
    let mut builder = TableBuilder::new(schema).with_page_rows(page_rows);
    for row in 0..rows {
        let numbers: Vec<u64> = (0..schema.columns.len() as u64)
            .map(|column| match (style + column) % 6 {
                0 => 7,
                1 => 1000 + row * 3,
                2 => random.below(300),
                3 => row / 40 * 1_000_000,
                4 => row * row + random.below(9),
                _ => [3, 1 << 40, u64::MAX][random.below(3) as usize],
            })
            .collect();
        let strings: Vec<Vec<u8>> = numbers
            .iter()
            .map(|number| match style % 4 {
                0 => format!("file-{row:04}.txt").into_bytes(),
                1 => format!("{number:020}/same end").into_bytes(),
                2 => ["one", "two", "three"][(number % 3) as usize].as_bytes().to_vec(),
                _ => Random::new(*number).bytes((number % 23) as usize),
            })
            .collect();
        let values: Vec<Value<'_>> = schema
            .columns
            .iter()
            .enumerate()
            .map(|(column, spec)| match spec.kind {
                shale_table::ColumnKind::U64 => Value::U64(numbers[column]),
                shale_table::ColumnKind::Bytes => Value::Bytes(&strings[column]),
            })
            .collect();
        builder.push(&values, &mut pages).expect("the rows are within the limits");
    }
    builder.finish(&mut pages).expect("the table is within the limits");
    pages.0
}

/// Inputs of [`crate::fuzz::frame_decode`]: codec and filter, length of the prefix, length of the
/// plain bytes, prefix, stored bytes.
pub fn frames() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for codec in Codec::ALL {
        let Ok(settings) = Settings::new(codec, 3).or_else(|_| Settings::new(codec, 0)) else {
            continue;
        };
        for (prefix_len, plain_len) in [(0, 1), (0, 2000), (200, 1500), (255, 40_000)] {
            let plain = Random::new(plain_len as u64).text(plain_len);
            let prefix = &plain[..prefix_len.min(plain_len)];
            let mut stored = Vec::new();
            let mut encoder = Encoder::new(settings).expect("the settings are valid");
            encoder.encode(prefix, &plain, &mut stored).expect("text can be encoded");
            let [low, high] = (plain_len as u16).to_le_bytes();
            let mut seed = vec![codec.id(), prefix.len() as u8, low, high];
            seed.extend_from_slice(prefix);
            seed.extend_from_slice(&stored);
            // The seed must be one: it decodes.
            let mut out = Vec::new();
            let decoded =
                shale_codec::Decoder::new().decode(codec, prefix, &stored, plain_len, &mut out);
            assert!(decoded.is_ok() && out == plain, "{codec} seed of {plain_len} bytes");
            seeds.push(seed);
        }
        for plain_len in [4000, 30_000] {
            let plain = Random::new(plain_len as u64).log(plain_len);
            let form = lines_form(&plain).expect("a log has a lines form");
            let mut encoder = Encoder::new(settings).expect("the settings are valid");
            let [low, high] = (plain_len as u16).to_le_bytes();
            let mut seed = vec![Filter::Lines.id() * 8 + codec.id(), 0, low, high];
            encoder.encode_form(&form, &mut seed).expect("a form can be encoded");
            seeds.push(seed);
            let plain = Random::new(plain_len as u64).array(plain_len as u64 / 1000, plain_len);
            let (difference, shuffle) = (Difference::Little, Shuffle::Bits);
            let shape = ArrayShape::new(2, 3, difference, shuffle).expect("the shape is defined");
            let mut form = Vec::new();
            array_form(shape, &plain, &mut form);
            let mut seed = vec![Filter::Array.id() * 8 + codec.id(), 0, low, high];
            encoder.encode_array(shape, &form, &mut seed).expect("a form can be encoded");
            seeds.push(seed);
            let shape = SampleShape::new(2, 3, true, Meaning::Signed).expect("it is defined");
            let layout = SampleLayout { shape, head_len: 5, samples_len: plain_len, row_len: 60 };
            let form = samples_form(layout, Effort::FAST, &plain).expect("there are samples");
            let mut seed = vec![Filter::Samples.id() * 8 + codec.id(), 0, low, high];
            encoder.encode_samples(&form, &mut seed).expect("a form can be encoded");
            seeds.push(seed);
        }
    }
    seeds
}

/// Streams of all encoders, short and long, with the number of their model.
fn streams() -> Vec<(Model, Vec<u8>, Vec<u8>)> {
    let text = |seed, len| Random::new(seed).log(len);
    let models = [
        Model::zlib(6, 8),
        Model::zlib(1, 1),
        Model::zlib(9, 1),
        Model { strategy: Strategy::Rle, ..Model::zlib(6, 1) },
        Model { strategy: Strategy::Filtered, window_bits: 9, ..Model::zlib(4, 1) },
        Model::gzip(9),
        Model::chromium(6, 1),
    ];
    let make = |(index, model): (usize, Model)| {
        let plain = text(index as u64, 700 + 400 * index);
        let task = Task { window: &[], plain: &plain, after: &[] };
        let stream = rebuild(model, &Cut::default(), &task, u64::MAX).expect("it is a model");
        (model, plain, stream)
    };
    models.into_iter().enumerate().map(make).collect()
}

/// Inputs of [`crate::fuzz::deflate_stream`].
pub fn deflate_streams() -> Vec<Vec<u8>> {
    streams().into_iter().map(|(_, _, stream)| stream).collect()
}

/// Inputs of [`crate::fuzz::chunk_rebuild`]: whole streams, and chunks of short blocks.
pub fn chunks() -> Vec<Vec<u8>> {
    let limits = Limits { chunk_plain_min: 200, ..Limits::default() };
    let mut seeds = Vec::new();
    for (model, plain, stream) in streams() {
        let whole = Chunk { cut: Cut::default(), plain: 0..plain.len(), stream: 0..stream.len() };
        let found = analyze(&stream, None, &limits);
        let chunks = found.map_or_else(|_| vec![whole], |found| found.chunks);
        for Chunk { cut, plain: range, .. } in chunks.into_iter().take(3) {
            let hand = cut.in_hand.unwrap_or(InHand { len: 0, distance: 0 });
            let mut seed = model.number().to_le_bytes()[..3].to_vec();
            seed.extend((range.start as u16).to_le_bytes());
            seed.extend((range.len() as u16).to_le_bytes());
            seed.push(hand.len as u8);
            seed.extend(hand.distance.to_le_bytes());
            seed.extend([cut.bits, cut.bit_count, 0, 0, 0, 0]);
            seed.extend_from_slice(&plain);
            seeds.push(seed);
        }
    }
    seeds
}

/// Inputs of [`crate::fuzz::take_apart`]: a level, and a container of each kind.
pub fn containers() -> Vec<Vec<u8>> {
    let streams = deflate_streams();
    let sum = [7; 8];
    let zlib = |stream: &[u8]| [b"\x78\x9c", stream, &sum[..4]].concat();
    let member = |stream: &[u8]| [b"\x1f\x8b\x08\0\0\0\0\0\0\x03", stream, &sum].concat();
    let members: Vec<u8> = streams.iter().flat_map(|stream| member(stream)).collect();
    let mut pack = [&b"PACK\0\0\0\x02"[..], &(streams.len() as u32).to_be_bytes()].concat();
    let mut document = b"%PDF-1.5\n".to_vec();
    for stream in &streams {
        pack.push(0x35);
        pack.extend(zlib(stream));
        document.extend_from_slice(b"1 0 obj <</Filter/FlateDecode>>\nstream\n");
        document.extend(zlib(stream));
        document.extend_from_slice(b"\nendstream endobj\n");
    }
    // A stream of a container: as zlib would write it, two layers deep.
    let around = |plain: &[u8]| {
        let task = Task { window: &[], plain, after: &[] };
        let model = Model::zlib(6, 8);
        member(&rebuild(model, &Cut::default(), &task, u64::MAX).expect("it is a model"))
    };
    let zips = crate::importers::zips();
    let nested = around(&zips[0]);
    let twice = around(&nested);
    let mut all =
        vec![member(&streams[0]), members, zlib(&streams[2]), pack, document, nested, twice];
    all.extend(zips);
    all.extend(crate::importers::tars().into_iter().take(2));
    all.into_iter().enumerate().map(|(n, file)| [&[n as u8 % 3][..], &file].concat()).collect()
}
