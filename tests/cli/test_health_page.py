"""docs/health.md shows what the commands really print: the samples are compared with a real run, numbers apart.

python tests/cli/test_health_page.py --write
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from cli_house import Cli, end, until

from semel.installation import find_command

PAGE = Path(__file__).parents[2] / "docs" / "health.md"


def run_samples(home: Path) -> dict[str, str]:
    """What each command prints in an installation with the demo agent and one message, paths shortened."""
    cli = Cli(home, home / ".local" / "share" / "semel")
    (home / "semel.toml").write_text('[agents.demo]\nkind = "demo"\n')
    process = cli.up()
    try:
        cli("say", "main", "hello", "--wait")
        until(lambda: cli.json("sessions")[0]["state"] == "idle", "the end of the turn")
        samples = {name: cli(name).stdout for name in ("status", "doctor")}
    finally:
        end(process)
        cli.leave()
    typed = find_command()  # from a clone, another one than users have
    return {name: text.replace(str(home), "~").replace(f"{typed} ", "semel ") for name, text in samples.items()}


def written(page: str, samples: dict[str, str]) -> str:
    for name, text in samples.items():
        block = f"    $ semel {name}\n" + "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())
        begin, end_mark = f"<!-- {name}: produced by tests/cli/test_health_page.py -->", f"<!-- end of {name} -->"
        head, _, rest = page.partition(begin)
        assert rest, begin
        page = f"{head}{begin}\n\n{block}\n{end_mark}{rest.partition(end_mark)[2]}"
    return page


def without_numbers(text: str) -> str:
    """The text with N for each number but the version of the ledger's schema, which changes with Semel alone."""
    number = r"(?<!schema )(?<!schema \d)\d[\d.,:-]*( (B|kB|MB|GB|TB|UTC|[A-Z]{3,4}|s)\b)?"
    return re.sub(r"[ \t]+", " ", re.sub(number, "N", text))


def test_the_samples_are_what_the_commands_print(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    expected = written(page, run_samples(tmp_path))
    assert without_numbers(page) == without_numbers(expected), "run python tests/cli/test_health_page.py --write"


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(written(PAGE.read_text("utf-8"), run_samples(Path(folder))), encoding="utf-8")
