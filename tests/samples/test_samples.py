"""What README.md and docs/ show of a terminal is what the commands print."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sample_runner import PAGES, ROOT, comparable, open_scratch, read_samples, run_pages, run_sample

WRITTEN = {path: path.read_text(encoding="utf-8") for path in PAGES}


@pytest.fixture(scope="module")
def renewed() -> dict[Path, str]:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed (Debian: curl)")
    return dict(run_pages(WRITTEN))


@pytest.mark.long
@pytest.mark.parametrize("path", [path for path in PAGES if read_samples(WRITTEN[path])], ids=lambda path: path.stem)
def test_the_samples_of_a_page_are_what_the_commands_print_now(renewed: dict[Path, str], path: Path) -> None:
    assert comparable(WRITTEN[path]) == comparable(renewed[path]), "run `make samples`"


def test_what_a_newcomer_types_first_is_shown() -> None:
    shown = "\n".join(command for page in WRITTEN.values() for one in read_samples(page) for command in one.commands())
    first = ("semel up", "semel say", "semel show", "semel why", "semel doctor", "semel agents list", "curl")
    assert [command for command in first if command not in shown] == []


def test_a_sample_that_is_not_what_is_printed_is_found() -> None:
    shown = "    $ cat note\n    shown\n    $ printf two \\\n        >&2\n    two\n"
    page = f"<!-- first:\nprintf hidden >note\n-->\n\n{shown}"
    (sample,) = read_samples(page)
    assert sample.commands() == ["cat note", "printf two \\\n    >&2"]
    with open_scratch() as scratch:
        now = run_sample(scratch, sample)
    assert now == "$ cat note\nhidden\n$ printf two \\\n    >&2\ntwo"
    assert comparable(now) != comparable(sample.text)


def test_times_ids_and_sizes_do_not_count() -> None:
    one = "2026-11-25 21:15:01  e1: after 0.5 s, 12 MB\n"
    other = "2027-01-02 03:04:05 e17: after 1.25 s, 9 MB\n"
    assert comparable(one) == comparable(other)
    assert comparable(one) != comparable(one.replace("after", "before"))
    assert ROOT / "README.md" in PAGES
