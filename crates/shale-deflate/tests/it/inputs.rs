//! The inputs of the vectors, as `tests/vectors.py` makes them.

/// Bytes of a linear congruential generator.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// Words in a random order.
pub fn text(len: usize, seed: u64) -> Vec<u8> {
    const WORDS: [&[u8]; 16] = [
        b"alpha ",
        b"beta ",
        b"gamma ",
        b"delta\n",
        b"the ",
        b"of ",
        b"compression ",
        b"stream ",
        b"0x",
        b"1234567 ",
        b"window ",
        b"a",
        b"e",
        b"zz",
        b"\t",
        b"chain of matches ",
    ];
    let mut out = Vec::new();
    for byte in noise(len, seed) {
        out.extend_from_slice(WORDS[usize::from(byte & 15)]);
        if byte >> 4 == 3 {
            out.push(byte);
        }
    }
    out.truncate(len);
    out
}

/// The input with this name.
pub fn named(name: &str) -> Vec<u8> {
    match name {
        "tiny" => b"hello hello hello".to_vec(),
        "text" => text(300_000, 1),
        "short" => text(3000, 2),
        "noise" => noise(150_000, 3),
        "mix" => [
            text(90_000, 4),
            noise(70_000, 5),
            vec![0; 40_000],
            text(60_000, 4),
            noise(30_000, 6)[..100].repeat(90),
            text(20_000, 9),
        ]
        .concat(),
        _ => panic!("no input has the name {name}"),
    }
}
