"""Images encrypted with age: keys, and files that open with them. The compiled module decrypts.

A file is recognised by its first bytes, whatever its name.
"""

import os

from ._engine import native, native_source
from .errors import UnsupportedError

# The first lines of files of age: of any version, and in its text form.
_MAGIC, _ARMOR = b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----"
_KEY = "AGE-SECRET-KEY-1"
_KEYS_LEN_MAX = 1 << 20


class Keys:
    """What opens encrypted files: secret keys, or files of them, and a passphrase. They are read when one is needed."""

    def __init__(self, identity, passphrase):
        if identity is None:
            identity = ()
        elif isinstance(identity, (str, bytes, os.PathLike)):
            identity = (identity,)
        self._identity, self._passphrase = tuple(identity), passphrase

    def unseal(self, source):
        """The plain bytes of a source that is encrypted; any other source as it is."""
        head = source.read_at(0, min(len(_ARMOR), source.size))
        if not head.startswith(_MAGIC) and head != _ARMOR:
            return source
        if native is None:
            raise UnsupportedError("the image is encrypted with age, and the reader in Python cannot decrypt; install "
                                   "a wheel of shalefs for this platform, or decrypt the image with `age -d`")
        passphrase = self._passphrase
        if isinstance(passphrase, str):
            passphrase = passphrase.encode()
        return SealedSource(source, native.Decrypted(native_source(source), [_key(key) for key in self._identity],
                                                     passphrase))


def _key(identity):
    """The bytes of a file of keys, or of a key itself."""
    if isinstance(identity, str) and identity.strip().upper().startswith(_KEY):
        return identity.encode()
    with open(identity, "rb") as file:
        return file.read(_KEYS_LEN_MAX)


class SealedSource:
    """An encrypted file, as a source of its plain bytes."""

    def __init__(self, source, decrypted):
        self._source, self._decrypted = source, decrypted
        self.size, self.is_far, self.read_at = decrypted.size, decrypted.is_far, decrypted.read_at

    def close(self):
        self._source.close()
