//! Promise: the test vectors are what this version reads and writes.
//!
//! `testdata/vectors` has small inputs and results for each step of reading an image, as text that
//! a program in any language can read. They were not made by the product. A change of the product
//! that fails here changes the format.

use shale_codec::merkle::{LeafHasher, tree};
use shale_codec::parity::{ParityDecoder, ParityEncoder};
use shale_codec::signature::{SecretKey, is_signed};
use shale_codec::{Codec, Decoder, Filter, Xxh3, xxh3_64};
use shale_deflate::{Cut, InHand, Model, Task, rebuild};
use shale_format::limits::CHUNK_PROBES_MAX;
use shale_format::merkle::{FAN_OUT, LEAF_LEN};
use shale_format::{MerkleHead, Signature};
use shale_table::{ColumnSpec, Page, Schema};
use shale_tests::second_reader::page::{self as second_page, Column};
use shale_tests::second_reader::{array, lines, model, samples};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A value of a vector file: a word, or what stands in quotes.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Quoted(Vec<u8>),
}

/// The lines of one case, in order: keys and values.
#[derive(Debug, Default)]
struct Case(Vec<(String, Vec<Token>)>);

impl Case {
    fn all(&self, key: &str) -> impl Iterator<Item = &[Token]> {
        self.0.iter().filter(move |(found, _)| found == key).map(|(_, tokens)| &tokens[..])
    }

    fn word(&self, key: &str) -> &str {
        match self.all(key).next() {
            Some([Token::Word(word)]) => word,
            other => panic!("{key} is one word, not {other:?}"),
        }
    }

    /// What the case shows.
    fn name(&self) -> String {
        String::from_utf8_lossy(&self.bytes("name")).into_owned()
    }

    fn number(&self, key: &str) -> u64 {
        self.word(key).parse().unwrap()
    }

    fn bytes(&self, key: &str) -> Vec<u8> {
        bytes(&self.all(key).next().unwrap_or_else(|| panic!("no {key} in {self:?}"))[0])
    }

    /// Of each line with this key the first value.
    fn lines(&self, key: &str) -> Vec<Vec<u8>> {
        self.all(key).map(|tokens| bytes(&tokens[0])).collect()
    }
}

/// Quoted bytes as they are; words are hex.
fn bytes(token: &Token) -> Vec<u8> {
    match token {
        Token::Quoted(bytes) => bytes.clone(),
        Token::Word(hex) => {
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (0..hex.len()).step_by(2).map(byte).collect()
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors")
}

/// The cases of a file; at least `least` of them, so that no test passes on an empty file.
fn cases(name: &str, least: usize) -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    let mut cases = vec![Case::default()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once(" = ") {
            Some((key, values)) => {
                let last = cases.last_mut().unwrap();
                last.0.push((key.to_owned(), tokens(values)));
            }
            None => cases.push(Case::default()),
        }
    }
    cases.retain(|case| !case.0.is_empty());
    assert!(cases.len() >= least, "{name} has {} cases", cases.len());
    cases
}

fn tokens(mut text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    while let Some(first) = text.trim_start().chars().next() {
        text = text.trim_start();
        if first != '"' {
            let end = text.find(' ').unwrap_or(text.len());
            found.push(Token::Word(text[..end].to_owned()));
            text = &text[end..];
            continue;
        }
        let (mut quoted, mut rest) = (Vec::new(), text[1..].bytes());
        loop {
            match rest.next().expect("a closing quote") {
                b'"' => break,
                b'\\' => quoted.push(match rest.next().unwrap() {
                    b'n' => b'\n',
                    b'x' => {
                        let digit = |byte| char::from(byte).to_digit(16).unwrap() as u8;
                        digit(rest.next().unwrap()) << 4 | digit(rest.next().unwrap())
                    }
                    other => other,
                }),
                byte => quoted.push(byte),
            }
        }
        found.push(Token::Quoted(quoted));
        text = &text[text.len() - rest.len()..];
    }
    found
}

/// The input that some vectors describe by its length.
fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(|i| (7 * i + i / 256) as u8).collect()
}

#[test]
fn sums_are_those_of_the_vectors() {
    for case in cases("sums.txt", 6) {
        let input = match case.all("input").next() {
            Some(_) => case.bytes("input"),
            None => pattern(case.number("pattern")),
        };
        assert_eq!(format!("{:016x}", xxh3_64(&input)), case.word("xxh3_64"));
        assert_eq!(shale_codec::hash(&input).to_string(), case.word("blake3"));
        let mut pieces = Xxh3::new();
        input.chunks(17).for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.sum_64(), xxh3_64(&input));
    }
}

#[test]
fn chunks_are_those_of_the_vectors() {
    for case in cases("chunks.txt", 25) {
        let part = |key| if case.all(key).next().is_some() { case.bytes(key) } else { Vec::new() };
        let [window, plain, after] = ["window", "plain", "after"].map(part);
        let (number, carried) = (case.number("model"), case.number("carried"));
        let cut = Cut {
            before: case.number("offset"),
            bits: carried as u8,
            bit_count: (carried >> 8) as u8,
            in_hand: (carried >> 16 & 0xffff > 0).then_some(InHand {
                len: (carried >> 16) as u16,
                distance: (carried >> 32) as u16,
            }),
        };
        let model = Model::from_number(number).unwrap();
        let task = Task { window: &window, plain: &plain, after: &after };
        let rebuilt = rebuild(model, &cut, &task, CHUNK_PROBES_MAX).unwrap();
        assert!(rebuilt == case.bytes("bytes"), "{}", case.name());
        let second = model::rebuild(model::Chunk {
            model: model::Model::of(number).unwrap(),
            carried,
            offset: case.number("offset"),
            data: &[&window[..], &plain, &after].concat(),
            start: window.len(),
            end: (!after.is_empty()).then_some(window.len() + plain.len()),
        });
        assert!(second == Some(rebuilt), "{}: the second reader", case.name());
    }
}

#[test]
fn identities_and_signatures_are_those_of_the_vectors() {
    for case in cases("identity.txt", 3) {
        let covered = pattern(case.number("pattern"));
        let mut hasher = LeafHasher::new(LEAF_LEN as usize);
        hasher.update(&covered);
        let hashes = tree(hasher.finish(), FAN_OUT as usize);
        assert_eq!(hashes.len() as u64, case.number("hash_count"));
        let of_hashes = shale_codec::hash(hashes.as_flattened()).to_string();
        assert_eq!(of_hashes, case.word("hashes_blake3"));

        let bytes = case.bytes("head");
        let payload_len = (bytes.len() + hashes.as_flattened().len()) as u64;
        let head = MerkleHead::decode(&bytes, covered.len() as u64, payload_len).unwrap();
        assert_eq!(head.covered_len, covered.len() as u64);
        assert_eq!(head.tree_root, *hashes.last().unwrap());
        assert_eq!(head.encode()[..], bytes);
        let identity = shale_read::identity_of(&head);
        assert_eq!(identity.to_string(), case.word("identity"));

        let key = SecretKey::new(&case.bytes("seed").try_into().unwrap());
        let message = Signature::message(&identity);
        let signature =
            Signature { public_key: key.public(), identity, signature: key.sign(&message) };
        assert_eq!(signature.encode()[..], case.bytes("signature"));
        assert!(is_signed(&key.public(), &message, &signature.signature));
    }
}

/// What the product reads of a page.
fn columns_of(page: Vec<u8>, kinds: &[bool]) -> Vec<Column> {
    let spec = |is_integers| match is_integers {
        true => ColumnSpec::u64("integers"),
        false => ColumnSpec::bytes("strings"),
    };
    let columns: Vec<ColumnSpec> = kinds.iter().copied().map(spec).collect();
    // Schemas are constants of a program.
    let schema: &'static Schema =
        Box::leak(Box::new(Schema { name: "vector", columns: Vec::leak(columns), shifts: &[] }));
    let page = Page::parse(page, schema).unwrap();
    let rows = 0..page.row_count();
    let column = |(index, &is_integers): (usize, &bool)| match is_integers {
        true => Column::Integers(rows.clone().map(|row| page.u64(index, row).unwrap()).collect()),
        false => Column::Strings(rows.clone().map(|row| page.bytes(index, row).unwrap()).collect()),
    };
    kinds.iter().enumerate().map(column).collect()
}

#[test]
fn pages_are_read_as_the_vectors_say() {
    for case in cases("pages.txt", 18) {
        let kinds = case.all("kinds").next().unwrap();
        let kinds: Vec<bool> =
            kinds.iter().map(|kind| *kind == Token::Word("integers".to_owned())).collect();
        let expected: Vec<Column> = (case.all("column").zip(&kinds))
            .map(|(tokens, is_integers)| match is_integers {
                true => Column::Integers(tokens.iter().map(number).collect()),
                false => Column::Strings(tokens.iter().map(bytes).collect()),
            })
            .collect();
        let page = case.bytes("page");
        let name = String::from_utf8(case.bytes("name")).unwrap();
        assert_eq!(second_page::page(&page, &kinds).as_ref(), Some(&expected), "{name}");
        assert_eq!(columns_of(page, &kinds), expected, "{name}");
    }
}

fn number(token: &Token) -> u64 {
    match token {
        Token::Word(word) => word.parse().unwrap(),
        Token::Quoted(_) => panic!("{token:?} is not a number"),
    }
}

#[test]
fn numbers_in_names_are_those_of_the_vectors() {
    for case in cases("numbers.txt", 9) {
        let form = case.number("form") as u8;
        let digits: Vec<Vec<u8>> = case.all("digits").next().unwrap().iter().map(bytes).collect();
        let numbers: Vec<u64> = case.all("numbers").next().unwrap().iter().map(number).collect();
        assert_eq!(digits.len(), numbers.len());
        // A page of one column: numbered, one template without prefix and suffix, and the numbers
        // packed in 64 bits.
        let mut page = vec![1, 1, numbers.len() as u8, 0x24, 1, 0x20, 0, 0x20, 0, 0x80 + form];
        page.extend([0x80, 0x11, 0, 1, 64]);
        page.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let expected = vec![Column::Strings(digits)];
        assert_eq!(second_page::page(&page, &[false]).as_ref(), Some(&expected), "form {form}");
        assert_eq!(columns_of(page, &[false]), expected, "form {form}");
    }
}

#[test]
fn filters_do_what_the_vectors_say() {
    for case in cases("filters.txt", 12) {
        let filter = Filter::from_name(case.word("filter")).unwrap();
        let name = String::from_utf8(case.bytes("name")).unwrap();
        let (plain, filtered) = (case.bytes("plain"), case.bytes("filtered"));
        let mut found = plain.clone();
        filter.apply(&mut found);
        assert_eq!(found, filtered, "{filter}: {name}");
        filter.reverse(&mut found);
        assert_eq!(found, plain, "{filter}: {name}");
    }
}

#[test]
fn lines_forms_are_read_as_the_vectors_say() {
    for case in cases("lines.txt", 2) {
        let (form, plain) = (case.bytes("form"), case.lines("plain").concat());
        assert_eq!(lines::undo(&form).as_ref(), Some(&plain));
        // The frame says the length of the form, which may not be above that of the plain bytes.
        let (mut stored, mut found) = (vec![form.len() as u8], Vec::new());
        assert!(form.len() < 128);
        stored.extend_from_slice(&form);
        let ways = (Codec::Stored, Filter::Lines);
        let result = Decoder::new().decode_filtered(ways, &[], &stored, plain.len(), &mut found);
        match form.len() <= plain.len() {
            true => assert_eq!(found, plain),
            false => assert!(result.is_err(), "the form is longer than the text"),
        }
    }
}

#[test]
fn arrays_are_what_the_vectors_say() {
    for case in cases("arrays.txt", 6) {
        let (stored, plain) = (case.bytes("stored"), case.bytes("plain"));
        let name = String::from_utf8(case.bytes("name")).unwrap();
        let mut found = Vec::new();
        let ways = (Codec::Stored, Filter::Array);
        Decoder::new().decode_filtered(ways, &[], &stored, plain.len(), &mut found).unwrap();
        assert_eq!(found, plain, "{name}");
        assert_eq!(array::undo(&stored).as_ref(), Some(&plain), "{name}");
    }
}

#[test]
fn samples_are_what_the_vectors_say() {
    for case in cases("samples.txt", 6) {
        let (stored, plain) = (case.bytes("stored"), case.bytes("plain"));
        let name = String::from_utf8(case.bytes("name")).unwrap();
        let mut found = Vec::new();
        let ways = (Codec::Stored, Filter::Samples);
        Decoder::new().decode_filtered(ways, &[], &stored, plain.len(), &mut found).unwrap();
        assert_eq!(found, plain, "{name}");
        let parts = samples::split(&stored).unwrap();
        let (head, tail) = parts.rest.split_at(parts.head_len);
        let undone = [head, &parts.undo().unwrap(), tail].concat();
        assert_eq!(undone, plain, "{name}");
    }
}

#[test]
fn codecs_decode_what_the_vectors_have() {
    for case in cases("codecs.txt", 10) {
        let codec = Codec::from_name(case.word("codec")).unwrap();
        let (prefix, stored) = (case.bytes("prefix"), case.bytes("stored"));
        let plain = case.bytes("plain");
        let mut found = Vec::new();
        let result = Decoder::new().decode(codec, &prefix, &stored, plain.len(), &mut found);
        assert_eq!(result, Ok(()), "{codec}");
        assert_eq!(found, plain, "{codec}");
    }
}

#[test]
fn parity_is_that_of_the_vectors_and_restores() {
    for case in cases("parity.txt", 4) {
        let (data, parity) = (case.lines("data"), case.lines("parity"));
        let len = data[0].len();
        let mut encoder = ParityEncoder::new(data.len(), parity.len(), len).unwrap();
        data.iter().for_each(|shard| encoder.add(shard).unwrap());
        let mut found = Vec::new();
        encoder.finish(|_, shard| found.push(shard.to_vec())).unwrap();
        assert_eq!(found, parity, "{:?}", case.bytes("name"));
        // As much of the data is lost as there is parity.
        let mut decoder = ParityDecoder::new(data.len(), parity.len(), len).unwrap();
        for (index, shard) in data.iter().enumerate().skip(parity.len()) {
            decoder.add_data(index, shard).unwrap();
        }
        for (index, shard) in parity.iter().enumerate().take(data.len()) {
            decoder.add_parity(index, shard).unwrap();
        }
        let mut restored = 0;
        let put = |index: usize, shard: &[u8]| {
            assert_eq!(shard, data[index]);
            restored += 1;
        };
        decoder.finish(put).unwrap();
        assert_eq!(restored, data.len().min(parity.len()));
    }
}

#[test]
fn a_program_in_another_language_agrees_with_the_vectors() {
    let output = Command::new("python3").arg(folder().join("check.py")).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    for name in [
        "pages.txt",
        "numbers.txt",
        "filters.txt",
        "lines.txt",
        "arrays.txt",
        "samples.txt",
        "parity.txt",
    ] {
        assert!(stdout.contains(&format!("{name}: ")), "{name} was not checked: {stdout}");
    }
}
