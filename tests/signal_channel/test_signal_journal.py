"""The journal: lines are read by position, and files go when they are not needed any more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from semel.channels.signal import journal as module
from semel.channels.signal.journal import Journal, JournalPosition
from semel.channels.signal.read_journal import SignalCursor


def write(journal: Journal, content: bytes) -> None:
    descriptor = journal.open_for_append()
    os.write(descriptor, content)
    os.close(descriptor)


def read(journal: Journal, position: JournalPosition) -> tuple[list[bytes], JournalPosition]:
    lines = journal.read_lines(position)
    return [line.text for line in lines], lines[-1].after if lines else position


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def test_whole_lines_are_read_and_a_half_one_when_it_is_whole(journal: Journal) -> None:
    start = journal.find_end()
    assert read(journal, start) == ([], start)
    write(journal, b"one\ntwo\nth")
    texts, position = read(journal, start)
    assert texts == [b"one", b"two"]
    assert journal.is_grown(position)
    assert read(journal, position) == ([], position)
    with (journal.folder / "journal-1.jsonl").open("ab") as file:
        file.write(b"ree\n")
    assert read(journal, position)[0] == [b"three"]
    assert (journal.folder / "journal-1.jsonl").stat().st_mode & 0o77 == 0


def test_what_a_dying_program_left_unfinished_is_a_line_of_its_own(journal: Journal) -> None:
    start = journal.find_end()
    write(journal, b'{"half')
    write(journal, b"whole\n")
    assert read(journal, start)[0] == [b'{"half', b"whole"]


def test_a_large_file_is_followed_by_another_and_goes_once_it_is_read(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 5)
    start = journal.find_end()
    write(journal, b"first\n")
    write(journal, b"second\n")
    texts, position = read(journal, start)
    assert texts == [b"first"]
    assert journal.is_grown(position)
    texts, position = read(journal, position)
    assert not journal.is_grown(position)
    assert (texts, position) == ([b"second"], JournalPosition(2, 7))
    journal.forget_before(position)
    assert [path.name for path in journal.folder.iterdir()] == ["journal-2.jsonl"]
    assert journal.find_start(JournalPosition(1, 3)) == JournalPosition(2, 0)
    assert journal.find_start(position) == position
    assert journal.find_start(JournalPosition(2, 99)) == JournalPosition(2, 0)
    assert journal.find_start(JournalPosition(7, 3)) == JournalPosition(2, 0)


def test_a_line_may_be_longer_than_what_is_read_at_once(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_BYTES", 3)
    start = journal.find_end()
    write(journal, b"a long line\nnext\n")
    texts, position = read(journal, start)
    assert texts == [b"a long line"]
    assert read(journal, position)[0] == [b"next"]


@pytest.mark.parametrize("text", ["", "5", "[]", "{}", '{"file": "x", "at": 1}', '{"file": 1, "at": 1, "edits": []}'])
def test_a_cursor_that_makes_no_sense_reads_the_journal_from_its_beginning(text: str) -> None:
    assert SignalCursor.load(text) == SignalCursor(JournalPosition(0, 0))
    cursor = SignalCursor(JournalPosition(2, 7), 5, {"self/8": "self/5"})
    assert SignalCursor.load(cursor.dump()) == cursor
