"""Tell the media type of a file by its content.

A name or a header may say anything, so they never decide what a file is: a page that is called photo.png is no image.
The name only chooses among the types that the content allows, such as text/csv for a text.

The first bytes of a format are those of the WHATWG's MIME Sniffing Standard and of IANA's registrations.
"""

from __future__ import annotations

import codecs
import mimetypes
from typing import NamedTuple

HEAD_BYTES = 65_536
"""How many bytes from the beginning of a file decide its type."""
BINARY = "application/octet-stream"
MIN_SURE_BYTES = 4
"""A text may begin by chance with fewer bytes of a format, such as BM."""


class _Signature(NamedTuple):
    """The bytes of a format at a place of the file. `name_may_choose`: types of other formats that are built of it."""

    start: int
    magic: bytes
    mime: str
    name_may_choose: tuple[str, ...] = ()


_OFFICE = ("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")
_IN_ZIP = (*_OFFICE, "application/epub+zip", "application/java-archive", "application/vnd.android.package-archive")
_MEDIA_BOX = ("video/mp4", "video/quicktime", "audio/mp4", "audio/x-m4a")
_SIGNATURES = (
    _Signature(0, b"\x89PNG\r\n\x1a\n", "image/png"),
    _Signature(0, b"\xff\xd8\xff", "image/jpeg"),
    _Signature(0, b"GIF87a", "image/gif"),
    _Signature(0, b"GIF89a", "image/gif"),
    _Signature(8, b"WEBP", "image/webp"),
    _Signature(4, b"ftypavif", "image/avif"),
    _Signature(4, b"ftypheic", "image/heic"),
    _Signature(0, b"II*\0", "image/tiff"),
    _Signature(0, b"MM\0*", "image/tiff"),
    _Signature(0, b"BM", "image/bmp"),
    _Signature(0, b"%PDF-", "application/pdf"),
    _Signature(0, b"PK\x03\x04", "application/zip", _IN_ZIP),
    _Signature(0, b"\x1f\x8b\x08", "application/gzip"),
    _Signature(0, b"\xfd7zXZ\0", "application/x-xz"),
    _Signature(0, b"BZh", "application/x-bzip2"),
    _Signature(0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    _Signature(257, b"ustar", "application/x-tar"),
    _Signature(8, b"WAVE", "audio/wav"),
    _Signature(0, b"ID3", "audio/mpeg"),
    _Signature(0, b"\xff\xfb", "audio/mpeg"),
    _Signature(0, b"OggS", "audio/ogg", ("video/ogg",)),
    _Signature(0, b"fLaC", "audio/flac"),
    _Signature(4, b"ftyp", "video/mp4", _MEDIA_BOX),
    _Signature(0, b"\x1aE\xdf\xa3", "video/webm", ("video/x-matroska", "audio/webm")),
    _Signature(8, b"AVI ", "video/x-msvideo"),
    _Signature(0, b"\x7fELF", "application/x-executable"),
    _Signature(0, b"MZ", "application/x-msdownload"),
    _Signature(0, b"SQLite format 3\0", "application/vnd.sqlite3"),
)
_CONTAINER = b"RIFF"  # begins the files whose format is named at byte 8
_SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_TEXT_TYPES = frozenset(
    {
        "application/json", "application/xml", "application/javascript", "application/x-sh", "application/toml",
        "application/yaml", "application/sql", "application/x-tex", "application/x-latex", "application/x-csh",
        "application/postscript", "image/svg+xml", "message/rfc822",
    }
)  # fmt: skip
"""The types of texts besides text/*."""


def is_sound(mime: str) -> bool:
    """Return whether a media type is one of sounds."""
    return mime.lower().startswith("audio/")


def detect_image(head: bytes) -> str | None:
    """Return the type of an image that agents and browsers show (PNG, JPEG, GIF, WebP); None if it is anything else.

    `head`: the beginning of the file.
    """
    signature = _find_signature(head)
    return signature.mime if signature is not None and signature.mime in _SHOWN else None


def detect_media_type(name: str, head: bytes) -> str:
    """Return the media type of a file. `name`: its name. `head`: its first HEAD_BYTES, or all of it."""
    by_name = mimetypes.guess_type(name)[0] or ""
    signature = _find_signature(head)
    if signature is not None:
        return by_name if by_name.startswith(signature.name_may_choose) else signature.mime
    if _is_text(head):
        return by_name if by_name.startswith("text/") or by_name in _TEXT_TYPES else "text/plain"
    return by_name if by_name.startswith("application/") and not _has_signature(by_name) else BINARY


def _find_signature(head: bytes) -> _Signature | None:
    for signature in _SIGNATURES:
        if signature.start == 8 and not head.startswith(_CONTAINER):
            continue
        if head.startswith(signature.magic, signature.start):
            return None if len(signature.magic) < MIN_SURE_BYTES and _is_text(head) else signature
    return None


def _is_text(head: bytes) -> bool:
    """Return whether these bytes are UTF-8 without characters that no text has. A character may be cut at the end."""
    if b"\0" in head:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _has_signature(mime: str) -> bool:
    """Return whether files of a type would have been recognised, or are texts."""
    return mime in _TEXT_TYPES or any(
        mime == signature.mime or mime.startswith(signature.name_may_choose) for signature in _SIGNATURES
    )
