"""Clients of other projects, as they are installed from PyPI and npm, talk to a real gateway and its agents."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from system_house import PATIENCE, House, opened, script, until

from semel.testing import scripted_agent

if TYPE_CHECKING:
    import openai

CLIENTS = Path(__file__).parent / "clients"
needs_node = pytest.mark.skipif(
    shutil.which("npm") is None or shutil.which("node") is None,
    reason="needs Node.js and npm (Debian and Ubuntu: apt install nodejs npm)",
)
AG_UI_CLIENTS = ("@ag-ui/client", "ag-ui-client-0")  # "-0": the last before 1.0, which CopilotKit and assistant-ui use
Run = Callable[..., Any]
Json = dict[str, Any]


def make_house(home: Path) -> House:
    command = json.dumps(scripted_agent.command(state=home / "agent", log=home / "prompts"))
    return House(home, f"[agents.demo]\ncommand = {command}\n")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(make_house(tmp_path_factory.mktemp("clients"))) as one:
        yield one


@pytest.fixture
def own_house(tmp_path: Path) -> Iterator[House]:
    """A house that a test stops or kills."""
    with opened(make_house(tmp_path)) as one:
        yield one


@pytest.fixture(scope="module")
def libraries() -> None:
    """The pinned libraries of `clients` are installed."""
    installed = CLIENTS / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (CLIENTS / "package-lock.json").stat().st_mtime:
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=CLIENTS, check=True, capture_output=True, timeout=PATIENCE * 2)


@pytest.fixture(scope="module")
def node(house: House, libraries: None) -> Run:
    """Run a script of `clients` with its pinned libraries; what it is given and what it prints are JSON."""

    def run(name: str, given: Any, *arguments: str) -> Any:
        command = ["node", name, *arguments]
        done = subprocess.run(
            command, cwd=CLIENTS, input=json.dumps(given), capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def token(house: House) -> str:
    return (house.data / "owner.token").read_text().strip()


def client_of(house: House, **options: Any) -> openai.OpenAI:
    import openai  # here, as it is slow, and every worker of a run imports all tests

    return openai.OpenAI(base_url=f"{house.url}/openai/v1", api_key=token(house), **options)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def read_stream(client: openai.OpenAI, text: str, key: str) -> Iterator[str]:
    named = {"Idempotency-Key": key}
    stream = client.chat.completions.create(model="demo", messages=[user(text)], stream=True, extra_headers=named)
    for chunk in stream:
        yield chunk.choices[0].delta.content or ""


def prompts(house: House, mark: str) -> int:
    """How often the agent was given a prompt with this mark."""
    path = house.home / "prompts"
    return sum(mark in each.text for each in scripted_agent.read_prompts(path)) if path.exists() else 0


# ---------------------------------------------------------------- OpenAI's clients


def test_openais_python_client_lists_agents_asks_and_streams(house: House) -> None:
    text = script({"text": "one two three four", "chunks": 4, "delay": 0.02}, {"tool": "ls", "output": ["a"]}, "five")
    with client_of(house) as client:
        assert [model.id for model in client.models.list()] == ["demo"]
        streamed = list(read_stream(client, text, "python-1"))
        answer = client.chat.completions.create(
            model="demo", messages=[user(text)], extra_headers={"Idempotency-Key": "python-1"}
        )
    assert "".join(streamed) == answer.choices[0].message.content == "one two three four\n\nfive"
    assert len([piece for piece in streamed if piece]) > 2


def test_openais_python_client_raises_its_own_errors(house: House) -> None:
    import openai

    failing = script("half", {"error": {"code": -32000, "message": "no credit"}})
    with client_of(house) as client:
        with pytest.raises(openai.NotFoundError, match="agents here: demo"):
            client.chat.completions.create(model="gpt-9", messages=[user("hi")])
        with pytest.raises(openai.BadRequestError, match="one answer"):
            client.chat.completions.create(model="demo", messages=[user("hi")], n=2)
        with pytest.raises(openai.InternalServerError, match="no credit"):
            client.chat.completions.create(model="demo", messages=[user(failing)])
        with pytest.raises(openai.APIError, match="no credit"):
            list(read_stream(client, failing, "python-2"))
    stranger = openai.OpenAI(base_url=f"{house.url}/openai/v1", api_key="wrong")
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_a_dropped_connection_does_not_stop_the_turn(house: House) -> None:
    text = script("dropped one", {"tool": "ls", "output": ["a"]}, {"sleep": 0.5}, "dropped two")
    with client_of(house) as client:
        stream = client.chat.completions.create(
            model="demo", messages=[user(text)], stream=True, extra_headers={"Idempotency-Key": "drop-1"}
        )
        until(lambda: next(iter(stream)).choices[0].delta.content, "the first piece")
        stream.close()
        assert "".join(read_stream(client, text, "drop-1")) == "dropped one\n\ndropped two"
    assert prompts(house, "dropped two") == 1


def test_kill_9_in_mid_stream_and_a_retry_with_the_key_is_one_turn_and_one_answer(own_house: House) -> None:
    import openai

    first, *others = "The answer is", " fourty", "-two, and that is", " all."
    attempts = [[{"text": first}, {"sleep": 60}], [{"text": first + "".join(others), "chunks": 4, "delay": 0.02}]]
    text = script(attempts=attempts, name="kill")
    with client_of(own_house, max_retries=0) as client:
        pieces, seen = read_stream(client, text, "kill-1"), ""
        while first not in seen:
            seen += next(pieces)
        own_house.kill()
        with pytest.raises((openai.APIError, httpx2.HTTPError)):
            list(pieces)
    own_house.up()
    with client_of(own_house) as client:
        answer = "".join(read_stream(client, text, "kill-1"))
        assert answer == "".join(read_stream(client, text, "kill-1"))
    assert answer.count(first) == 1 and answer.endswith(" all.")
    (session,) = [one["key"] for one in own_house.get("/v1/sessions")["sessions"] if answer[:200] in one["last"]]
    assert len(own_house.texts(session, "user")) == 1


@pytest.mark.editors
@needs_node
def test_openais_npm_client_asks_streams_and_gets_errors(house: House, node: Run) -> None:
    where = (f"{house.url}/openai/v1", token(house))
    text = script({"text": "one two three four", "chunks": 4, "delay": 0.02}, {"tool": "ls", "output": ["a"]}, "six")
    request = {"model": "demo", "messages": [user(text)], "key": "npm-1"}
    expected = {"models": ["demo"], "answer": "one two three four\n\nsix"}

    assert node("openai_chat.mjs", {**request, "stream": True}, *where) == expected
    assert node("openai_chat.mjs", request, *where) == expected
    assert node("openai_chat.mjs", {**request, "messages": [user("other")]}, *where)["status"] == 409
    assert node("openai_chat.mjs", {**request, "model": "gpt-9"}, *where)["code"] == "model_not_found"


# ---------------------------------------------------------------- AG-UI's client


@pytest.mark.editors
@needs_node
def test_the_code_of_the_ag_ui_page_compiles_strictly(libraries: None, tmp_path: Path) -> None:
    blocks = read_ag_ui_page()
    (tmp_path / "page.mts").write_text("\n".join(blocks))
    (tmp_path / "node_modules").symlink_to(CLIENTS / "node_modules")
    options = ("--strict", "--noEmit", "--skipLibCheck", "--module", "nodenext", "--types", "node")
    command = ["node", "node_modules/typescript/bin/tsc", *options, "page.mts"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert len(blocks) == 4 and (done.returncode, done.stdout) == (0, "")


def read_ag_ui_page() -> list[str]:
    """Return the TypeScript blocks of docs/ag-ui.md."""
    page = Path(__file__).parents[2] / "docs" / "ag-ui.md"
    return re.findall(r"^```ts\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def run_ag_ui(house: House, node: Run, library: str, thread: str, steps: list[Json]) -> Any:
    """Return what each step gave, in a thread of this library's own. Each library has run ids of its own, too."""
    mine = [{**step, "run": f"{library}-{step['run']}"} for step in steps]
    return node("ag_ui.mjs", mine, library, f"{house.url}/ag-ui/demo", token(house), _name_thread(library, thread))


def ag_ui_session(library: str, thread: str) -> str:
    return f"demo:web:ag-ui-{_name_thread(library, thread)}"


def _name_thread(library: str, thread: str) -> str:
    return f"{thread}-{AG_UI_CLIENTS.index(library)}"


@pytest.mark.editors
@needs_node
@pytest.mark.parametrize("library", AG_UI_CLIENTS)
def test_ag_uis_client_runs_an_agent_and_accepts_every_event(house: House, node: Run, library: str) -> None:
    work = script({"think": "hm"}, "one", {"tool": "ls", "output": ["a\n"], "input": {"path": "/"}}, "two")
    asking = script("before", {"permission": "rm", "allowed": ["allowed"], "denied": ["denied"]})
    failing = script("half", {"error": {"code": -32000, "message": "no credit"}})
    steps = [
        {"run": "a1", "say": work},
        {"run": "a2", "say": asking},
        {"run": "a3", "resume": {"approved": True}},
        {"run": "a4", "say": failing},
    ]
    worked, asked, resumed, failed = run_ag_ui(house, node, library, "agui-1", steps)

    assert (worked["error"], worked["outcome"]) == (None, "success")
    assert worked["messages"] == [
        ["user", work], ["reasoning", "hm"], ["assistant", "one"], ["assistant", "ls"], ["tool", "a\n"],
        ["assistant", "two"],
    ]  # fmt: skip
    assert (asked["outcome"], asked["messages"][-2:]) == ("interrupt", [["assistant", "before"], ["assistant", "rm"]])
    assert (resumed["outcome"], resumed["messages"][-1]) == ("success", ["assistant", "allowed"])
    assert "no credit" in failed["error"] and failed["messages"][-1] == ["assistant", "half"]
    assert house.texts(ag_ui_session(library, "agui-1"), "user") == [work, asking, failing]


@pytest.mark.editors
@needs_node
@pytest.mark.parametrize("library", AG_UI_CLIENTS)
def test_a_repeated_run_of_ag_uis_client_ends_with_each_message_once(house: House, node: Run, library: str) -> None:
    text = script("one two three", {"tool": "ls", "output": ["a\n"]}, "four")
    steps: list[Json] = [{"run": "b1", "say": text}, {"run": "b1"}, {"run": "b1", "forget": "fo"}]
    first, *again = run_ag_ui(house, node, library, "agui-2", steps)

    assert [each["messages"] for each in again] == [first["messages"]] * 2
    assert [each["outcome"] for each in again] == ["success"] * 2
    assert house.texts(ag_ui_session(library, "agui-2"), "user") == [text]


@pytest.mark.editors
@needs_node
@pytest.mark.parametrize("library", AG_UI_CLIENTS)
def test_a_page_that_is_loaded_again_gets_its_conversation_and_goes_on(house: House, node: Run, library: str) -> None:
    text = script("one", {"tool": "ls", "output": ["a\n"]}, {"permission": "rm", "allowed": ["two"], "denied": ["no"]})
    steps: list[Json] = [
        {"run": "e1", "say": text},
        {"run": "e2", "reload": True},
        {"run": "e3", "resume": {"approved": True}},
        {"run": "e4", "reload": True},
        {"run": "e5", "say": script("three")},
    ]
    asked, reloaded, resumed, again, after = run_ag_ui(house, node, library, "agui-5", steps)

    assert (reloaded["outcome"], reloaded["messages"]) == ("interrupt", asked["messages"])  # it is asked again
    assert resumed["messages"][-1] == ["assistant", "two"]
    assert (again["outcome"], again["messages"]) == ("success", resumed["messages"])
    assert after["messages"] == [*again["messages"], ["user", script("three")], ["assistant", "three"]]
    assert house.texts(ag_ui_session(library, "agui-5"), "user") == [text, script("three")]


@pytest.mark.editors
@needs_node
@pytest.mark.parametrize("library", AG_UI_CLIENTS)
def test_ag_uis_client_gets_an_error_that_names_who_answered_before_it(house: House, node: Run, library: str) -> None:
    asking = script({"permission": "rm", "allowed": ["allowed"], "denied": ["denied"]})
    steps = [
        {"run": "c1", "say": asking},
        {"run": "c2", "resume": {"approved": True}, "elsewhere": "reject", "by": "Ann"},
        {"run": "c3", "cancel": True},
        {"run": "c4", "say": script("more")},
    ]
    asked, late, cancelled, after = run_ag_ui(house, node, library, "agui-3", steps)

    assert asked["outcome"] == "interrupt"
    assert late["outcome"] is None and "409" in late["error"]
    assert "by Ann: rm" in late["error"]
    assert (cancelled["error"], cancelled["messages"][-1]) == (None, ["assistant", "denied"])
    assert (after["error"], after["messages"][-1]) == (None, ["assistant", "more"])


@pytest.mark.editors
@needs_node
@pytest.mark.parametrize(("library", "outcome"), [(AG_UI_CLIENTS[0], "cancelled"), (AG_UI_CLIENTS[1], "success")])
def test_the_stop_button_of_the_ag_ui_page_stops_the_turn_and_ends_the_run(
    house: House, node: Run, library: str, outcome: str
) -> None:
    [button] = [block for block in read_ag_ui_page() if "abortRun()" in block]
    steps = [{"run": "d1", "say": script("half", {"hang": True}), "stop": button}]
    (stopped,) = run_ag_ui(house, node, library, "agui 4", steps)  # a blank is escaped in the session's key
    assert (stopped["error"], stopped["outcome"]) == (None, outcome)
    assert stopped["messages"][1] == ["assistant", "half"]
