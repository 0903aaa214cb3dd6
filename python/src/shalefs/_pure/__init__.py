"""A reader of the format in Python alone, written from docs/format.md.

Modules in reading order: `sums` (XXH3-64 and BLAKE3), `source` (positioned reads), `codecs`, `filters`, `lines`,
`array` and `samples` (stored bytes to plain bytes), `models` (deflate streams again), `pages` and `tables` (metadata),
`image` (opening, lookup, reading), `thin` (images in several files). Every sum is compared before bytes are used, and
no number from an image sizes an allocation or a loop beyond the format's limits.
"""
