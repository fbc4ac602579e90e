"""Read width and height of an image from its first bytes, so that a face can reserve its place before it is loaded.

PNG (W3C PNG, 11.2.1), JPEG (ITU T.81, B.2; Exif 2.3 for the orientation), GIF89a (18) and WebP (RFC 9649), which are
the formats that browsers show in place. Nothing is decoded: a few numbers are read at fixed places, and what is cut
off, damaged or absurd has no size.
"""

from __future__ import annotations

import struct

HEAD_BYTES = 256 * 1024  # how much of a file is looked at: a JPEG may have a preview and a colour profile in front
MAX_SIDE_PIXELS = 100_000  # a longer side is taken for damage
_TURNED = range(5, 9)  # values of Exif's orientation that show an image turned by a quarter
_ORIENTATION_TAG = 0x0112
_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def read_image_size(head: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels, as browsers show the image; None if this is no image of a known format.

    `head`: the first HEAD_BYTES of the file, or all of it.
    """
    try:
        size = _read_size(head)
    except (struct.error, IndexError):
        return None
    return size if size is not None and all(0 < side <= MAX_SIDE_PIXELS for side in size) else None


def describe_image_size(head: bytes) -> dict[str, int]:
    """Return {"width", "height"} as entries and items keep them beside a file; empty if there is no size."""
    size = read_image_size(head)
    return {} if size is None else {"width": size[0], "height": size[1]}


def _read_size(head: bytes) -> tuple[int, int] | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        return _unpack_pair(">II", head, 16)
    if head.startswith((b"GIF87a", b"GIF89a")):
        return _unpack_pair("<HH", head, 6)
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _read_webp(head)
    if head.startswith(b"\xff\xd8\xff"):
        return _read_jpeg(head)
    return None


def _unpack_pair(layout: str, head: bytes, at: int) -> tuple[int, int]:
    first, second = struct.unpack_from(layout, head, at)
    return first, second


def _read_webp(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8 ":
            width, height = _unpack_pair("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", head, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if len(head) >= 30:
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    return None


def _read_jpeg(head: bytes) -> tuple[int, int] | None:
    """Walk over the segments up to the first frame. Each step goes on by two bytes at least."""
    at, is_turned = 2, False
    while head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        (length,) = struct.unpack_from(">H", head, at + 2)
        if marker in _START_OF_FRAME:
            height, width = _unpack_pair(">HH", head, at + 5)
            return (height, width) if is_turned else (width, height)
        if length < 2:
            return None
        if marker == 0xE1 and head[at + 4 : at + 10] == b"Exif\0\0":
            is_turned = _read_orientation(head[at + 10 : at + 2 + length]) in _TURNED
        at += 2 + length
    return None


def _read_orientation(exif: bytes) -> int | None:
    """Return the orientation that an Exif block states; None if it states none."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return None
    try:
        (start,) = struct.unpack_from(f"{order}I", exif, 4)
        (count,) = struct.unpack_from(f"{order}H", exif, start)
        for n in range(count):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", exif, start + 2 + 12 * n)
            if tag == _ORIENTATION_TAG:
                return int(value)
    except struct.error:
        pass
    return None
