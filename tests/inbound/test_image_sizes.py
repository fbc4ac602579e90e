"""The size of an image is read from its first bytes, and nothing that is cut off, damaged or absurd has one."""

from __future__ import annotations

import struct

import pytest

from semel.gateway.image_size import read_image_size

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 1280, 720) + b"\x08\x06\0\0\0"
GIF = b"GIF89a" + struct.pack("<HH", 16, 9) + b"\xf7\0\0"
FRAME = b"\xff\xc2\0\x11\x08" + struct.pack(">HH", 200, 300) + b"\x03\x01\x22\0"
TABLES = b"\xff\xdb\0\x04\0\0\xff\xff\xc4\0\x03\0"


def exif(orientation: int, order: str = ">") -> bytes:
    mark = b"MM" if order == ">" else b"II"
    other = struct.pack(f"{order}HHIHH", 0x010F, 2, 1, 0, 0)
    entry = struct.pack(f"{order}HHIHH", 0x0112, 3, 1, orientation, 0)
    block = b"Exif\0\0" + mark + struct.pack(f"{order}HIH", 42, 8, 2) + other + entry
    return b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\x24\0\0\0WEBP" + kind + b"\x18\0\0\0" + body


IMAGES = {
    "png": (PNG, (1280, 720)),
    "gif": (GIF, (16, 9)),
    "jpeg": (b"\xff\xd8" + TABLES + FRAME, (300, 200)),
    "jpeg on its side": (b"\xff\xd8" + exif(6) + TABLES + FRAME, (200, 300)),
    "jpeg on its side, little-endian": (b"\xff\xd8" + exif(8, "<") + FRAME, (200, 300)),
    "jpeg upside down": (b"\xff\xd8" + exif(3) + FRAME, (300, 200)),
    "webp": (webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 0x4000 | 550, 368)), (550, 368)),
    "webp without loss": (webp(b"VP8L", b"\x2f" + struct.pack("<I", 399 | 299 << 14)), (400, 300)),
    "webp with more": (webp(b"VP8X", b"\x10\0\0\0" + b"\xff\x03\0" + b"\x63\0\0"), (1024, 100)),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_the_size_of_an_image_is_that_which_browsers_show(name: str) -> None:
    head, size = IMAGES[name]
    assert read_image_size(head + b"the image" * 100) == size


@pytest.mark.parametrize("name", IMAGES)
def test_a_beginning_of_an_image_has_its_size_or_none(name: str) -> None:
    head, size = IMAGES[name]
    sizes = [read_image_size(head[:length]) for length in range(len(head))]
    assert set(sizes) <= {None, size} and sizes[0] is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<svg width='9' height='9'/>",
        b"\xff\xd8\xff\xda",
        b"\xff\xd8" + b"\xff" * 1000,
        b"\xff\xd8\xff\xe1\0\0" * 99,
        PNG.replace(struct.pack(">II", 1280, 720), struct.pack(">II", 0, 720)),
        PNG.replace(struct.pack(">II", 1280, 720), struct.pack(">II", 2**31, 1)),
        webp(b"ALPH", b"\0" * 40),
    ],
)
def test_what_is_damaged_or_no_image_has_no_size(content: bytes) -> None:
    assert read_image_size(content) is None
