//! Frozen structures: every field as many bits as its largest value needs, at offsets that a schema
//! says.
//!
//! A position is a byte and a number of bits from there; offsets of lists count from the byte.
//! Whatever leads out of the bytes reads as an error, and what the schema does not have reads as
//! zero or empty, as the format wants it.

use std::collections::HashMap;
use std::sync::Arc;

use super::thrift::Value;

/// Layouts by number.
#[derive(Debug, Default)]
pub(super) struct Schema {
    layouts: HashMap<i64, Layout>,
    root: i64,
}

#[derive(Debug, Default)]
struct Layout {
    /// Bytes of an item in a list; 0 for items packed by bits.
    len: u64,
    bits: u64,
    /// Number of the layout and offset: bytes from 0 on, bits below.
    fields: HashMap<i64, (i64, i64)>,
}

impl Schema {
    /// The schema of a decoded structure.
    pub(super) fn read(value: &Value) -> Result<Self, &'static str> {
        let Some(Value::Map(layouts)) = value.field(2) else { return Err("it has no layouts") };
        let mut schema = Self { root: value.int(3), layouts: HashMap::new() };
        for (id, layout) in layouts {
            let Value::Int(id) = id else { return Err("a layout has no number") };
            let mut read = Layout {
                len: u64::try_from(layout.int(1)).map_err(|_| "a layout of less than nothing")?,
                bits: u64::try_from(layout.int(2)).map_err(|_| "a layout of less than nothing")?,
                fields: HashMap::new(),
            };
            if let Some(Value::Map(fields)) = layout.field(3) {
                for (id, field) in fields {
                    let Value::Int(id) = id else { return Err("a field has no number") };
                    read.fields.insert(*id, (field.int(1), field.int(2)));
                }
            }
            schema.layouts.insert(*id, read);
        }
        Ok(schema)
    }
}

/// The bytes and their schema.
#[derive(Debug)]
pub(super) struct Frozen {
    pub(super) schema: Schema,
    pub(super) bytes: Vec<u8>,
}

/// A structure, list or number in the bytes.
#[derive(Debug, Clone)]
pub(super) struct View {
    frozen: Arc<Frozen>,
    /// None for what the schema does not have.
    layout: Option<i64>,
    byte: u64,
    bit: u64,
}

const OUT: &str = "the metadata lead out of their section";
const IDS: [i64; 3] = [1, 2, 3];

impl View {
    /// The root of the metadata.
    pub(super) fn root(frozen: Arc<Frozen>) -> Self {
        let layout = Some(frozen.schema.root);
        Self { frozen, layout, byte: 0, bit: 0 }
    }

    fn layout(&self) -> Option<&Layout> {
        self.frozen.schema.layouts.get(&self.layout?)
    }

    /// A field of a structure.
    pub(super) fn field(&self, id: i64) -> Self {
        let found = self.layout().and_then(|layout| layout.fields.get(&id)).copied();
        let (layout, offset) = found.map_or((None, 0), |(layout, offset)| (Some(layout), offset));
        let mut view = Self { layout, ..self.clone() };
        match offset {
            0.. => view.byte = view.byte.saturating_add(offset as u64),
            _ => view.bit = view.bit.saturating_add(offset.unsigned_abs()),
        }
        view
    }

    /// A number.
    pub(super) fn int(&self) -> Result<u64, &'static str> {
        let Some(layout) = self.layout() else { return Ok(0) };
        let bits = layout.bits.max(layout.len.saturating_mul(8));
        if bits > 64 {
            return Err("a number of the metadata has more than 64 bits");
        }
        let start = self.byte.checked_mul(8).and_then(|at| at.checked_add(self.bit)).ok_or(OUT)?;
        bits_at(&self.frozen.bytes, start, bits)
    }

    /// What an optional field holds.
    pub(super) fn optional(&self) -> Result<Option<Self>, &'static str> {
        Ok(match self.field(1).int()? {
            0 => None,
            _ => Some(self.field(2)),
        })
    }

    /// Items of a list.
    pub(super) fn count(&self) -> Result<u64, &'static str> {
        let count = self.field(IDS[1]).int()?;
        // Items may have no bits; still nobody has more than that many.
        if count > u64::from(u32::MAX) {
            return Err("a list of the metadata is longer than 2^32");
        }
        Ok(count)
    }

    /// An item of a list; only asked for below its count.
    pub(super) fn item(&self, index: u64) -> Result<Self, &'static str> {
        let distance = self.field(IDS[0]).int()?;
        let byte = self.byte.checked_add(distance).ok_or(OUT)?;
        let layout = self.layout().and_then(|layout| layout.fields.get(&IDS[2]));
        let layout = layout.map(|(layout, _)| *layout);
        let mut view = Self { frozen: Arc::clone(&self.frozen), layout, byte, bit: 0 };
        let (len, bits) = view.layout().map_or((0, 0), |layout| (layout.len, layout.bits));
        match len {
            0 => view.bit = bits.checked_mul(index).ok_or(OUT)?,
            len => {
                let offset = len.checked_mul(index).ok_or(OUT)?;
                view.byte = byte.checked_add(offset).ok_or(OUT)?;
            }
        }
        Ok(view)
    }

    /// All numbers of a list.
    pub(super) fn ints(&self) -> Result<Vec<u64>, &'static str> {
        (0..self.checked_count()?).map(|index| self.item(index)?.int()).collect()
    }

    /// A count that is not more than a thousand times what the bytes could hold: lists whose items
    /// are all the same take no bits, but are bounded by lists that do.
    pub(super) fn checked_count(&self) -> Result<u64, &'static str> {
        let count = self.count()?;
        let max = (self.frozen.bytes.len() as u64).saturating_mul(1024);
        if count > max { Err("a list of the metadata is longer than it can be") } else { Ok(count) }
    }

    /// A string.
    pub(super) fn bytes(&self) -> Result<&[u8], &'static str> {
        let start = self.byte.checked_add(self.field(IDS[0]).int()?).ok_or(OUT)?;
        let end = start.checked_add(self.field(IDS[1]).int()?).ok_or(OUT)?;
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        range.and_then(|(start, end)| self.frozen.bytes.get(start..end)).ok_or(OUT)
    }
}

fn bits_at(bytes: &[u8], start: u64, bits: u64) -> Result<u64, &'static str> {
    if bits == 0 {
        return Ok(0);
    }
    let (first, shift) = (usize::try_from(start / 8).map_err(|_| OUT)?, start % 8);
    let len = (shift + bits).div_ceil(8) as usize;
    let field = first.checked_add(len).and_then(|end| bytes.get(first..end)).ok_or(OUT)?;
    let value = field.iter().rev().fold(0u128, |value, &byte| value << 8 | u128::from(byte));
    Ok((value >> shift & ((1 << bits) - 1)) as u64)
}

#[cfg(test)]
mod tests {
    use super::bits_at;

    #[test]
    fn bits_are_read_from_the_lowest_on() {
        // The example of the format's description: a count of 5 bits, a distance of 6.
        let bytes = [0x91, 0xac];
        assert_eq!(bits_at(&bytes, 0, 5), Ok(17));
        assert_eq!(bits_at(&bytes, 5, 6), Ok(36));
        assert_eq!(bits_at(&bytes, 12, 0), Ok(0));
        assert!(bits_at(&bytes, 12, 5).is_err());
        assert_eq!(bits_at(&[0xff; 9], 7, 64), Ok(u64::MAX));
    }
}
