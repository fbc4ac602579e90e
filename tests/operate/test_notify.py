"""What the gateway tells systemd, read from a real socket of the protocol of sd_notify(3)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from system_house import DEMO, House, opened, until

from semel.faces.service.notify import ServiceManager
from semel.ledger.sqlite.store import Store
from semel.ledger.storage.sql import Tx


class Manager:
    """The end of the protocol that systemd has. `messages`: those that came, oldest first."""

    def __init__(self, address: str) -> None:
        self.messages: list[dict[str, str]] = []
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.bind(address)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while message := self._sock.recv(4096).decode():
                self.messages.append(dict(line.split("=", 1) for line in message.splitlines()))

    def count(self, name: str) -> int:
        return sum(name in message for message in self.messages)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


@contextlib.contextmanager
def listening(address: str) -> Iterator[Manager]:
    manager = Manager(address)
    try:
        yield manager
    finally:
        manager.close()


def test_a_gateway_tells_when_it_is_ready_alive_and_stopping(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with listening(address) as manager:
        env = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "600000"}
        with opened(House(tmp_path, DEMO, env=env)) as house:
            until(lambda: manager.messages, "it is ready")
            assert manager.messages[0] == {"READY": "1", "STATUS": f"serving {house.url}; 0 running turns"}
            until(lambda: manager.count("WATCHDOG") > 3, "it is alive")
            assert manager.count("STOPPING") == 0
        until(lambda: manager.count("STOPPING"), "it stops")
        assert manager.messages[-1]["STOPPING"] == "1"
        assert int(manager.messages[-1]["EXTEND_TIMEOUT_USEC"]) > 10e6, "the grace period of turns is 10 s"


async def test_the_watchdog_is_not_fed_while_the_ledgers_writer_hangs(tmp_path: Path) -> None:
    address, hang, hangs = f"@semel-test-{time.monotonic_ns()}", threading.Event(), threading.Event()

    def wait(tx: Tx) -> None:
        hangs.set()
        hang.wait(60)

    store = await asyncio.to_thread(Store.open, tmp_path / "ledger.db")
    with listening("\0" + address[1:]) as manager:
        async with ServiceManager(address, 0.15).supervise(store, lambda: "fine", 0.0):
            await asyncio.to_thread(until, lambda: manager.count("WATCHDOG") > 1, "it is alive")
            blocked = asyncio.create_task(store.write(wait))
            await asyncio.to_thread(hangs.wait, 60)
            await asyncio.sleep(0.1)  # a message that was already under way
            fed = manager.count("WATCHDOG")
            await asyncio.sleep(0.5)
            assert manager.count("WATCHDOG") == fed
            hang.set()
            await blocked
            await asyncio.to_thread(until, lambda: manager.count("WATCHDOG") > fed, "it is alive again")
    await asyncio.to_thread(store.close)


def test_the_managers_variables_are_taken_out_of_the_environment() -> None:
    env = {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1", "HOME": "/"}
    assert ServiceManager.from_environment(env).watchdog_s is None, "it watches another process"
    assert env == {"HOME": "/"}
    assert ServiceManager.from_environment({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "30000000"}).watchdog_s == 30.0


def test_without_a_service_manager_nothing_is_sent() -> None:
    ServiceManager.from_environment({}).notify(READY="1")


def test_a_manager_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    ServiceManager(str(tmp_path / "gone")).notify(READY="1")
