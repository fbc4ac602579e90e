"""The channel and its child process: nothing is lost and nothing comes twice, whatever ends when."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from signal_house import ACCOUNT, SignalHouse, signal, until

from semel.channels.signal import journal, process, receive
from semel.gateway import process_identity
from semel.gateway.ports import Denied, Kept, Missing, NotSent, Offline, Receipt, Unknown

pytestmark = pytest.mark.channels


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "QUIET_S", 0.1)


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[SignalHouse]:
    async with signal(tmp_path, timeout=1.0) as house:
        yield house


def pids(house: SignalHouse) -> list[int]:
    return process_identity.find_tagged_processes(str(house.journal), process.CHANNEL_VARIABLE)


async def run_until_error(house: SignalHouse) -> Exception:
    try:
        await house.channel.run(house.inbox)
    except (Denied, Offline) as error:
        return error
    raise AssertionError("run ended")


async def test_what_was_written_while_nothing_ran_is_heard_once(there: SignalHouse) -> None:
    await there.online()
    await there.stop()
    written = [there.double.write(there.ann, f"message {n}") for n in range(30)]
    await there.again()
    assert [event.key for event in there.inbox.events] == [f"{there.ann}/{time}" for time in written]
    assert there.double.queue == {}


async def test_a_message_from_before_the_first_run_is_not_heard(there: SignalHouse) -> None:
    now = there.double.now
    there.double.now = lambda: now() - 3600
    there.double.write(there.ann, "yesterday")
    there.double.now = now
    there.double.write(there.ann, "today")
    await there.online()
    assert [event.text for event in there.inbox.events] == ["today"]


async def test_a_message_that_was_not_kept_is_read_again(there: SignalHouse) -> None:
    await there.online()
    there.inbox.fail = OSError("no space left on device")
    there.double.write(there.ann, "hello")
    assert there.task is not None
    with pytest.raises(OSError, match="no space"):
        await there.task
    assert there.double.queue == {}  # signal-cli has forgotten it
    await there.again()
    assert [event.text for event in there.inbox.events] == ["hello"]


async def test_a_program_that_dies_before_it_answers_leaves_it_unknown_and_is_started_again(there: SignalHouse) -> None:
    await there.online()
    await there.channel.send(there.op("first"))
    there.double.fail("send", "die", after=True)
    with pytest.raises(Unknown):
        await there.channel.send(there.op("second"))
    with contextlib.suppress(NotSent):
        await there.channel.send(there.op("third"))
    await until(lambda: len(there.double.starts) == 2)
    while True:
        with contextlib.suppress(NotSent):
            await there.channel.send(there.op("fourth"))
            break
        await asyncio.sleep(0.05)
    assert there.double.texts(there.ann) == ["first", "second", "fourth"]
    assert there.task is not None and not there.task.done()


async def test_a_program_that_is_killed_again_and_again_without_use_is_offline(
    there: SignalHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "MAX_USELESS_RUNS", 1)
    monkeypatch.setattr(receive, "RESTART_DELAY_S", 0.01)
    await there.online()
    assert there.task is not None
    for run in range(2):
        await there.inbox.wait_online(run + 1)
        assert not there.task.done()
        [pid] = pids(there)
        os.kill(pid, signals.SIGKILL)
    with pytest.raises(Offline, match="exit code -9"):
        await there.task


async def test_an_answer_to_a_gateway_that_was_stopped_settles_its_part(there: SignalHouse) -> None:
    await there.online()
    there.double.fail("send", "slow", seconds=0.3)
    sending = asyncio.create_task(there.channel.send(there.op("late", key="k1")))
    await until(lambda: bool(there.double.requests) or there.channel._cli.is_waiting)
    await asyncio.sleep(0.1)
    sending.cancel()
    await there.stop()  # the end of its input lets signal-cli finish
    await there.again()
    [echo] = [event for event in there.inbox.events if event.kind == "echo"]
    assert (echo.key, echo.of) == ("k1", f"self/{there.double.sent[0].time}")


async def test_a_program_that_outlived_its_gateway_is_ended(
    there: SignalHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LEFTOVER_GRACE_S", 0.2)
    env = {**os.environ, process.CHANNEL_VARIABLE: str(there.journal)}
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    left = await asyncio.to_thread(subprocess.Popen, command, env=env)
    await until(lambda: left.pid in pids(there))
    await there.online()
    assert left.wait(5) == -signals.SIGKILL
    assert len(pids(there)) == 1
    await there.stop()
    assert pids(there) == []


async def test_a_second_program_on_the_account_is_told_of(there: SignalHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    await there.online()
    monkeypatch.setattr(receive, "OTHER_PROGRAM_WAIT_S", 0.2)
    second = there.fresh(journal=str(there.tmp_path / "other"))
    with pytest.raises(Offline, match="another signal-cli uses this account"):
        await second.run(there.inbox)


async def test_a_start_that_fails_says_what_to_do(there: SignalHouse) -> None:
    there.double.registered = False
    error = await run_until_error(there)
    assert isinstance(error, Denied) and f"signal-cli -a {ACCOUNT} register" in str(error)
    there.double.registered, there.double.version = True, "0.12.8"
    assert "0.13 or a newer one" in str(await run_until_error(there))
    there.double.version, there.double.start_error = "0.13.0", (3, "Connection reset")
    error = await run_until_error(there)
    assert isinstance(error, Offline) and "Connection reset" in str(error)
    there.channel = there.fresh(command=[str(there.tmp_path / "nowhere")])
    assert "there is no program" in str(await run_until_error(there))
    with pytest.raises(NotSent):
        await there.channel.send(there.op("x"))


async def test_a_program_that_hangs_is_started_anew(there: SignalHouse) -> None:
    await there.online()
    there.double.fail("*", "hang", times=2)
    with pytest.raises(Unknown, match="did not answer within 1 s"):
        await there.channel.send(there.op("x"))
    assert there.task is not None
    with pytest.raises(Offline, match="does not answer any more"):
        await there.task
    assert pids(there) == []
    await there.again()
    assert isinstance(await there.channel.send(there.op("y")), Receipt)


async def test_a_late_answer_of_a_program_that_does_not_hang_settles_its_part(there: SignalHouse) -> None:
    await there.online()
    there.double.fail("send", "slow", seconds=1.3)
    with pytest.raises(Unknown):
        await there.channel.send(there.op("x", key="k1"))
    [echo] = await there.inbox.wait(1)
    assert (echo.kind, echo.key) == ("echo", "k1")
    assert there.task is not None and not there.task.done()


async def test_files_come_from_signal_clis_directory(there: SignalHouse) -> None:
    (there.config / "attachments").mkdir()
    (there.config / "attachments" / "a1.png").write_bytes(b"cat")
    await there.online()
    files: list[dict[str, Any]] = [
        {"contentType": "image/png", "filename": "cat.png", "id": "a1.png", "size": 3},
        {"contentType": "image/png", "filename": "dog.png", "id": "a2.png", "size": 3},
        {"contentType": "image/png", "filename": "up.png", "id": "../data/accounts.json", "size": 3},
        {"contentType": "image/png", "filename": "none.png", "id": None, "size": 3},
    ]
    there.double.write(there.ann, "look", attachments=files)
    [event] = await there.inbox.wait(1)
    cat, *others = event.files
    assert isinstance(cat, Kept) and (cat.name, cat.size) == ("cat.png", 3)
    assert [type(other) for other in others] == [Missing] * 3


async def test_a_file_is_sent_under_its_name(there: SignalHouse) -> None:
    stored = there.tmp_path / "0a1b"
    stored.write_bytes(b"cat")
    await there.online()
    await there.channel.send(there.op("look", kind="file", file=stored, name="cat.png"))
    [message] = there.double.shown(there.ann)
    assert (message.text, message.files) == ("look", {"cat.png": b"cat"})


async def test_edits_are_remembered_over_a_restart(there: SignalHouse) -> None:
    await there.online()
    receipt = await there.channel.send(there.op("a"))
    await there.channel.send(there.op("b", kind="edit", target=receipt.id))
    [sent] = there.double.sent
    first = there.double.write(there.bob, "hello")
    second = there.double.edit(there.bob, first, "hallo")
    await there.inbox.wait(2)
    await there.again()
    there.double.edit(there.bob, second, "holla")
    there.double.react(there.bob, "00000000-5e3e-4000-8000-000000000000", sent.edits[0], "👍")
    events = await there.inbox.wait(4)
    assert [event.of for event in events[2:]] == [f"{there.bob}/{first}", receipt.id]
    await there.channel.send(there.op("c", kind="edit", target=receipt.id))
    assert [message.text for message in there.double.shown(there.ann)] == ["c"]


async def test_a_large_journal_is_followed_by_another(there: SignalHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_FILE_BYTES", 100)
    await there.online()
    there.double.write(there.ann, "one")
    await there.inbox.wait(1)
    await there.inbox.wait_online(2)  # signal-cli was started anew
    there.double.write(there.ann, "two")
    await there.inbox.wait(2)
    await until(lambda: [path.name for path in there.journal.iterdir()] == ["journal-3.jsonl"])
    await there.inbox.wait_online(3)
    assert isinstance(await there.channel.send(there.op("x")), Receipt)
    assert [event.text for event in there.inbox.events] == ["one", "two"]
    assert there.task is not None and not there.task.done()


async def test_a_line_that_broke_off_is_kept_and_later_ones_are_heard(there: SignalHouse) -> None:
    await there.online()
    await there.stop()
    with (there.journal / "journal-1.jsonl").open("ab") as file:
        file.write(b'{"jsonrpc":"2.0","method":"rec')
    there.double.write(there.ann, "hello")
    await there.again()
    assert [event.kind for event in there.inbox.events] == ["unreadable", "message"]
