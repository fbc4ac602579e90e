"""`semel up` with a model agent: a real gateway process, killed and started anew in the middle of things."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "system"))

import pytest
from model_server import Answer, ModelServer, Request
from system_house import House, until


@contextmanager
def served(*answers: Answer | Callable[[Request], Answer]) -> Iterator[ModelServer]:
    """A scripted API in a thread of its own: the test itself waits on processes."""
    loop = asyncio.new_event_loop()
    api = ModelServer(*answers)
    ready = threading.Event()
    over = asyncio.Event()

    async def serve() -> None:
        async with api:
            ready.set()
            await over.wait()
        held = asyncio.all_tasks() - {asyncio.current_task()}  # answers that a test never let go on
        for one in held:
            one.cancel()
        await asyncio.gather(*held, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield api
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(30)
        loop.close()


def house(home: Path, api: ModelServer, more: str = "") -> House:
    config = f"""
[agents.main]
kind = "model"
model = "openai-chat:scripted"
base_url = "{api.url}/v1"
key = "env:MODEL_KEY"
cwd = "work"
permissions = "allow"
{more}
"""
    (home / "work").mkdir()
    return House(home, config, env={"MODEL_KEY": "sk-of-the-test"})


@pytest.mark.storm
def test_a_gateway_that_is_killed_in_a_command_goes_on_from_the_record(tmp_path: Path) -> None:
    """Law 9 and 10: the command dies with its gateway, and is not run again by itself."""
    command = "echo once >> log; echo $$ > pid; sleep 300"
    answers = [Answer(["On it."], calls=[("shell", {"command": command})]), Answer(["It was interrupted."])]
    with served(*answers) as api:
        gateway = house(tmp_path, api).up()
        gateway.say("s", "Run it")
        pid = tmp_path / "work" / "pid"
        until(lambda: pid.exists() and pid.read_text().strip(), "the command's start")
        gateway.kill()
        until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), "the command's end")
        gateway.up()
        until(lambda: "It was interrupted." in gateway.texts("s"), "the answer")
        gateway.idle("s")
        assert (tmp_path / "work" / "log").read_text() == "once\n"
        assert gateway.texts("s") == ["On it.", "It was interrupted."]
        assert gateway.texts("s", "user") == ["Run it"]
        told = "\n".join(text for _, text in api.requests[-1].talk)
        assert "echo once >> log" in told
        gateway.doctor()
        assert gateway.end() == 0


def test_a_gateway_that_is_killed_in_the_text_answers_after_its_start(tmp_path: Path) -> None:
    gate = asyncio.Event()
    answers = [Answer(["Half of ", "never"], gate=gate), Answer(["Half of it, and the rest."])]
    with served(*answers) as api:
        gateway = house(tmp_path, api).up()
        gateway.say("s", "Tell me")
        until(lambda: "Half of " in gateway.texts("s"), "the first words")
        gateway.kill()
        gateway.up()
        until(lambda: "Half of it, and the rest." in gateway.texts("s"), "the answer")
        gateway.idle("s")
        counted = [e["text"] for e in gateway.entries("s") if e["role"] == "agent" and not e.get("superseded")]
        assert counted == ["Half of it, and the rest."]
        assert gateway.texts("s", "user") == ["Tell me"]
        gateway.doctor()
        assert gateway.end() == 0


def test_a_background_job_of_a_model_wakes_it(tmp_path: Path) -> None:
    answers = [
        Answer([], calls=[("run_in_background", {"command": "echo ran > out"})]),
        Answer(["Started."]),
        Answer(["It ended."]),
    ]
    with served(*answers) as api:
        gateway = house(tmp_path, api).up()
        gateway.say("s", "Run it meanwhile")
        until(lambda: "It ended." in gateway.texts("s"), "the turn that the end of the job asks for")
        gateway.idle("s")
        assert (tmp_path / "work" / "out").read_text() == "ran\n"
        assert api.requests[2].talk[:2] == [("user", "Run it meanwhile"), ("assistant", "Started.")]
        assert "its text is data" in api.requests[2].talk[-1][1]
        gateway.doctor()
        assert gateway.end() == 0


def test_a_model_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    with served() as api:
        gateway = house(tmp_path, api)
        gateway.config = gateway.config.replace("openai-chat:", "nobody:")
        process = gateway.start()
        assert process.wait(90) != 0
        assert 'pydantic-ai knows no provider "nobody"' in gateway.log
        assert "Traceback" not in gateway.log


@pytest.mark.storm
def test_a_gateway_that_is_killed_while_older_turns_are_summarised_asks_for_it_again(tmp_path: Path) -> None:
    """Laws 4 and 9: nothing of it was recorded, so nothing is doubled; then it stands, marked as what it is."""
    long = "word " * 400
    gate = asyncio.Event()
    held = [Answer(["They spoke", " at length."], gate=gate), Answer(["They spoke again."])]
    asked: list[Request] = []

    def answers(request: Request) -> Answer:
        if request.system.startswith("You summarise"):
            asked.append(request)
            return held[len(asked) - 1]
        return Answer(["Fine."])

    with served(*[answers] * 40) as api:
        gateway = house(tmp_path, api, "context = 4000").up()
        said = 0
        while not asked:
            said += 1
            gateway.say("s", f"u{said} {long}")
            until(lambda n=said: asked or len(gateway.texts("s")) == n, "an answer, or a request for a summary")
        gateway.kill()
        gateway.up()
        until(lambda: len(gateway.texts("s")) == said, "the answer")
        gateway.idle("s")
        assert len(asked) == 2
        assert [e["text"] for e in gateway.entries("s") if e.get("kind") == "summary"] == ["They spoke again."]
        assert gateway.texts("s", "user") == [f"u{n} {long}" for n in range(1, said + 1)]
        assert "They spoke again." in api.requests[-1].talk[0][1]
        [line] = [one for one in gateway.cli("show", "s").stdout.splitlines() if "They spoke again." in one]
        assert "summary (of 1 to " in line
        assert "made by the agent's model" in line
        gateway.doctor()
        assert gateway.end() == 0
