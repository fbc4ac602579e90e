"""Whether Telegram would take bytes as a photo."""

from __future__ import annotations

import struct


def why_no_picture(content: bytes) -> str | None:
    """The error's text; None: it is a picture. The sizes of a PNG are read, those of others are believed."""
    if content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) >= 24:
        wide, high = struct.unpack(">II", content[16:24])
        if not wide or not high or wide + high > 10_000 or max(wide, high) > 20 * min(wide, high):
            return "PHOTO_INVALID_DIMENSIONS"
        return None
    if content.startswith((b"\xff\xd8\xff", b"GIF8", b"BM")) or content[8:12] == b"WEBP":
        return None
    return "IMAGE_PROCESS_FAILED"
