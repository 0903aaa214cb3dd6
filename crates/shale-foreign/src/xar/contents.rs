//! What the table of contents of a xar archive says: files in directories, where their bytes are
//! in the heap, and their sums.

use super::xml::{Event, Xml};
use crate::base64;

/// Bytes in the heap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) offset: u64,
    /// Stored bytes, and plain ones.
    pub(super) stored_len: u64,
    pub(super) plain_len: u64,
    /// How they are compressed, as a media type.
    pub(super) encoding: Vec<u8>,
    /// Kinds and values of the sums of the plain and of the stored bytes.
    pub(super) plain_sum: Sum,
    pub(super) stored_sum: Sum,
}

/// The name of a digest, and its value in hexadecimal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) style: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// An extended attribute.
#[derive(Debug, Clone, Default)]
pub(super) struct Attribute {
    pub(super) name: Vec<u8>,
    pub(super) data: Data,
}

/// A file in the table.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    /// The number of the directory that it is in.
    pub(super) parent: Option<usize>,
    pub(super) id: Vec<u8>,
    pub(super) name: Vec<u8>,
    /// The name is written in base64, as it is not UTF-8.
    is_base64: bool,
    pub(super) kind: Vec<u8>,
    /// For hard links, `original` or the ID of the original.
    pub(super) link: Vec<u8>,
    pub(super) target: Vec<u8>,
    pub(super) mode: Option<u32>,
    pub(super) owner: (u32, u32),
    pub(super) times: [Vec<u8>; 3],
    pub(super) device: (u32, u32),
    pub(super) data: Option<Data>,
    pub(super) attributes: Vec<Attribute>,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The sum of the table itself in the heap: where it is, and its kind.
    pub(super) sum: Option<(Vec<u8>, u64, u64)>,
    pub(super) files: Vec<File>,
}

/// An element that has begun, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Element {
    Root,
    Toc,
    /// The sum of the table.
    TocSum,
    /// With its number.
    File(usize),
    Data,
    Attribute,
    Device,
    /// One whose text is taken: its number in [`FIELDS`].
    Field(usize),
    Other,
}

/// Elements whose text is a value.
const FIELDS: [&[u8]; 18] = [
    b"name",
    b"type",
    b"link",
    b"mode",
    b"uid",
    b"gid",
    b"mtime",
    b"atime",
    b"ctime",
    b"offset",
    b"length",
    b"size",
    b"encoding",
    b"extracted-checksum",
    b"archived-checksum",
    b"major",
    b"minor",
    b"unarchived-checksum",
];

/// Reads the table.
///
/// # Errors
/// Says what is wrong with it.
pub(super) fn read(document: &[u8]) -> Result<Contents, String> {
    let mut xml = Xml::new(document);
    let mut contents = Contents::default();
    let mut open: Vec<Element> = Vec::new();
    // The file that the element at hand belongs to is the last one in `within`.
    let mut within: Vec<usize> = Vec::new();
    let mut text = Vec::new();
    while let Some(event) = xml.next()? {
        match event {
            Event::Start(name, attributes) => {
                text.clear();
                let attribute = |key: &[u8]| {
                    let found = attributes.iter().find(|(name, _)| *name == key);
                    found.map(|(_, value)| value.clone()).unwrap_or_default()
                };
                let element = match (open.last(), name) {
                    (None, b"xar") => Element::Root,
                    (Some(Element::Root), b"toc") => Element::Toc,
                    (Some(Element::Toc), b"checksum") => {
                        contents.sum = Some((attribute(b"style"), 0, 0));
                        Element::TocSum
                    }
                    (Some(Element::Toc | Element::File(_)), b"file") => {
                        let number = contents.files.len();
                        let parent = within.last().copied();
                        let id = attribute(b"id");
                        contents.files.push(File { parent, id, ..File::default() });
                        within.push(number);
                        Element::File(number)
                    }
                    (Some(Element::File(number)), b"data") => {
                        let file = &mut contents.files[*number];
                        if file.data.replace(Data::default()).is_some() {
                            return Err("a file with two contents: corrupt".to_owned());
                        }
                        Element::Data
                    }
                    (Some(Element::File(number)), b"ea") => {
                        contents.files[*number].attributes.push(Attribute::default());
                        Element::Attribute
                    }
                    (Some(Element::File(_)), b"device") => Element::Device,
                    (
                        Some(
                            Element::File(_)
                            | Element::Data
                            | Element::Attribute
                            | Element::Device
                            | Element::TocSum,
                        ),
                        name,
                    ) => match FIELDS.iter().position(|field| *field == name) {
                        Some(field) => Element::Field(field),
                        None => Element::Other,
                    },
                    _ => Element::Other,
                };
                if let (Element::Field(field), Some(number)) = (element, within.last()) {
                    let file = &mut contents.files[*number];
                    match (open.last(), FIELDS[field]) {
                        (Some(Element::File(_)), b"type") => file.link = attribute(b"link"),
                        (Some(Element::File(_)), b"name") => {
                            file.is_base64 = attribute(b"enctype") == b"base64";
                        }
                        (Some(Element::Data | Element::Attribute), b"encoding") => {
                            if let Some(data) = data_of(file, open.last()) {
                                data.encoding = attribute(b"style");
                            }
                        }
                        (Some(Element::Data | Element::Attribute), field) => {
                            if let Some(sum) =
                                data_of(file, open.last()).and_then(|data| sum_of(data, field))
                            {
                                sum.style = attribute(b"style");
                            }
                        }
                        _ => {}
                    }
                }
                open.push(element);
            }
            Event::Text(part) => {
                if matches!(open.last(), Some(Element::Field(_))) {
                    text.extend_from_slice(&part);
                }
            }
            Event::End => match open.pop() {
                Some(Element::File(_)) => {
                    within.pop();
                }
                Some(Element::Field(field)) => {
                    let value = std::mem::take(&mut text);
                    let (parent, field) = (open.last().copied(), FIELDS[field]);
                    if let Some(Element::TocSum) = parent {
                        if let Some((_, offset, len)) = &mut contents.sum {
                            match field {
                                b"offset" => *offset = number(&value)?,
                                b"size" => *len = number(&value)?,
                                _ => {}
                            }
                        }
                    } else if let Some(&file) = within.last() {
                        set(&mut contents.files[file], parent, field, value)?;
                    }
                }
                _ => {}
            },
        }
    }
    Ok(contents)
}

fn data_of<'f>(file: &'f mut File, parent: Option<&Element>) -> Option<&'f mut Data> {
    match parent {
        Some(Element::Data) => file.data.as_mut(),
        Some(Element::Attribute) => file.attributes.last_mut().map(|attribute| &mut attribute.data),
        _ => None,
    }
}

fn sum_of<'d>(data: &'d mut Data, field: &[u8]) -> Option<&'d mut Sum> {
    match field {
        b"extracted-checksum" | b"unarchived-checksum" => Some(&mut data.plain_sum),
        b"archived-checksum" => Some(&mut data.stored_sum),
        _ => None,
    }
}

fn set(
    file: &mut File,
    parent: Option<Element>,
    field: &[u8],
    value: Vec<u8>,
) -> Result<(), String> {
    match parent {
        Some(Element::File(_)) => match field {
            b"name" if file.is_base64 => {
                file.name =
                    base64::decode(&value).ok_or("a name that is no valid base64: corrupt")?;
            }
            b"name" => file.name = value,
            b"type" => file.kind = value.trim_ascii().to_vec(),
            b"link" => file.target = value,
            b"mode" => {
                let digits = std::str::from_utf8(value.trim_ascii()).ok();
                let mode = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
                file.mode = Some(mode.ok_or("a mode that is no number: corrupt")?);
            }
            b"uid" => file.owner.0 = number_32(&value)?,
            b"gid" => file.owner.1 = number_32(&value)?,
            b"mtime" => file.times[0] = value,
            b"atime" => file.times[1] = value,
            b"ctime" => file.times[2] = value,
            _ => {}
        },
        Some(Element::Device) => match field {
            b"major" => file.device.0 = number_32(&value)?,
            b"minor" => file.device.1 = number_32(&value)?,
            _ => {}
        },
        Some(Element::Attribute) if field == b"name" => {
            if let Some(attribute) = file.attributes.last_mut() {
                attribute.name = value;
            }
        }
        Some(Element::Data | Element::Attribute) => {
            let Some(data) = data_of(file, parent.as_ref()) else { return Ok(()) };
            match field {
                b"offset" => data.offset = number(&value)?,
                // The length in the heap; the size is that of the plain bytes.
                b"length" => data.stored_len = number(&value)?,
                b"size" => data.plain_len = number(&value)?,
                field => {
                    if let Some(sum) = sum_of(data, field) {
                        sum.value = value.trim_ascii().to_ascii_lowercase();
                    }
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn number(text: &[u8]) -> Result<u64, String> {
    let digits = std::str::from_utf8(text.trim_ascii()).ok();
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| "a number in its table of contents is none: corrupt".to_owned())
}

fn number_32(text: &[u8]) -> Result<u32, String> {
    u32::try_from(number(text)?).map_err(|_| "an owner or device beyond 32 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_with_files_in_directories() {
        let table = read(
            b"<xar><toc><checksum style='sha1'><offset>0</offset><size>20</size></checksum>\
              <file id='1'><name>d</name><type>directory</type><mode>0755</mode>\
              <file id='2'><name enctype='base64'>/2E=</name><type>file</type><uid>7</uid>\
              <data><offset>20</offset><length>9</length><size>12</size>\
              <encoding style='application/x-gzip'/>\
              <archived-checksum style='sha1'>AB</archived-checksum></data>\
              <ea id='3'><name>user.a</name><offset>5</offset><size>1</size></ea></file></file>\
              <file id='4'><name>e</name><type link='2'>hardlink</type></file></toc></xar>",
        )
        .unwrap();
        assert_eq!(table.sum, Some((b"sha1".to_vec(), 0, 20)));
        let [directory, file, link] = &table.files[..] else { panic!("{table:?}") };
        assert_eq!((directory.parent, directory.mode), (None, Some(0o755)));
        assert_eq!((file.parent, &file.name[..], file.owner), (Some(0), &b"\xffa"[..], (7, 0)));
        let data = file.data.as_ref().unwrap();
        assert_eq!((data.offset, data.stored_len, data.plain_len), (20, 9, 12));
        assert_eq!(
            (&data.stored_sum.value[..], &data.encoding[..]),
            (&b"ab"[..], &b"application/x-gzip"[..])
        );
        assert_eq!(
            (&file.attributes[0].name[..], file.attributes[0].data.offset),
            (&b"user.a"[..], 5)
        );
        assert_eq!(
            (link.parent, &link.link[..], &link.kind[..]),
            (None, &b"2"[..], &b"hardlink"[..])
        );
    }
}
