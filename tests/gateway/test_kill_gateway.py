"""`kill -9` of a whole running gateway, over and over: every message heard once, answered once, and the books hold."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from proof.conversations import judge_conversations, read_record
from semel.ledger.admin import books
from semel.ledger.admin.explain import AddressedSession
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.rows import EntryRow, TurnRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import views
from semel.testing import scripted_agent

pytestmark = pytest.mark.storm

Json = dict[str, Any]
MESSAGES = 24
KILLS = 8


class House:
    """`semel up` as a process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (path / "work").mkdir()
        self.config = path / "semel.toml"
        agent = json.dumps(scripted_agent.command(state=path / "agent"))
        self.config.write_text(
            f'[gateway]\nlisten = "127.0.0.1:{self.port}"\ndata_dir = "{path}/data"\n'
            f'[agents.demo]\ncommand = {agent}\ncwd = "{path}/work"\n'
        )
        self.process: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        command = [sys.executable, "-c", "from semel.faces.cli import main; main()", "up", "--config", str(self.config)]
        with (self.path / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not self.healthy():
            assert time.monotonic() < deadline, (self.path / "log").read_text()[-2000:]
            time.sleep(0.02)

    def healthy(self) -> bool:
        try:
            return bool(httpx2.get(f"http://127.0.0.1:{self.port}/healthz", timeout=1).status_code == 200)
        except httpx2.HTTPError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def say(self, session: str, text: str, key: str) -> bool:
        """Whether it was acknowledged."""
        url = f"http://127.0.0.1:{self.port}/v1/sessions/{session}/messages"
        try:
            return bool(httpx2.post(url, json={"text": text, "id": key}, timeout=5).status_code == 202)
        except httpx2.HTTPError:
            return False

    def busy(self) -> bool:
        found = httpx2.get(f"http://127.0.0.1:{self.port}/v1/sessions", timeout=5).json()["sessions"]
        return any(s["state"] != "idle" for s in found)


def test_every_message_is_answered_once_however_often_the_gateway_is_killed(tmp_path: Path) -> None:
    house = House(tmp_path)
    dice = random.Random(5)
    texts = {f"k{n}": f"Answer {n}." for n in range(MESSAGES)}
    unsaid = list(texts)
    house.up()
    for _ in range(KILLS):
        until = time.monotonic() + dice.uniform(0.4, 1.2)
        while time.monotonic() < until:
            if unsaid:
                key = unsaid[0]
                if house.say(f"s{int(key[1:]) % 3}", _asking(texts[key]), key):
                    unsaid.pop(0)
            time.sleep(dice.uniform(0, 0.05))
        house.kill()
        house.up()
    for key in unsaid:
        assert house.say(f"s{int(key[1:]) % 3}", _asking(texts[key]), key)
    for key in texts:  # every one is delivered again: nothing more may come of it
        assert house.say(f"s{int(key[1:]) % 3}", _asking(texts[key]), key)
    deadline = time.monotonic() + 90
    while house.busy():
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()[-3000:]
        time.sleep(0.1)
    house.kill()
    _judge(tmp_path / "data" / "ledger.db", texts)


def _asking(text: str) -> str:
    return f"[[script {json.dumps({'steps': [{'text': text, 'chunks': 4, 'delay': 0.02}]})}]]"


def _judge(path: Path, texts: dict[str, str]) -> None:
    assert list(judge_conversations(read_record(path), {})) == []
    store = Store.open_sync(path)
    try:
        assert not [b for b in store.read_sync(books.audit) if not b.ok]
        for key in texts:
            event = store.read_sync(lambda tx, key=key: tx.value(int, "event_by_key", key=key))
            heard = store.read_sync(lambda tx, event=event: tx.all(AddressedSession, "hearings_of_event", event=event))
            assert len(heard) == 1
            assert heard[0].state in ("done", "failed")
            # It may be the entry of a lost attempt: another attempt that says the same is an echo of it (Law 5).
            entries = store.read_sync(lambda tx, root=heard[0].root: _entries_of_root(tx, root))
            answers = [e for e in entries if e.role == "agent" and not e.partial]
            notices = [e for e in entries if e.role == "notice"]
            assert len(answers) == 1 if heard[0].state == "done" else notices
        users = sum(r["role"] == "user" for n in range(3) for r in _entries(store, f"s{n}"))
        assert users == len(texts)
    finally:
        store.close()


def _entries_of_root(tx: Tx, root: int) -> list[EntryRow]:
    turns = tx.all(TurnRow, "turns_of_root", root=root)
    return [entry for turn in turns for entry in tx.all(EntryRow, "entries_of_turn", turn=turn.id)]


def _entries(store: Store, key: str) -> list[Json]:
    row = store.read_sync(views.find_session, key)
    assert row is not None
    found: list[Json] = store.read_sync(views.read_entries, row.id, 0, 10_000)[0]
    return found
