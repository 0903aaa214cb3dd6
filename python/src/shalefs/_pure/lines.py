"""The filter of lines, undone: templates and columns back to text."""

from ..errors import DamagedError

_SLOTS_MAX = 65536


def varint(data, at):
    """A number of at most nine bytes and the place after it."""
    value = 0
    for shift in range(0, 63, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise DamagedError("lines: a number is truncated or too long")


def undo(form: bytes, plain_len: int) -> bytes:
    """The text of a lines form, at most `plain_len` bytes."""
    line_count, at = varint(form, 0)
    text_len, at = varint(form, at)
    text = form[at:at + text_len]
    at += text_len
    if len(text) != text_len or line_count > plain_len + 1 or text and not text.endswith(b"\n"):
        raise DamagedError("lines: the templates are damaged")
    templates = [line.split(b"\0") for line in text[:-1].split(b"\n")] if text else []
    of_line, seen = [], 0
    for _ in range(line_count):
        number, at = varint(form, at)
        if number == 0:
            number = seen = seen + 1
        if number > seen or seen > len(templates):
            raise DamagedError("lines: a line has no template")
        of_line.append(number - 1)
    counts = [len(pieces) - 1 for pieces in templates]
    slot_count = sum(counts)
    modes = form[at:at + slot_count]
    at += slot_count
    if seen != len(templates) or slot_count > _SLOTS_MAX or len(modes) != slot_count or any(m > 3 for m in modes):
        raise DamagedError("lines: templates, slots and modes do not agree")
    firsts, total = [], 0
    for count in counts:
        firsts.append(total)
        total += count
    uses = [0] * len(templates)
    for template in of_line:
        uses[template] += 1
    columns = [()] * slot_count
    for place in range(max(counts, default=0)):
        for template, count in enumerate(counts):
            if place < count:
                codes = []
                for _ in range(uses[template]):
                    code, at = varint(form, at)
                    if code == 1:
                        length, at = varint(form, at)
                        code = form[at:at + length]
                        at += length
                        if not code or len(code) != length:
                            raise DamagedError("lines: a value is empty or truncated")
                    codes.append(code)
                columns[firsts[template] + place] = iter(codes)
    if at != len(form):
        raise DamagedError("lines: bytes follow the columns")
    last_of_slot, last_of_place = [None] * slot_count, [None] * slot_count
    out, length = [], 0
    for template in of_line:
        pieces = templates[template]
        line = [pieces[0]]
        for place in range(counts[template]):
            slot = firsts[template] + place
            code = next(columns[slot])
            if not isinstance(code, bytes):
                known = last_of_place[place] if modes[slot] & 1 else last_of_slot[slot]
                code = _step(known, code, modes[slot])
            last_of_slot[slot] = last_of_place[place] = code
            line += (code, pieces[place + 1])
        joined = b"".join(line)
        length += len(joined) + 1
        if length > plain_len + 1:
            raise DamagedError("lines: the text is longer than its frame")
        out.append(joined)
    return b"\n".join(out)


def _step(known, code, mode):
    if known is None:
        raise DamagedError("lines: a value refers to one before the first")
    if code == 0:
        return known
    if len(known) > 18 or not known.isdigit():
        raise DamagedError("lines: a step from a value that is not a number")
    number = int(known) + (code // 2 if code % 2 else -(code // 2))
    digits = b"%d" % number if mode & 2 else b"%0*d" % (len(known), number)
    if number < 0 or len(digits) > 18:
        raise DamagedError("lines: a number is out of range")
    return digits
