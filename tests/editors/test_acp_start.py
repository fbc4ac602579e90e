"""How `semel acp` starts for an editor: soon and small, and with the options that the command line declares."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from semel.faces.acp.gateway_link import GatewayLink
from semel.faces.cli import load_commands
from semel.faces.start import EditorOptions, read_editor_options
from semel.tools.address import NoGateway

HEAVY = ("typer", "rich", "pydantic", "structlog", "apsw", "semel.gateway.api", "semel.ledger")
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 2}}


def test_the_options_are_those_of_the_command() -> None:
    (command,) = (one for one in load_commands("acp").registered_commands if one.name == "acp")
    declared = {one.name for one in typer.main.get_command_from_info(
        command, pretty_exceptions_short=True, rich_markup_mode=None
    ).params}  # fmt: skip
    assert set(EditorOptions._fields) == declared - {"alone", "show_setup", "help"}


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", EditorOptions([])),
        ("--agent a --session k --no-start", EditorOptions([], "a", "k", True)),
        (
            "--config c.toml --data-dir d -- x --agent y",
            EditorOptions(["x", "--agent", "y"], None, None, False, Path("c.toml"), Path("d")),
        ),
    ],
)
def test_plain_words_are_read_at_once(words: str, options: EditorOptions) -> None:
    assert read_editor_options(words.split()) == options


@pytest.mark.parametrize(
    "words", ["--help", "--alone -- x", "--print zed", "--agent", "--agent=x", "x", "--command y", "--agent --alone"]
)
def test_other_words_are_left_to_the_command_line(words: str) -> None:
    assert read_editor_options(words.split()) is None


async def test_a_request_whose_answer_is_lost_is_made_again_while_the_gateway_runs(tmp_path: Path) -> None:
    """Only a gateway that does not run is worth an error, or a start."""

    class Link(GatewayLink):
        async def connect(self) -> Any:
            return None

        async def _answers(self) -> bool:
            return True

    asked = []

    async def ask(client: Any) -> str:
        asked.append(client)
        if len(asked) == 1:
            raise NoGateway(tmp_path)
        return "answered"

    assert await Link(tmp_path, None, may_start=True).ask(ask) == "answered"
    assert len(asked) == 2


def test_initialize_is_answered_without_a_gateway_or_a_heavy_library(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['semel', 'acp', '--data-dir', sys.argv[1]]\n"
        "from semel.faces.start import main\n"
        "try: main()\n"
        "finally: print(sorted(sys.modules), file=sys.stderr)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], input=json.dumps(INITIALIZE) + "\n", capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads(done.stdout)["result"]
    assert (result["agentInfo"]["name"], result["protocolVersion"]) == ("semel", 1)
    modules = set(json.loads(done.stderr.replace("'", '"')))
    assert not modules & set(HEAVY) and "httpx2" not in modules
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 1.0, "0.1 s of CPU on an idle machine"
    assert not list(tmp_path.iterdir()), "nothing is started or written"
