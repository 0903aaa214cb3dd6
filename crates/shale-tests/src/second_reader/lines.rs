//! The filter of lines, undone as chapter 9.1 of the specification says, value by value.

/// The plain bytes of a lines form.
pub fn undo(form: &[u8]) -> Option<Vec<u8>> {
    let mut at = 0;
    let line_count = varint(form, &mut at)?;
    let text_len = varint(form, &mut at)? as usize;
    let text = form.get(at..at.checked_add(text_len)?)?;
    at += text_len;
    let mut templates: Vec<Vec<&[u8]>> = Vec::new();
    if let Some(text) = text.strip_suffix(b"\n") {
        for template in text.split(|&byte| byte == b'\n') {
            templates.push(template.split(|&byte| byte == 0).collect());
        }
    } else if !text.is_empty() {
        return None;
    }

    let mut template_of = Vec::new();
    let mut seen = 0;
    for _ in 0..line_count {
        let template = match varint(form, &mut at)? {
            0 => {
                seen += 1;
                seen - 1
            }
            number => number as usize - 1,
        };
        if template >= seen || seen > templates.len() {
            return None;
        }
        template_of.push(template);
    }

    let slot_count = templates.iter().map(|pieces| pieces.len() - 1).sum();
    let modes = form.get(at..at.checked_add(slot_count)?)?;
    if modes.iter().any(|&mode| mode > 3) {
        return None;
    }
    at += slot_count;
    // All codes of each slot: place 0 of all templates, then place 1 of those that have one.
    let mut codes: Vec<Vec<Code>> = (0..slot_count).map(|_| Vec::new()).collect();
    for place in 0..templates.iter().map(|pieces| pieces.len() - 1).max().unwrap_or(0) {
        let mut slot = place;
        for (template, pieces) in templates.iter().enumerate() {
            if place + 1 < pieces.len() {
                let lines = template_of.iter().filter(|&&of| of == template);
                let column: Option<_> = lines.map(|_| Code::read(form, &mut at)).collect();
                codes[slot] = column?;
            }
            slot += pieces.len() - 1;
        }
    }
    if at != form.len() || seen != templates.len() {
        return None;
    }

    let mut plain = Vec::new();
    let mut used = vec![0; templates.len()];
    let mut last_of_slot: Vec<Option<Vec<u8>>> = vec![None; slot_count];
    let mut last_of_place: Vec<Option<Vec<u8>>> = vec![None; slot_count];
    for (line, &template) in template_of.iter().enumerate() {
        if line > 0 {
            plain.push(b'\n');
        }
        let first: usize = templates[..template].iter().map(|pieces| pieces.len() - 1).sum();
        for (place, piece) in templates[template].iter().enumerate() {
            if place > 0 {
                let slot = first + place - 1;
                let of_place = modes[slot] & 1 != 0;
                let known = if of_place { &last_of_place[place - 1] } else { &last_of_slot[slot] };
                let value = codes[slot][used[template]].value(known.as_deref(), modes[slot])?;
                plain.extend_from_slice(&value);
                last_of_place[place - 1] = Some(value.clone());
                last_of_slot[slot] = Some(value);
            }
            plain.extend_from_slice(piece);
        }
        used[template] += 1;
    }
    Some(plain)
}

/// The number at a place of some bytes, seven bits a byte.
pub fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for place in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value += u64::from(byte % 128) << (7 * place);
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

enum Code {
    Same,
    Literal(Vec<u8>),
    Step(i128),
}

impl Code {
    fn read(form: &[u8], at: &mut usize) -> Option<Self> {
        Some(match varint(form, at)? {
            0 => Code::Same,
            1 => {
                let len = varint(form, at)? as usize;
                let bytes = form.get(*at..at.checked_add(len)?)?.to_vec();
                *at += len;
                Code::Literal(bytes)
            }
            code => {
                // 2 is -1, 3 is 1, 4 is -2, 5 is 2.
                let size = i128::from(code / 2);
                Code::Step(if code % 2 == 0 { -size } else { size })
            }
        })
    }

    fn value(&self, known: Option<&[u8]>, mode: u8) -> Option<Vec<u8>> {
        let value = match self {
            Code::Same => known?.to_vec(),
            Code::Literal(bytes) => bytes.clone(),
            Code::Step(step) => {
                let known = std::str::from_utf8(known?).ok()?;
                let digits = known.len() <= 18 && known.bytes().all(|byte| byte.is_ascii_digit());
                let number = known.parse::<i128>().ok().filter(|_| digits)? + step;
                let width = if mode & 2 != 0 { 1 } else { known.len() };
                let text = format!("{number:0width$}");
                (number >= 0 && text.len() <= 18).then_some(text)?.into_bytes()
            }
        };
        (!value.is_empty()).then_some(value)
    }
}
