"""Find the gateway of a data directory: read the address file that it writes there, which names its unix socket.

File and socket are used only if nobody but this user or root can have created them. So whoever answers at the socket is
this user's gateway. Only this user (or root) can connect to it, so it asks for no token. A killed gateway leaves file
and socket behind; then nobody answers at the socket.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from semel.tools import trusted_files

PF_EXITING = 0x4  # Linux, include/linux/sched.h: the process has begun to end

GATEWAY_FILE = "gateway.json"
"""Written into the data directory while the gateway runs: {"url", "socket", "pid", "inode", "config", "waiting"?,
"gives_way"?}.

"inode" is the directory's own: a copy of the directory that was made meanwhile does not lead to the gateway.
"config" is the path of the configuration file that the gateway read; "" if it read none. "waiting" is the name of a
gateway of a cluster that is not the active one: then the active one answers at this address. "gives_way" is there if
the gateway ends for the next `semel up`, as one that an editor started does.
"""
START_LOCK_FILE = "starting.lock"
"""In the data directory, locked by who starts a gateway until it answers: an editor, or a person's `semel up`."""
LAST_CONFIG_FILE = "last-config.json"
"""Written into the data directory when the gateway starts, and kept: {"config"}, as in GATEWAY_FILE."""
WAIT_FILE = "waiting.json"
"""Written into the data directory while a gateway of a cluster cannot take a place: {"name", "pid", "why"}."""
LOCAL_URL = "http://gateway"
"""The base URL of requests on the unix socket; its host name is ignored."""


class NoGateway(Exception):
    """No gateway answers for this data directory. The message says how to start one, or how to reach another one."""

    def __init__(self, data_dir: Path):
        super().__init__(data_dir)
        self.data_dir = data_dir

    def __str__(self) -> str:
        if (wait := find_wait(self.data_dir)) is not None:
            return wait
        others = advise_others(self.data_dir)
        start = find_start_command(self.data_dir)
        return f"no gateway is running on {self.data_dir}. Start one with: {start}" + (others and f"; or {others}")


class GatewayUnreachable(NoGateway):
    """No gateway answers at a URL. `timeout_s`: the seconds after which connecting was given up, if it was."""

    def __init__(self, url: str, timeout_s: float | None = None):
        limit = "" if timeout_s is None else f": no connection within {timeout_s:g} s"
        Exception.__init__(self, f"no gateway answers at {url}{limit}")

    __str__ = Exception.__str__


class GatewayNotTrusted(NoGateway):
    """The data directory, the address file or the socket may be another user's. Nothing was sent."""

    def __init__(self, reason: str):
        Exception.__init__(self, reason)

    __str__ = Exception.__str__


def find_socket(data_dir: Path) -> Path:
    """Return the path of the unix socket of a data directory's gateway.

    Raises NoGateway if there is none, or GatewayNotTrusted if other users could have made it. The gateway may be gone:
    a killed one leaves its socket behind.
    """
    path = Path(_read_address(data_dir, "socket"))
    try:
        trusted_files.check_directory(path.parent)
    except trusted_files.UntrustedFile as error:
        raise GatewayNotTrusted(str(error)) from None
    except OSError:
        raise NoGateway(data_dir) from None
    return path


def find_url(data_dir: Path) -> str:
    """Return the URL of a data directory's gateway. Raises NoGateway or GatewayNotTrusted, as `find_socket` does."""
    return _read_address(data_dir, "url")


def find_pid(data_dir: Path) -> int:
    """Return the process id of a data directory's gateway. Raises NoGateway or GatewayNotTrusted."""
    return int(_read_address(data_dir, "pid"))


def find_waiting(data_dir: Path) -> str | None:
    """Return the name of a data directory's gateway if it waits, and the active one answers for it. Otherwise None."""
    try:
        return _read_address(data_dir, "waiting")
    except NoGateway:
        return None


def find_wait(data_dir: Path) -> str | None:
    """Return which gateway of a cluster waits on a data directory, and why it can take no place.

    None if none waits, or if it only waits for the active one to end.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        trusted_files.check_directory(data_dir, link=True)
        wait = json.loads(trusted_files.read_file(data_dir / WAIT_FILE))
        if is_process_running(int(wait["pid"])):
            return f"{wait['name']} (process {wait['pid']}) {wait['why']}"
    return None


def try_lock_start(lock: BinaryIO) -> bool:
    """Lock the open file START_LOCK_FILE. Return False if another process has locked it, which starts a gateway."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def find_giving_way(data_dir: Path) -> int | None:
    """Return the process id of a data directory's gateway if it answers, and ends for the next `semel up`."""
    with contextlib.suppress(NoGateway):
        if _read_address(data_dir, "gives_way") and _answers(data_dir):
            return find_pid(data_dir)
    return None


def find_running_config(data_dir: Path) -> Path | None:
    """Return the configuration file that the running gateway of a data directory read; `None` if it read none.

    Raises NoGateway if no gateway answers, or if it is an older Semel, which does not tell. Raises GatewayNotTrusted.
    """
    if not _answers(data_dir):
        raise NoGateway(data_dir)
    path = _read_address(data_dir, "config")
    return Path(path) if path else None


def find_last_config(data_dir: Path) -> Path | None:
    """Return the configuration file that the last gateway of a data directory read.

    `None` if it read none, if the file is gone, or if nothing is known.
    """
    try:
        trusted_files.check_directory(data_dir, link=True)
        path = Path(json.loads(trusted_files.read_file(data_dir / LAST_CONFIG_FILE))["config"])
        return path if path.is_file() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def list_usual_configs(env: Mapping[str, str] = os.environ) -> tuple[Path, Path]:
    """Return the places where `semel up` looks for a configuration file that is not named, the first one first."""
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "~")).expanduser() / ".config")
    return Path.cwd() / "semel.toml", home / "semel" / "semel.toml"


def _expand_user(path: str) -> Path:
    return Path(path).expanduser()


def find_start_command(data_dir: Path) -> str:
    """Return the command that starts the gateway of a data directory, with the file that the last one read.

    The file and the directory are named where `semel up`, in the same folder, would not find them by itself.
    """
    last = find_last_config(data_dir)
    named = os.environ.get("SEMEL_CONFIG")
    usual = Path(named).expanduser().absolute() if named else next(filter(Path.is_file, list_usual_configs()), None)
    words = ["semel", "up"]
    if last is not None and last != usual:
        words += ["--config", str(last)]
    if not _is_found_without_option(data_dir, last or usual):
        words += ["--data-dir", str(data_dir)]
    return shlex.join(words)


def choose_data_dir(
    in_file: object, base: Path, env: Mapping[str, str] = os.environ, expand: Callable[[str], Path] = _expand_user
) -> Path:
    """Return the data directory if no option names one.

    `in_file`: what the configuration file says; `base`: the file's directory. `expand`: expands `~` in a path.
    """
    if env.get("SEMEL_DATA"):
        return expand(env["SEMEL_DATA"]).absolute()
    if isinstance(in_file, str) and in_file:
        return (base / expand(in_file)).absolute()
    home = Path(env.get("HOME", "~")).expanduser()
    return Path(env.get("XDG_DATA_HOME") or home / ".local" / "share").absolute() / "semel"


def _is_found_without_option(data_dir: Path, config: Path | None) -> bool:
    """Return whether `semel up` uses a data directory if no option names it. `config`: the file that it reads."""
    in_file = None
    if config is not None:
        import tomllib  # only now: seldom needed

        with contextlib.suppress(OSError, ValueError, AttributeError):  # `semel up` says what is wrong with the file
            in_file = tomllib.loads(config.read_text(encoding="utf-8-sig")).get("gateway", {}).get("data_dir")
    with contextlib.suppress(RuntimeError):  # ~name of an unknown user
        return choose_data_dir(in_file, config.parent if config else Path.cwd()) == data_dir
    return False


def was_killed(data_dir: Path) -> bool:
    """Whether the last gateway of a data directory, where none answers now, ended without a clean stop.

    A clean stop removes the address file; a kill or a power failure leaves it behind. A gateway that is stopping still
    lives. False if its pid is another process's now.
    """
    try:
        return not is_process_running(int(_read_address(data_dir, "pid")))
    except (NoGateway, ValueError):
        return False


def is_process_running(pid: int) -> bool:
    """Whether a process runs. One that is ending after a kill, or that only waits for its parent, does not."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()  # proc_pid_stat(5), from the third on
        return fields[0] not in "ZX" and not int(fields[6]) & PF_EXITING
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user, for instance
        return True
    return True


def _read_address(data_dir: Path, name: str) -> str:
    try:
        trusted_files.check_directory(data_dir, link=True)
        address = json.loads(trusted_files.read_file(data_dir / GATEWAY_FILE))
        inode = data_dir.stat().st_ino
        if address.get("inode", inode) != inode:
            raise NoGateway(data_dir)
        return str(address[name])
    except trusted_files.UntrustedFile as error:
        raise GatewayNotTrusted(str(error)) from None
    except PermissionError:
        raise GatewayNotTrusted(
            f"{data_dir} cannot be read by this user. Run this as the user who runs the gateway (sudo -u NAME ...)"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise NoGateway(data_dir) from None


# ---------------------------------------------------------------- all gateways of this user


def running_dir() -> Path:
    """Return the directory in which this user's running gateways are listed: one link per data directory."""
    state = os.environ.get("XDG_STATE_HOME") or Path(os.environ.get("HOME", "~")).expanduser() / ".local" / "state"
    return Path(state) / "semel" / "running"


@contextlib.contextmanager
def list_as_running(data_dir: Path) -> Iterator[None]:
    """List a data directory among those with a running gateway until the block ends, if the home can be written to."""
    link = running_dir() / hashlib.blake2b(os.fsencode(data_dir), digest_size=8).hexdigest()
    with contextlib.suppress(OSError):
        trusted_files.make_directory(link.parent)
        link.unlink(missing_ok=True)
        link.symlink_to(data_dir)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            link.unlink(missing_ok=True)


def list_running() -> list[Path]:
    """Return the data directories of this user's gateways that answer. A killed gateway leaves its link behind."""
    try:
        trusted_files.check_directory(running_dir())
        places = sorted(link.readlink() for link in running_dir().iterdir())
    except OSError:
        return []
    return [place for place in places if _answers(place)]


def advise_others(data_dir: Path) -> str:
    """Return the advice to reach one of this user's other gateways that run; "" if none does."""
    others = [shlex.quote(str(place)) for place in list_running() if place != data_dir]
    return f"reach one that runs, by its data directory (--data-dir): {', '.join(others)}" if others else ""


def _answers(data_dir: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            probe.connect(str(find_socket(data_dir)))
    except (NoGateway, OSError):
        return False
    return True
