"""What a file is, its content says; its name only chooses among what the content allows."""

from __future__ import annotations

import io
import zipfile

import pytest

from semel.text.media_types import detect_image, detect_media_type

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
WEBP = b"RIFF\x10\0\0\0WEBPVP8 "
WAVE = b"RIFF\x10\0\0\0WAVEfmt "
ELF = b"\x7fELF\x02\x01\x01" + b"\0" * 9


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", "b")
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "head", "mime"),
    [
        ("photo.png", PNG, "image/png"),
        ("photo.jpg", PNG, "image/png"),
        ("page.html", WEBP, "image/webp"),
        ("photo.png", b"<html><script>", "text/plain"),
        ("page.html", b"<html><script>", "text/html"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        ("photo.jpg", b"<svg/>", "text/plain"),
        ("table.csv", "größe;1\n".encode(), "text/csv"),
        ("notes", "bis ans Ende: ü".encode()[:-1], "text/plain"),
        ("empty", b"", "text/plain"),
        ("BMW.txt", b"BMW and MZ are makers", "text/plain"),
        ("a.bmp", b"BM\x36\0\0\0", "image/bmp"),
        ("report.docx", zipped(), "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("report.pdf", zipped(), "application/zip"),
        ("photo.png", zipped(), "application/zip"),
        ("report.pdf", b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        ("report.pdf", b"\0\1\2\3", "application/octet-stream"),
        ("data.json", b"\0\1\2\3", "application/octet-stream"),
        ("photo.png", b"\0\1\2\3", "application/octet-stream"),
        ("sound.wav", WAVE, "audio/wav"),
        ("photo.png", ELF, "application/x-executable"),
    ],
)
def test_the_content_decides_and_the_name_chooses(name: str, head: bytes, mime: str) -> None:
    assert detect_media_type(name, head) == mime


def test_only_what_agents_and_browsers_show_is_an_image() -> None:
    assert detect_image(PNG) == "image/png"
    assert detect_image(WEBP) == "image/webp"
    assert [detect_image(head) for head in (WAVE, b"BM\x36\0\0\0", b"<svg/>", b"")] == [None] * 4
