"""The message type for a file (image, audio, video or file), and the size of an image."""

from __future__ import annotations

import struct


def kind_of(mime: str) -> str:
    """The msgtype for a file's MIME type. SVG is a plain file, since clients show no SVG."""
    head = mime.partition("/")[0]
    return f"m.{head}" if head in ("image", "audio", "video") and not mime.startswith("image/svg") else "m.file"


def dimensions(data: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels of a PNG, GIF, JPEG or WebP, from its header; None for other or broken files."""
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            return struct.unpack(">II", data[16:24])
        if data[:6] in (b"GIF87a", b"GIF89a"):
            return struct.unpack("<HH", data[6:10])
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp(data)
        return _jpeg(data) if data[:3] == b"\xff\xd8\xff" else None
    except (struct.error, IndexError):
        return None


def _webp(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while data[at] == 0xFF:
        marker, length = data[at + 1], struct.unpack(">H", data[at + 2 : at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None
