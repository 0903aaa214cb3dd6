//! Thrift's compact encoding, as far as DwarFS uses it: a tree of values, bounded by its bytes.

/// Structures within structures; the schema has four.
const DEPTH_MAX: u32 = 16;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Struct(Vec<(i64, Value)>),
}

impl Value {
    /// A field of a structure.
    pub(super) fn field(&self, id: i64) -> Option<&Value> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(at, _)| *at == id).map(|(_, v)| v),
            _ => None,
        }
    }

    /// A number; 0 where there is none, as the encoding leaves out what is usual.
    pub(super) fn int(&self, id: i64) -> i64 {
        match self.field(id) {
            Some(Self::Int(value)) => *value,
            _ => 0,
        }
    }
}

/// Reads one structure; gives what follows it.
pub(super) fn structure(bytes: &[u8]) -> Result<(Value, &[u8]), &'static str> {
    let mut reader = Reader { bytes };
    let value = reader.structure(0)?;
    Ok((value, reader.bytes))
}

/// A number of 7 bits a byte, lowest first.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, &'static str> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or("a number is cut")?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number is longer than 64 bits")
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, &'static str> {
        let (&byte, rest) = self.bytes.split_first().ok_or("a structure is cut")?;
        self.bytes = rest;
        Ok(byte)
    }

    fn zigzag(&mut self) -> Result<i64, &'static str> {
        let value = varint(&mut self.bytes)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A count of things that take at least a byte each.
    fn count(&mut self, count: u64) -> Result<usize, &'static str> {
        let count = usize::try_from(count).map_err(|_| "a count is too large")?;
        if count > self.bytes.len() {
            return Err("a count is larger than what is there");
        }
        Ok(count)
    }

    fn structure(&mut self, depth: u32) -> Result<Value, &'static str> {
        if depth > DEPTH_MAX {
            return Err("structures are too deep");
        }
        let mut fields = Vec::new();
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(Value::Struct(fields));
            }
            id = match head >> 4 {
                0 => self.zigzag()?,
                delta => id.wrapping_add(i64::from(delta)),
            };
            let value = match head & 15 {
                1 => Value::Int(1),
                2 => Value::Int(0),
                kind => self.value(kind, depth)?,
            };
            fields.push((id, value));
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Result<Value, &'static str> {
        Ok(match kind {
            1 | 2 => Value::Int(i64::from(self.byte()? == 1)),
            3 => Value::Int(i64::from(self.byte()?)),
            4..=6 => Value::Int(self.zigzag()?),
            8 => {
                let len = varint(&mut self.bytes)?;
                let len = self.count(len)?;
                let (bytes, rest) = self.bytes.split_at(len);
                self.bytes = rest;
                Value::Bytes(bytes.to_vec())
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => varint(&mut self.bytes)?,
                    count => u64::from(count),
                };
                let count = self.count(count)?;
                let items = (0..count).map(|_| self.value(head & 15, depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            11 => {
                let count = varint(&mut self.bytes)?;
                let count = self.count(count)?;
                if count == 0 {
                    return Ok(Value::Map(Vec::new()));
                }
                let kinds = self.byte()?;
                let mut items = Vec::new();
                for _ in 0..count {
                    let key = self.value(kinds >> 4, depth + 1)?;
                    items.push((key, self.value(kinds & 15, depth + 1)?));
                }
                Value::Map(items)
            }
            12 => self.structure(depth + 1)?,
            _ => return Err("a kind of value is not known"),
        })
    }
}
