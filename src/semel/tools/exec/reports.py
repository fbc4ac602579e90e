"""The events that tell of a run: `exec.started`, then one of `exec.finished` and `exec.lost`.

A body is what POST /v1/sessions/{key}/events takes. Its key is the run's id and the kind: however often it is
posted, by whomever, it is one event (Law 1). `exec.started` does not wake its session (Law 2).
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from semel.gateway.ports import BY_AGENT
from semel.tools import owned
from semel.tools.exec.command import Ended
from semel.tools.exec.output import Output, from_character, unfinished
from semel.tools.exec.spool import FINISHED, LOST, STARTED

Json = dict[str, Any]

TAIL = 8_192  # bytes of the end of the output that a report carries
ATTACHED = 450_000  # with --attach: bytes of its beginning, and as many of its end
ROOM = 900_000  # bytes that the output may take in a report, as JSON: a body may have 1 MiB
COMMAND = 500  # characters of the command line that are told


def about(node: str, session: str, command: Sequence[str], at: float) -> Json:
    """What is known of a run before it starts. `at` is seconds since the epoch."""
    where = plain(str(Path.cwd()))
    return {
        "node": node,
        "session": session,
        "command": [plain(word) for word in command],
        "cwd": where,
        "at": at,
    }


def about_job(session: str, command: str, name: str, cwd: str, at: float) -> Json:
    """The same of a background job: a shell's command line, on the gateway's own machine."""
    told = {"node": "", "session": session, "command": [command], "cwd": cwd, "at": at}
    return {**told, "job": name}


def started(run: str, about: Json, pid: int) -> Json:
    text = f"`{line(about)}` was started{_on(about)} ({_which(run, about)})."
    return _body(run, STARTED, about, text, {"pid": pid, "cwd": about["cwd"]})


def finished(run: str, about: Json, ended: Ended, output: Output, stopped: Json | None = None) -> Json:
    """How it ended and the end of what it printed, or as much of all of it as a report holds.

    stopped: {"timeout": seconds} where its time was over, {"cancelled_by": who} where somebody cancelled it.
    """
    how = f"was killed by {ended.signal}" if ended.signal else f"ended with exit code {ended.code}"
    if stopped:
        how = f"{_stopped(stopped)}: it {how}"
    told, replaced = printed(output)
    text = f"`{line(about)}` {how}{_on(about)}, after {duration(ended.seconds)} ({_which(run, about)}).{told}"
    data: Json = {"exit": ended.code, "seconds": round(ended.seconds, 3), "bytes": output.total, **(stopped or {})}
    if ended.signal:
        data["signal"] = ended.signal
    if replaced:
        data["replaced"] = replaced
    if output.kept:
        data["output"] = plain(str(output.path))
    body = _body(run, FINISHED, about, text, data)
    if (stopped or {}).get("cancelled_by") == BY_AGENT:
        body["wakes"] = False  # it knows: nobody asked for a turn about that (Law 2)
    return body


def not_started(run: str, about: Json, code: int, why: str) -> Json:
    text = f"`{line(about)}` could not be started{_on(about)} ({_which(run, about)}): {plain(why)}."
    return _body(run, FINISHED, about, text, {"exit": code, "seconds": 0.0, "bytes": 0})


def never_started(run: str, about: Json) -> Json:
    """A background job that its gateway, or its supervisor, did not live to start."""
    text = f"`{line(about)}` was not started ({_which(run, about)}): what was to start it was killed before. "
    return _body(run, LOST, about, f"{text}Nothing of it was run.", {"running": False})


def lost(run: str, about: Json, process: Json | None, alive: bool, output: Path, killed: bool = False) -> Json:
    """Its reporter was killed. What is known is told; what is not known is not guessed.

    killed: what was left of it was found, and ended.
    """
    at = datetime.fromtimestamp(about["at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    told, replaced = _of_file(output)
    if killed:
        state = "What still ran of it was killed."
    elif process is None:
        state = "Whether it still runs is not known." if told else "Whether it was started is not known."
    elif alive:
        state = f"It still runs (pid {process['pid']}); how it ends will not be reported."
    else:
        state = "It does not run any more; how it ended is not known."
    which = _which(run, about)
    text = f"Lost sight of `{line(about)}`{_on(about)} ({which}), begun {at}: what watched it was killed."
    text = f"{text} {state}{told}"
    data: Json = {"running": alive and not killed}
    if process is not None:
        data["pid"] = process["pid"]
    if replaced:
        data["replaced"] = replaced
    if told:
        data["output"] = plain(str(output))
    return _body(run, LOST, about, text, data)


def _body(run: str, kind: str, about: Json, text: str, data: Json) -> Json:
    more = {"run": run, **({"node": about["node"]} if about["node"] else {}), **data}
    return {"kind": kind, "key": f"{run}:{kind}", "text": text, "data": more}


# ---------------------------------------------------------------- texts


def _on(about: Json) -> str:
    return f" on {about['node']}" if about["node"] else ""


def _which(run: str, about: Json) -> str:
    if "job" not in about:
        return f"run {run}"
    return f"background job {run}" + (f", {about['job']}" if about["job"] else "")


def _stopped(stopped: Json) -> str:
    if "timeout" in stopped:
        return f"was ended at its time limit of {duration(stopped['timeout'])}"
    return f"was cancelled by {stopped['cancelled_by']}"


def plain(text: str) -> str:
    """Text from the system, where names may be bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def line(about: Json) -> str:
    words = about["command"][0] if "job" in about else shlex.join(about["command"])
    told = " ".join(words.split("\n"))
    return told if len(told) <= COMMAND else f"{told[:COMMAND]}… ({len(told):,} characters)"


def duration(seconds: float) -> str:
    """2.5 s, 3 min 12 s, 1 h 3 min."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def printed(output: Output) -> tuple[str, int]:
    """(what is told of the output, how many of its bytes were no UTF-8 and are shown as U+FFFD)."""
    head, tail = output.piece()
    if len(head) + len(tail) == output.total:
        first, last = _halves(_decoded(head + tail))
    else:
        first = _decoded(head[: len(head) - unfinished(head)])
        last = _decoded(from_character(tail)) if head else _whole_lines(tail)
    first, last = within(first, last, ROOM)
    told, replaced = _told(first, last, output.total)
    if output.fault:
        told += f"\n\n(The file of it holds the first {output.kept:,} bytes: {output.fault}.)"
    return told, replaced


def within(first: str, last: str, room: int) -> tuple[str, str]:
    """As much of a beginning and an end as takes `room` bytes in JSON; what is cut away lies between them."""
    while (size := len(json.dumps(_shown(first + last), ensure_ascii=False).encode())) > room:
        part = room / size * 0.98
        first, last = first[: int(len(first) * part)], last[len(last) - int(len(last) * part) :]
    return first, last


def _told(first: str, last: str, total: int) -> tuple[str, int]:
    here = len(_bytes(first + last))
    invalid = sum("\udc80" <= char <= "\udcff" for char in first + last)
    if not total:
        return " It printed nothing.", 0
    if here == total:
        head, body = f" It printed {total:,} bytes", _shown(first + last)
    elif not first:
        head, body = f" The last {here:,} of the {total:,} bytes it printed", _shown(last)
    else:
        gap = f"\n[... {total - here:,} bytes are left out here ...]\n"
        head, body = f" It printed {total:,} bytes", _shown(first) + gap + _shown(last)
    noted = f" ({invalid:,} of them no UTF-8, replaced by �)" if invalid else ""
    return f"{head}{noted}:\n\n{body}", invalid


def _of_file(path: Path) -> tuple[str, int]:
    """The same, of a run whose reporter is gone."""
    try:
        with os.fdopen(owned.open_file(path), "rb") as file:
            total = file.seek(0, os.SEEK_END)
            file.seek(max(0, total - TAIL))
            last = file.read()
    except OSError:
        return "", 0
    return _told("", _decoded(last) if total <= TAIL else _whole_lines(last), total) if total else ("", 0)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    """Each byte that is no UTF-8 as one U+FFFD."""
    return "".join("�" if "\udc80" <= char <= "\udcff" else char for char in text)


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _whole_lines(data: bytes) -> str:
    """From the beginning of a line where one is near, else of a character."""
    start = data.find(b"\n", 0, 1024) + 1
    return _decoded(data[start:] or from_character(data))
