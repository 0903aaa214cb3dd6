"""Read ShaleFS images: compressed, read-only file systems in one file.

    import shalefs

    with shalefs.open("logs.shale") as image:
        for name in image.listdir("2026-11"):
            print(name, image.stat(f"2026-11/{name}").st_size)
        data = image.read_bytes("2026-11/app.log", 0, 4096)
"""

from typing import Any, Mapping, Optional, Union

from .building import BuildReport, CheckReport, IncompleteWarning, append, check, create, extract_all, merge
from .errors import DamagedError, EncryptedError, IdentityError, NotAnImageError, ShaleError, UnsupportedError
from .filesystem import CACHE_BYTES, Base, Entry, FileSystem, Identity, RawFile, Source, Stat
from ._engine import native as _native

__all__ = ["BuildReport", "CheckReport", "DamagedError", "EncryptedError", "Entry", "FileSystem", "IdentityError",
           "IncompleteWarning", "NotAnImageError", "RawFile", "ShaleError", "Stat", "UnsupportedError", "append",
           "check", "create", "engine", "extract_all", "merge", "open"]
__version__ = "0.1.0"
engine = "pure" if _native is None else "native"


def open(source: Source, snapshot: Union[str, int, None] = None,  # noqa: A001 (a verb of its own)
         expect: Optional[str] = None, cache_bytes: int = CACHE_BYTES,
         storage_options: Optional[Mapping[str, Any]] = None, base: Optional[Base] = None,
         identity: Optional[Identity] = None, passphrase: Union[str, bytes, None] = None) -> FileSystem:
    """Opens an image: a path, a URL, the bytes of one (bytearray, memoryview), or a seekable binary file object.

    URLs are those that fsspec knows (`https://`, `s3://`, ...), with its `storage_options`. Only what is used is
    fetched.
    `snapshot` is a name, a number from 0, "#NUMBER", "latest" (default), or a time in UTC such as "2026-11-22" or
    "2026-11-22T10:00", which means the newest snapshot not after it. Up to `cache_bytes` of what was decoded is kept.
    With `expect`, an identity in hexadecimal, every byte is verified against it. `base` is the base of a thin image: a
    path, a directory that holds it, a URL or bytes;
    it is also looked for beside the thin image, as the other parts of a split image are beside the first.
    `identity` opens an image that is encrypted with age: a file of secret keys, a key, or several of them; `passphrase`
    one that is encrypted with a passphrase. An image that is pickled takes them with it.
    Raises NotAnImageError, UnsupportedError, DamagedError, EncryptedError or IdentityError.
    """
    return FileSystem(source, snapshot, expect, cache_bytes, storage_options, base, identity, passphrase)
