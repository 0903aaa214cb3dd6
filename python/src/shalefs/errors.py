"""What can go wrong. Every error is an OSError with an errno where one fits."""

import errno
import os


class ShaleError(OSError):
    """Base of all errors of this package."""

    def __reduce__(self):
        # Between processes: the classes below are made from the message alone.
        return type(self), (self.args[-1],)


class DamagedError(ShaleError):
    """Bytes of the image are not as the format says: a wrong sum, a number out of range."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EIO, message)


class NotAnImageError(ShaleError):
    """The file is not a ShaleFS image."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EINVAL, message)


class UnsupportedError(ShaleError):
    """The image needs something that this reader lacks: a newer version, a codec, a Python package."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ENOTSUP, message)


class EncryptedError(ShaleError):
    """The image is encrypted, and no key that was given opens it."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EACCES, message)


class IdentityError(ShaleError):
    """The image is not the one that was expected."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EBADMSG, message)


def not_found(path: object) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def not_a_directory(path: object) -> NotADirectoryError:
    return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def is_a_directory(path: object) -> IsADirectoryError:
    return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
