"""How `semel acp` starts for an editor: soon and small, and with the options that the command line declares."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer
import typer.main

from semel.faces.acp.connection.editor_pipe import EditorPipe
from semel.faces.acp.connection.editor_server import EditorServer
from semel.faces.acp.connection.gateway_link import POLL_INTERVAL_S, GatewayLink
from semel.faces.acp.connection.opening import Opening
from semel.faces.acp.session.open_prompt import OpenPrompt, describe_outage
from semel.faces.acp.session.open_session import OpenSession
from semel.faces.acp.setup_lines import EDITORS, write_setup
from semel.faces.cli import load_commands
from semel.faces.cli.acp import acp
from semel.faces.client import OutcomeUnknown
from semel.faces.start import EditorOptions, read_editor_options
from semel.text.json_types import Json
from semel.tools.address import GATEWAY_FILE, LAST_CONFIG_FILE, START_LOCK_FILE, NoGateway

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
def test_simple_options_are_read_without_the_command_line(words: str, options: EditorOptions) -> None:
    assert read_editor_options(words.split()) == options


@pytest.mark.parametrize(("config", "code", "words"), [
    (None, 0, "there is no configuration file yet: new sessions fail until [agents.nosuch] is in one"),
    ('[agents.one]\nkind = "demo"\n[agents.two]\nkind = "demo"\n', 2, "; it has: one, two"),
    ("[agents.nosuch]\ncommand = 3\n", 0, ""),  # `semel up` says what is wrong
])  # fmt: skip
def test_no_lines_are_printed_for_an_agent_that_the_configuration_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    config: str | None, code: int, words: str,
) -> None:  # fmt: skip
    for name in [name for name in os.environ if name.startswith(("SEMEL_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    if config is not None:
        (tmp_path / "semel.toml").write_text(config)
    with pytest.raises(typer.Exit) if code else contextlib.nullcontext() as ended:
        acp(show_setup="zed", agent="nosuch")
    printed = capsys.readouterr()
    assert (ended.value.exit_code if ended is not None else 0, bool(printed.out)) == (code, code == 0)
    assert words in printed.err


def test_the_client_for_neovim_is_where_the_printed_line_says() -> None:
    (path,) = re.findall(r'dofile\("(.*?)"\)', write_setup("neovim", "semel"))
    assert "function M.setup(" in Path(path).read_text()


def test_the_page_shows_for_each_editor_what_is_printed() -> None:
    page = re.sub(r"\s", "", (Path(__file__).parents[2] / "docs/editors.md").read_text())
    for editor in EDITORS:
        lines = write_setup(editor, "semel").splitlines()[1:]
        printed = re.sub(r"\s|,(?=})", "", "".join(lines))
        inner = {
            "zed": printed[1:-1], "emacs": printed, "codecompanion": 'name="semel",formatted_name="Semel"',
            "neovim": printed.rpartition("/")[2],
        }[editor]  # fmt: skip
        assert inner in page, (editor, inner)


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--alone -- x",
        "--print zed",
        "--agent",
        "--agent=x",
        "x",
        "--command y",
        "--agent --alone",
        "--agent a -- x",
    ],
)
def test_any_other_option_is_left_to_the_command_line(words: str) -> None:
    assert read_editor_options(words.split()) is None


@pytest.mark.parametrize("option", ["--session", "--agent"])
def test_an_empty_name_is_refused(option: str) -> None:
    assert read_editor_options([option, ""]) is None
    with pytest.raises(typer.BadParameter, match=f"{option}: "):
        acp(["true"], **{option[2:]: ""})


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the gateways that are started. Each ends at once."""
    commands: list[list[str]] = []

    class Process:
        returncode = 2

        def __init__(self, command: list[str], **options: Any) -> None:
            commands.append(command[3:])

        def poll(self) -> int:
            return self.returncode

    monkeypatch.setattr(subprocess, "Popen", Process)
    return commands


async def test_a_gateway_is_started_with_the_file_that_the_last_one_read(
    tmp_path: Path, started: list[list[str]]
) -> None:
    """Otherwise an editor in another folder would start it with the demo agent and without channels."""
    data, config = tmp_path / "data", tmp_path / "elsewhere.toml"
    data.mkdir(mode=0o700)
    config.touch()
    (data / LAST_CONFIG_FILE).write_text(json.dumps({"config": str(config)}))
    for named, read in ((None, config), (tmp_path / "named.toml", tmp_path / "named.toml")):
        with pytest.raises(NoGateway, match="did not start"):
            await GatewayLink(data, named, may_start=True).ask(ask_nobody)
        assert started.pop() == ["up", "--give-way", "--data-dir", str(data), "--config", str(read)]


async def test_a_gateway_that_cannot_say_why_it_ends_ended_on_a_full_disk(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=4096))
    with pytest.raises(NoGateway, match=rf"did not start: the disk of {tmp_path} is full"):
        await GatewayLink(tmp_path, None, may_start=True).ask(ask_nobody)
    assert len(started) == 1


@pytest.mark.parametrize("module", ["semel.faces.config", "semel.faces.acp.connection.serve_editor"])
def test_an_interrupt_before_anything_was_read_ends_the_process_without_words(tmp_path: Path, module: str) -> None:
    """An editor may end it while it still imports."""
    code = (
        "import os, signal, sys\n"
        "data, module = sys.argv[1:]\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == module: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "sys.argv = ['semel', 'acp', '--data-dir', data]\n"
        "from semel.faces.start import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), module]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")


async def test_a_gateway_that_was_killed_is_started_again_and_one_that_was_stopped_is_not(
    tmp_path: Path, started: list[list[str]]
) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    link = GatewayLink(data, None, may_start=True)
    await link.restart_killed()
    assert started == []
    (data / GATEWAY_FILE).write_text(json.dumps({"socket": str(data / "gateway.sock"), "pid": 2**22 + 1}))
    await GatewayLink(data, None, may_start=False).restart_killed()
    assert started == []
    with pytest.raises(NoGateway, match="did not start"):
        await link.restart_killed()
    assert started == [["up", "--give-way", "--data-dir", str(data)]]


async def test_no_gateway_is_started_any_more_by_a_process_that_a_signal_ends(
    tmp_path: Path, started: list[list[str]]
) -> None:
    """It waited for another start, as in `semel up`, when the signal came."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    link = GatewayLink(data, None, may_start=True)
    with (data / START_LOCK_FILE).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        start = asyncio.ensure_future(link.start_if_away())
        await asyncio.wait([start], timeout=3 * POLL_INTERVAL_S)
        link.may_start = False
    with pytest.raises(NoGateway):
        await start
    assert started == []


async def test_a_gateway_that_answers_by_now_ends_the_wait_for_another_start(
    tmp_path: Path, started: list[list[str]]
) -> None:
    """The process that has the lock may be stopped, and keep it."""

    class Link(GatewayLink):
        answers = iter([False, False, True])

        async def is_answering(self) -> bool:
            return next(self.answers)

    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    with (data / START_LOCK_FILE).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        await asyncio.wait_for(Link(data, None, may_start=True).start_if_away(), 30)
    assert started == []


async def test_a_start_ends_when_the_new_gateway_has_published_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed gateway leaves its address behind, and the new one listens at its socket before it publishes an address.

    `semel up` waits for the start: with the old address it would find nothing to take over, and a ledger in use.
    """
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    address = {"socket": str(data / "gateway.sock"), "pid": 2**22 + 1}
    (data / GATEWAY_FILE).write_text(json.dumps(address))
    listens = asyncio.Event()
    listening: list[asyncio.Task[asyncio.Server]] = []

    async def listen() -> asyncio.Server:
        server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), address["socket"])
        listens.set()
        return server

    with contextlib.ExitStack() as stack:

        def spawn(link: GatewayLink) -> tuple[subprocess.Popen[bytes], Path]:
            listening.append(asyncio.ensure_future(listen()))
            process = stack.enter_context(subprocess.Popen(["sleep", "60"]))
            stack.callback(process.kill)
            return process, data / "start.log"

        monkeypatch.setattr(GatewayLink, "_spawn", spawn)
        start = asyncio.ensure_future(GatewayLink(data, None, may_start=True).restart_killed())
        await listens.wait()
        done, _ = await asyncio.wait([start], timeout=10 * POLL_INTERVAL_S)
        assert not done
        (data / GATEWAY_FILE).write_text(json.dumps(address | {"pid": os.getpid()}))
        await asyncio.wait_for(start, 30)
        (await listening[0]).close()


async def test_a_message_whose_answer_was_lost_starts_a_gateway_once_and_tells_why_it_did_not_start(
    tmp_path: Path, started: list[list[str]]
) -> None:
    """Also if the last gateway was stopped: whoever stopped it has had the time to start it again."""
    has_waited = asyncio.Event()

    class Link(GatewayLink):
        async def ask(self, request: Any) -> Any:
            raise OutcomeUnknown("POST /v1/sessions/s/messages", "k")

        async def wait_before_retry(self, failures: int) -> None:
            if failures > 2:
                has_waited.set()
                await asyncio.Event().wait()

    link = Link(tmp_path, None, may_start=True)
    server = EditorServer(cast(EditorPipe, UnreadPipe()), link, Opening())
    open_session = OpenSession("s", server, link, {})
    open_session.add_prompt(OpenPrompt("k", lambda result, error: None, lambda: None), [])
    await asyncio.wait_for(has_waited.wait(), 60)
    assert started == [["up", "--give-way", "--data-dir", str(tmp_path)]]
    (told,) = open_session._waiting_remarks.values()
    assert told == (
        "The gateway did not start: it ended with exit code 2. Your message waits: start the gateway with "
        f"`semel up --data-dir {tmp_path}`."
    )


async def test_an_editor_that_ends_before_its_message_is_recorded_is_told_why_no_gateway_started(
    tmp_path: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both if it is refused for that, and if it still waits."""
    monkeypatch.setattr("semel.faces.acp.connection.editor_server.RECORD_TIMEOUT_S", 3.0)

    class EndingPipe(UnreadPipe):
        def stop_reading(self) -> bool:
            return False

        async def lines(self) -> AsyncIterator[bytes]:
            params = {"sessionId": "s", "prompt": []}
            yield json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}).encode()

        def close(self) -> None:
            pass

    class WaitingLink(GatewayLink):
        async def ask(self, request: Any) -> Any:
            await asyncio.Event().wait()

    for link_class in (GatewayLink, WaitingLink):
        link = link_class(tmp_path, None, may_start=True)
        server = EditorServer(cast(EditorPipe, EndingPipe()), link, Opening())
        await server.serve()
        (loss,) = server.describe_losses(has_unread_lines=False)
        reason = "the gateway did not start: it ended with exit code 2"
        assert loss.startswith(f"a message to session s was not recorded, as far as is known: {reason}. Send it again")


async def ask_nobody(client: Any) -> None:
    raise AssertionError("no gateway runs")


class LosingLink(GatewayLink):
    """The answers to the first `losses` requests are lost, while the gateway takes each connection or is away."""

    losses = 0
    takes_connections = True

    async def connect(self) -> Any:
        return None

    async def is_answering(self) -> bool:
        return self.takes_connections

    async def ask_once(self, client: Any) -> str:
        self.losses -= 1
        if self.losses >= 0:
            raise NoGateway(self.data_dir)
        return "answered"


async def test_a_request_whose_answer_is_lost_is_made_again_while_the_gateway_runs(tmp_path: Path) -> None:
    """Only a gateway that does not run is worth an error, or a start."""
    link = LosingLink(tmp_path, None, may_start=True)
    link.losses = 1
    assert await link.ask(link.ask_once) == "answered"
    link = LosingLink(tmp_path, None, may_start=True)
    link.losses = 2
    with pytest.raises(NoGateway):
        await link.ask(link.ask_once)


@pytest.mark.parametrize("may_start", [True, False])
@pytest.mark.parametrize("takes_connections", [True, False])
async def test_a_gateway_that_was_there_a_moment_ago_is_waited_for(
    tmp_path: Path, may_start: bool, takes_connections: bool
) -> None:
    """The socket of one that was just killed may still take connections, however often one looks."""
    link = LosingLink(tmp_path, None, may_start)
    link.losses, link.takes_connections = 3, takes_connections
    link.note_contact()
    assert await link.ask(link.ask_once) == "answered"


class StreamingClient:
    """Gets the first frame of a stream, and no more."""

    async def stream(self, session: str, rev: int | None) -> AsyncIterator[Json]:
        yield {"type": "snapshot", "rev": 1, "session": {}, "entries": [], "items": [], "more": False}
        await asyncio.Event().wait()


async def test_a_gateway_counts_as_there_as_long_as_a_session_is_watched(tmp_path: Path) -> None:
    """One that stops takes no connection any more, while its streams are still open."""

    class Link(LosingLink):
        async def connect(self) -> Any:
            return StreamingClient()

    link = Link(tmp_path, None, may_start=False)
    link.losses, link.takes_connections = 3, False
    server = EditorServer(cast(EditorPipe, UnreadPipe()), link, Opening())
    open_session = OpenSession("s", server, link, {})
    await open_session.watch(replays=False)
    assert await link.ask(link.ask_once) == "answered"
    open_session.close()


async def test_a_data_directory_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NoGateway, match=r"cannot be made .*--data-dir"):
        await GatewayLink(tmp_path / "file" / "data", None, may_start=True).ask(ask_nobody)


class UnreadPipe:
    """An editor's pipe of which nobody reads."""

    written_bytes = 0

    def check_full(self) -> bool:
        return False

    def write(self, lines: list[bytes]) -> None:
        self.written_bytes += sum(map(len, lines))


async def test_a_prompt_that_we_fail_to_send_is_answered_with_an_error(tmp_path: Path) -> None:
    class Link(GatewayLink):
        async def ask(self, request: Any) -> Any:
            raise ValueError("a bug")

    answered = asyncio.Event()
    server = EditorServer(cast(EditorPipe, UnreadPipe()), Link(tmp_path, None, may_start=False), Opening())
    open_session = OpenSession("s", server, Link(tmp_path, None, may_start=False), {})
    errors = []

    def answer(result: Any, error: Any) -> None:
        errors.append(error)
        answered.set()

    open_session.add_prompt(OpenPrompt("k", answer, lambda: None), [])
    await asyncio.wait_for(answered.wait(), 10)
    assert errors == [{"code": -32603, "message": "Semel failed: ValueError: a bug"}]


def test_a_prompt_that_waits_for_a_gateway_is_told_who_starts_one(tmp_path: Path) -> None:
    prompt = OpenPrompt("k", lambda result, error: None, lambda: None)
    told = {may_start: describe_outage([prompt], may_start, tmp_path)[1] for may_start in (False, True)}
    assert (
        f"start it with `semel up --data-dir {tmp_path}`" in told[False]
        and "one is started 15 seconds after" in told[True]
    )
    assert "semel up" not in told[True]
    prompt.set_recorded()
    told = {may_start: describe_outage([prompt], may_start, tmp_path)[1] for may_start in (False, True)}
    assert "if it was killed, one is started" in told[True] and "one is started" not in told[False]


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
