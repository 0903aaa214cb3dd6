//! A small seeded generator of numbers and bytes: SplitMix64 (Steele, Lea, Flood 2014).
//!
//! The same seed gives the same sequence on every machine and for ever, as golden inputs depend on
//! it. Not for secrets.

/// The generator.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator that depends on `seed` only.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// `len` bytes that do not compress.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// `len` bytes of words in lines, as compressible as prose.
    pub fn text(&mut self, len: usize) -> Vec<u8> {
        const WORDS: [&str; 24] = [
            "the", "slate", "lies", "in", "thin", "layers", "and", "each", "layer", "keeps",
            "what", "fell", "upon", "it", "until", "water", "or", "frost", "parts", "them",
            "again", "of", "stone", "below",
        ];
        let mut text = Vec::with_capacity(len + 16);
        let mut column = 0;
        while text.len() < len {
            let word = WORDS[self.below(WORDS.len() as u64) as usize];
            text.extend_from_slice(word.as_bytes());
            column += word.len() + 1;
            text.push(if column > 72 { b'\n' } else { b' ' });
            column *= usize::from(column <= 72);
        }
        text.truncate(len);
        text
    }

    /// `len` bytes of lines that resemble each other, as programs log what they do.
    pub fn log(&mut self, len: usize) -> Vec<u8> {
        const STATES: [&str; 4] = ["ok", "ok", "slow", "failed: no route to host"];
        let (mut millis, mut job, mut log) = (self.below(80_000_000), 7, String::new());
        while log.len() < len {
            millis += self.below(3000);
            let (second, milli) = (millis / 1000, millis % 1000);
            let (hour, minute, second) = (second / 3600 % 24, second / 60 % 60, second % 60);
            let (worker, state) = (self.below(8), STATES[self.below(4) as usize]);
            log += &format!("2024-02-29T{hour:02}:{minute:02}:{second:02}.{milli:03}Z ");
            if self.below(3) == 0 {
                let free = 40_000 + self.below(100);
                log += &format!("pool[{worker}]: {free} blocks free, id {:016x}\n", self.number());
            } else {
                job += 1;
                log +=
                    &format!("worker {worker} job={job} took {} us: {state}\n", self.below(2000));
            }
        }
        log.truncate(len);
        log.into_bytes()
    }

    /// `len` bytes of numbers that walk: pixels, or elements of 2, 4 or 8 bytes of either byte
    /// order; `kind` says which.
    pub fn array(&mut self, kind: u64, len: usize) -> Vec<u8> {
        let (mut array, mut values) = (Vec::with_capacity(len + 24), [90u64, 120, 60]);
        while array.len() < len {
            for value in &mut values {
                *value = value.wrapping_add(self.below(5)).wrapping_sub(2);
            }
            let value = values[0].wrapping_mul(3 * 256 + 1);
            match kind % 6 {
                0 => array.extend(values.map(|value| value as u8)),
                1 => array.extend((value as u16).to_le_bytes()),
                2 => array.extend((value as u16).to_be_bytes()),
                3 => array.extend((value as u32).wrapping_mul(99).to_le_bytes()),
                4 => array.extend(value.wrapping_mul(0x1_0001).to_be_bytes()),
                _ => array.extend(values.iter().flat_map(|&v| (v as f32 / 7.0).to_le_bytes())),
            }
        }
        array.truncate(len);
        array
    }

    /// `len` bytes in which the filters of machine code find all they look for: calls and jumps of
    /// x86, near and far and overlapping, and calls and page addresses of both kinds of ARM.
    pub fn code(&mut self, len: usize) -> Vec<u8> {
        let mut code = Vec::with_capacity(len + 16);
        while code.len() < len {
            let number = self.number();
            let near = (number >> 32) as u32 % 0x4000;
            match number % 8 {
                0 => code.push(0xe8),
                1 => code.extend([&[0xe8][..], &near.to_le_bytes()].concat()),
                2 => code.extend([&[0xe9][..], &near.wrapping_neg().to_le_bytes()].concat()),
                3 => code.extend([&[0x0f, 0x84][..], &near.to_le_bytes()].concat()),
                4 => code.extend([0x55, 0x48, 0x89, 0xe5]),
                kind => {
                    code.resize(code.len().next_multiple_of(4), 0x90);
                    let page = 0x9000_0000 | (near & 3) << 29 | (near >> 2 & 0xfff) << 5;
                    let word = [0x9400_0000 | near, page, 0xeb00_0000 | near][kind as usize - 5];
                    code.extend(word.to_le_bytes());
                }
            }
        }
        code.truncate(len);
        code
    }

    /// Puts `items` into another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_never_changes() {
        // First values for seed 0 of the published generator.
        let mut random = Random::new(0);
        assert_eq!(random.number(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.number(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(Random::new(7).text(40).len(), 40);
        assert_eq!(Random::new(7).log(40).len(), 40);
        assert_eq!(Random::new(7).bytes(13).len(), 13);
        assert_eq!(Random::new(7).code(41).len(), 41);
    }
}
