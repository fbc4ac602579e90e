"""The way from one gateway to the database: a socket of its own, which can fall silent without being closed."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable
from pathlib import Path

CHUNK = 65536
SOCKET_NAME = ".s.PGSQL.5432"  # how libpq names a server's socket in the folder that a URL has as `host`
COMMIT = (b"worker_mark", b"COMMIT")  # what a transaction that has written sends at its end


class Link:
    """Passes the bytes of each connection on. While it is cut, it holds them back, as a network does that drops all
    packets: nobody is told, and what was on its way arrives once the link is whole again.

    `loses`: of so many commits, the answer to one is lost, and the connection with it; 0: none is. `lost`: how many.
    """

    def __init__(self, folder: Path, server: Path, loses: int = 0) -> None:
        folder.mkdir()
        self._server = str(server / SOCKET_NAME)
        self._loses, self._commits, self.lost = loses, itertools.count(1), 0
        self._to_server, self._to_gateway = threading.Event(), threading.Event()
        self.heal()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET_NAME))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, answers_only: bool = False) -> None:
        """Hold back what the gateway says and what the server answers, or the answers alone."""
        self._to_gateway.clear()
        if not answers_only:
            self._to_server.clear()

    def heal(self) -> None:
        self._to_server.set()
        self._to_gateway.set()

    def close(self) -> None:
        self.heal()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                gateway, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(gateway,), daemon=True).start()

    def _serve(self, gateway: socket.socket) -> None:
        self._to_server.wait()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._server)
        except OSError:  # the server is down
            gateway.close()
            server.close()
            return
        has_failed = threading.Event()  # the next answer is lost
        back = threading.Thread(
            target=_pass_on, args=(server, gateway, self._to_gateway, lambda _: has_failed.is_set()), daemon=True
        )
        back.start()

        def fail_at_commit(chunk: bytes) -> bool:
            if self._loses and all(part in chunk for part in COMMIT) and next(self._commits) % self._loses == 0:
                self.lost += 1
                has_failed.set()
            return False

        _pass_on(gateway, server, self._to_server, fail_at_commit)
        back.join()
        gateway.close()
        server.close()


def _pass_on(
    source: socket.socket, target: socket.socket, is_open: threading.Event, loses: Callable[[bytes], bool]
) -> None:
    """Pass bytes on until one side closes, or a piece is lost."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(CHUNK):
            is_open.wait()
            if loses(chunk):
                break
            target.sendall(chunk)
    with contextlib.suppress(OSError):
        is_open.wait()
        target.shutdown(socket.SHUT_WR)
    with contextlib.suppress(OSError):
        source.shutdown(socket.SHUT_RD)
