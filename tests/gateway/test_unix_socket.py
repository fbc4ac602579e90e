"""The gateway's unix socket: who can reach it, and what is at its path already (semel.gateway.unix_socket)."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.gateway.unix_socket import MAX_PATH_BYTES, SocketRefused, UnixListener, socket_path

NOBODY = 65534
CONNECT = """
import os, socket, sys
os.setgroups([])
os.setuid(int(sys.argv[2]))
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    print("denied")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "gateway.sock"


@pytest.fixture
def listener(path: Path) -> Iterator[UnixListener]:
    listener = UnixListener(path)
    yield listener
    listener.close()


def connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(os.fspath(path))


def test_only_the_owner_can_reach_the_socket(listener: UnixListener, path: Path) -> None:
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.root
@pytest.mark.parametrize("closed", ["directory", "socket"])
def test_a_process_of_another_user_cannot_connect(closed: str) -> None:
    """Neither through the directory nor, if that were open to all, to the socket in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run" / "gateway.sock"
        listener = UnixListener(path)
        Path(folder).chmod(0o755)
        if closed == "socket":
            path.parent.chmod(0o755)
        command = [sys.executable, "-I", "-S", "-c", CONNECT, str(path), str(NOBODY)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stdout == "denied\n", done.stderr
        listener.close()


def test_a_socket_that_is_closed_is_gone(listener: UnixListener, path: Path) -> None:
    connect(path)
    listener.close()
    assert not path.exists()


def test_the_socket_of_a_dead_gateway_is_replaced(path: Path) -> None:
    path.parent.mkdir()
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(os.fspath(path))
    dead.close()
    listener = UnixListener(path)
    connect(path)
    listener.close()


def test_the_socket_of_a_living_gateway_is_left_alone(listener: UnixListener, path: Path) -> None:
    with pytest.raises(SocketRefused, match="another gateway listens"):
        UnixListener(path)
    connect(path)


def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(SocketRefused, match="not a socket"):
        UnixListener(path)
    assert path.read_text() == "mine"


def test_a_gateway_that_stops_late_does_not_take_its_successors_socket(listener: UnixListener, path: Path) -> None:
    path.unlink()
    successor = UnixListener(path)
    listener.close()
    connect(path)
    successor.close()


def test_a_directory_that_others_may_enter_is_closed_to_them_first(path: Path) -> None:
    path.parent.mkdir(mode=0o755)
    listener = UnixListener(path)
    assert stat.S_IMODE(path.parent.lstat().st_mode) == 0o700
    listener.close()


def test_a_directory_that_is_a_symbolic_link_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(SocketRefused, match="must be a directory of this user"):
        UnixListener(tmp_path / "link" / "g.sock")


def test_a_path_too_long_for_a_socket_is_said_to_be_and_has_a_short_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    with pytest.raises(SocketRefused, match="too long"):
        UnixListener(deep / "gateway.sock")
    with tempfile.TemporaryDirectory() as runtime_dir:  # tmp_path has the user's name in it, however long
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime_dir)
        short = socket_path(deep)
        assert len(os.fsencode(short)) <= MAX_PATH_BYTES
        assert short == socket_path(deep) != socket_path(deep / "other")
        assert socket_path(Path("/short")) == Path("/short/gateway.sock")
        listener = UnixListener(short)
        connect(short)
        listener.close()
