"""Times in UTC as text, which is how snapshots are named by default."""

import calendar
import re
from typing import Optional, Tuple

_TIME = re.compile(rb"(\d{4})-(\d\d)(?:-(\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.\d+)?)?)?[Zz]?)?)?")


def utc_period(text: bytes) -> Optional[Tuple[int, int]]:
    """The first and the last second since 1970 that a text such as 2026-11-22 or 2026-11-22T10:00 covers; else None."""
    found = _TIME.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (None if part is None else int(part) for part in found.groups())
    if not 1 <= year or not 1 <= month <= 12 or not 1 <= (day or 1) <= calendar.monthrange(year, month)[1] or day == 0:
        return None
    if (hour or 0) > 23 or (minute or 0) > 59 or (second or 0) > 59:
        return None
    first = calendar.timegm((year, month, day or 1, hour or 0, minute or 0, second or 0, 0, 0, 0))
    if day is None:
        length = calendar.monthrange(year, month)[1] * 86400
    else:
        length = 86400 if hour is None else 3600 if minute is None else 60 if second is None else 1
    return first, first + length - 1
