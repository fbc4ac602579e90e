"""Sessions and commands as people have them: the command line, HTTP, a webhook, and `kill -9` in between."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jobs_house import CONFIG, jobs, processes, rest, start
from system_house import DEMO, House, channel, opened, receiver, script, until

from semel.ledger.storage.rows import EventRow

Json = dict[str, Any]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(House(tmp_path_factory.mktemp("faces"), CONFIG)) as house:
        yield house


def ask(house: House, method: str, path: str, body: Any = None) -> httpx2.Response:
    return house.request(method, path, json=body)


def keys(house: House, *more: str) -> list[str]:
    return [row["key"] for row in json.loads(house.cli("sessions", "--json", *more).stdout)]


def test_the_command_line_renames_archives_and_deletes(house: House) -> None:
    house.say("demo:c", "hello")
    house.idle("demo:c")
    assert "is called Garden" in house.cli("session", "rename", "demo:c", "Garden").stderr
    assert "Garden" in house.cli("sessions").stdout
    assert "from you" in house.cli("session", "rename", "demo:c", "").stderr
    house.cli("session", "archive", "demo:c")
    assert ("demo:c" in keys(house), "demo:c" in keys(house, "--archived")) == (False, True)
    house.cli("session", "unarchive", "demo:c")
    assert "demo:c" in keys(house)
    assert "a new chapter of demo:c begins" in house.cli("session", "new", "demo:c").stderr
    assert "--yes" in house.cli("session", "delete", "demo:c", rc=2).stderr
    assert "demo:c" in keys(house)
    house.cli("session", "delete", "demo:c", "--yes")
    assert "demo:c" not in keys(house)
    assert "no session" in house.cli("session", "delete", "demo:c", "--yes", rc=1).stderr
    assert "no session" in house.cli("session", "rename", "demo:nobody", "x", rc=1).stderr


def test_say_waits_for_the_answer_to_a_command(house: House) -> None:
    house.say("demo:w", "hello")
    house.idle("demo:w")
    assert "State: idle" in house.cli("say", "demo:w", "/status", "--wait").stdout
    assert "did you mean /stop?" in house.cli("say", "demo:w", "/stpo", "--wait").stdout


def test_the_api_changes_a_session_and_begins_a_chapter_once(house: House) -> None:
    path = "/v1/sessions/demo:h"
    assert ask(house, "PATCH", path, {"title": "x"}).status_code == 404
    house.say("demo:h", "hello")
    house.idle("demo:h")
    changed = ask(house, "PATCH", path, {"title": "A  title", "archived": True}).json()
    assert (changed["title"], changed["archived"]) == ("A title", True)
    assert ask(house, "PATCH", path, {}).json()["title"] == "A title"
    assert ask(house, "PATCH", path, {"title": "x" * 201}).status_code == 400
    assert ask(house, "PATCH", path, {"title": None, "archived": False}).json().get("title") is None
    first = ask(house, "POST", f"{path}/chapter", {"by": "Ada", "id": "c1"})
    again = ask(house, "POST", f"{path}/chapter", {"by": "Ada", "id": "c1"})
    assert (first.status_code, first.json()["status"], again.json()["status"]) == (202, "accepted", "duplicate")
    assert ask(house, "GET", path).json()["chapter"] == 2
    assert ask(house, "DELETE", path).status_code == 204
    assert ask(house, "DELETE", path).status_code == ask(house, "GET", path).status_code == 404


def test_a_deleted_session_ends_its_background_jobs_and_is_not_begun_anew_by_them(house: House) -> None:
    job = start(house, "demo:j", "echo secret; sleep 600")
    rest(house, "demo:j")
    assert processes(job)
    assert ask(house, "DELETE", "/v1/sessions/demo:j").status_code == 204
    until(lambda: not processes(job), "the end of the job's processes")
    until(lambda: house.get("/v1/jobs")["jobs"] == [], "the end of the job")
    assert "demo:j" not in keys(house)
    house.doctor()
    house.say("demo:j", "hello again")
    rest(house, "demo:j")
    assert [one["text"] for one in house.entries("demo:j") if one["role"] == "event"] == []
    assert [one["command"] for one in jobs(house, "demo:j")] == [""]


def test_a_webhook_that_is_delivered_again_commands_once_and_the_answer_goes_back(tmp_path: Path) -> None:
    with receiver() as platform:
        made = House(tmp_path, DEMO + channel("hook", platform.url, sessions=["demo:*"]))
        with opened(made) as house:
            body = {"session": "demo:hook:room", "text": "/help", "sender": "Ada"}
            for _ in range(3):
                assert house.hook("hook", body, "w1").status_code == 202
            until(lambda: platform.shown, "the answer")
            assert len(platform.shown) == 1 and "/retry" in platform.shown[0]
            assert house.hook("hook", {**body, "text": "/stpo"}, "w2").status_code == 202
            until(lambda: len(platform.shown) == 2, "the second answer")
            assert "did you mean /stop?" in platform.shown[1]
            assert house.texts("demo:hook:room", "agent") == []


@pytest.mark.storm
def test_a_gateway_killed_while_it_is_told_to_retry_retries_once(tmp_path: Path) -> None:
    dice = random.Random(5)
    with opened(House(tmp_path, DEMO)) as house:
        house.say("demo:r", script({"error": {"code": 1, "message": "broken"}}, name="r"))
        house.idle("demo:r")
        for n in range(3):
            retries = len([one for one in house.entries("demo:r") if one["text"] == "/retry"])
            killer = threading.Timer(dice.uniform(0.0, 0.06), house.kill)
            killer.start()
            told = False
            try:
                answer = ask(house, "POST", "/v1/sessions/demo:r/messages", {"text": "/retry", "id": f"r{n}"})
                told = answer.status_code == 202
            except httpx2.HTTPError:
                pass
            killer.join()
            house.up()
            if not told:
                ask(house, "POST", "/v1/sessions/demo:r/messages", {"text": "/retry", "id": f"r{n}"})
            repeat = ask(house, "POST", "/v1/sessions/demo:r/messages", {"text": "/retry", "id": f"r{n}"})
            assert repeat.json()["status"] == "duplicate"
            house.idle("demo:r")
            until(lambda n=n: _answered(house, n + 1), "the answer to /retry")
            rows = house.entries("demo:r")
            assert len([one for one in rows if one["text"] == "/retry"]) == retries + 1
            house.doctor()
        answers = [one["text"] for one in house.entries("demo:r") if one.get("kind") == "command" and "of" in one]
        assert all("runs again" in text for text in answers)
        assert len(answers) == 3


def _answered(house: House, many: int) -> bool:
    return len([one for one in house.entries("demo:r") if one.get("kind") == "command" and "of" in one]) == many


@pytest.mark.storm
def test_a_gateway_killed_while_it_deletes_goes_on_with_it(tmp_path: Path) -> None:
    with opened(House(tmp_path, DEMO)) as house:
        for n in range(2):
            for m in range(40):
                body = {"kind": "note", "text": f"secret {m}", "wakes": False}
                assert ask(house, "POST", f"/v1/sessions/demo:d{n}/events", body).status_code == 202
            killer = threading.Timer(0.004 * n, house.process.send_signal, [signal.SIGKILL])  # type: ignore[union-attr]
            killer.start()
            try:
                ask(house, "DELETE", f"/v1/sessions/demo:d{n}")
            except httpx2.HTTPError:
                pass
            killer.join()
            house.kill()
            house.up()
            ask(house, "DELETE", f"/v1/sessions/demo:d{n}")
            assert f"demo:d{n}" not in keys(house)
            time.sleep(0)
        until(lambda: not _secrets(house), "the end of the erasure")
        house.doctor()


def _secrets(house: House) -> int:
    """How much of what was deleted the ledger still holds."""
    from semel.ledger.sqlite.store import Store

    with Store.open_sync(house.data / "ledger.db", exclusive=False) as store:
        return sum(
            "secret" in str(row.payload)
            for n in range(1, 130)
            for row in [store.read_sync(lambda tx, n=n: tx.one(EventRow, "event_get", id=n))]
            if row is not None
        )
