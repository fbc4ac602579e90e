"""Two processes on one session: the second is refused at the door, and a turn that was taken over is fenced off."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_world import World, script, until

from semel.ledger.delivery.claims import Caller
from semel.ledger.inbound import hear
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.errors import LedgerInUse
from semel.ledger.storage.rows import EntryRow, SessionRow
from semel.ledger.turns import finish_turn, show, turn_ops, turns


async def _there(path: Path) -> bool:
    return path.exists()


async def test_a_second_gateway_on_the_ledger_is_refused_while_the_first_goes_on(tmp_path: Path) -> None:
    async with World(tmp_path) as w:
        await w.ask("hello")
        with pytest.raises(LedgerInUse):
            await World(tmp_path).start()
        up = [sys.executable, "-c", "from semel.faces.cli import main; main()", "up", "--data-dir", str(tmp_path)]
        config = tmp_path / "semel.toml"
        config.write_text(f'[gateway]\nlisten = "127.0.0.1:0"\n[ledger]\nurl = "sqlite:///{tmp_path}/ledger.db"\n')
        done = await asyncio.to_thread(
            subprocess.run, [*up, "--config", str(config)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert "in use" in done.stderr or "another" in done.stderr, done.stderr
        assert "You said: still here" in (await w.ask("still here"))[-1]


async def test_a_turn_that_another_gateway_took_over_writes_nothing_more(tmp_path: Path) -> None:
    """Where the lock fails (a copied disk, a file system that knows none), the epoch and the lease hold (Law 10)."""
    one = Store.open_sync(tmp_path / "ledger.db", exclusive=False)
    two = Store.open_sync(tmp_path / "ledger.db", exclusive=False)
    try:
        event = hear.Event(source="api:s", key="k", kind="message", text="hi", digest=b"d")
        done = one.write_sync(hear.hear, event, [hear.Addressee("s", "main", "web:s")])
        session = done.woken_sessions[0]
        first = one.write_sync(turns.begin, session, "gateway one", 1)
        assert isinstance(first, turns.BegunTurn)
        assert one.write_sync(turns.begin, session, "gateway one") is None
        second = two.write_sync(turns.begin, session, "gateway two")
        assert isinstance(second, turns.BegunTurn)
        assert (second.attempt, second.root, second.epoch) == (2, first.root, first.epoch + 1)
        assert [e.event for e in second.events] == [e.event for e in first.events]
        fence = turns.TurnFence(session, first.turn, first.epoch)
        caller = Caller(session, "s", first.turn, first.root)
        with pytest.raises(turns.Fenced):
            one.write_sync(show.show, fence, caller, [turn_ops.Preview(0, "I am late")], turn_ops.Slots())
        with pytest.raises(turns.Fenced):
            one.write_sync(
                finish_turn.finish, fence, caller, [], turn_ops.Slots(), finish_turn.End("answered", "end_turn")
            )
        slots = two.write_sync(
            show.show, turns.TurnFence(session, second.turn, second.epoch),
            Caller(session, "s", second.turn, second.root), [turn_ops.Preview(0, "I am the one")], turn_ops.Slots(),
        )  # fmt: skip
        assert slots.entries
        assert two.read_sync(
            lambda tx: [e.text for e in tx.all(EntryRow, "entries_last", session=session, before=99, limit=9)]
        )
    finally:
        one.close()
        two.close()


async def test_a_run_that_was_fenced_off_ends_its_agent_and_says_nothing(tmp_path: Path) -> None:
    """A running gateway whose turn another one settled: its next words are refused, its process ends."""
    async with World(tmp_path) as w:
        await w.gateway.say(
            "s", script("shown ", {"touch": str(tmp_path / "a")}, {"wait": str(tmp_path / "b")}, "never shown")
        )
        await until(lambda: _there(tmp_path / "a"))
        number = (await w.gateway.record.read(lambda tx: tx.one(SessionRow, "session_by_key", key="s"))).id
        begun = await w.gateway.store.write(turns.begin, number, "another gateway")
        assert isinstance(begun, turns.BegunTurn)
        (tmp_path / "b").touch()

        async def gone() -> bool:
            return not w.gateway.turns.runs

        await until(gone)
        assert "never shown" not in " ".join(await w.texts("s", "agent"))
        with contextlib.suppress(turns.Fenced):  # this gateway may have taken the turn back by now
            await w.gateway.store.write(turns.release_lease, turns.TurnFence(begun.session, begun.turn, begun.epoch))
        w.gateway.turns.wake(number)
        await w.idle()
