"""Build the events that report a run: `exec.started`, then either `exec.finished` or `exec.lost`.

Each function returns a body for POST /v1/sessions/{key}/events. Its key is the run's id and the event's kind, so it is
one event however often and by whichever process it is posted (Law 1). `exec.started` does not wake its session (Law 2).

Output is decoded with "surrogateescape": a byte that is not UTF-8 stays a lone surrogate until the text is final, so
that byte counts are exact; then it becomes U+FFFD.
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
from semel.tools.exec.command import CommandExit
from semel.tools.exec.output import Output, count_unfinished_bytes, drop_partial_start
from semel.tools.exec.spool import FINISHED, LOST, STARTED

Json = dict[str, Any]

TAIL = 8_192  # bytes of the output's end, in an ordinary report
ATTACHED_END_BYTES = 450_000  # with --attach: bytes of the output's beginning, and as many of its end
MAX_OUTPUT_JSON_BYTES = 900_000  # the output's share of a body, which may have 1 MiB
MAX_COMMAND_CHARS = 500  # characters of the command line, in a report's text


def about(node: str, session: str, command: Sequence[str], at: float) -> Json:
    """Describe a run before it starts, for run.json and its reports. `at` is seconds since the epoch."""
    where = replace_invalid_bytes(str(Path.cwd()))
    return {
        "node": node,
        "session": session,
        "command": [replace_invalid_bytes(word) for word in command],
        "cwd": where,
        "at": at,
    }


def about_job(session: str, command: str, name: str, cwd: str, at: float) -> Json:
    """The same for a background job, whose command is a shell command line on the gateway's machine (no node)."""
    told = {"node": "", "session": session, "command": [command], "cwd": cwd, "at": at}
    return {**told, "job": name}


def build_started(run: str, about: Json, pid: int) -> Json:
    text = f"`{line(about)}` was started{_on(about)} ({_render_run(run, about)})."
    return _body(run, STARTED, about, text, {"pid": pid, "cwd": about["cwd"]})


def build_finished(run: str, about: Json, ended: CommandExit, output: Output, stopped: Json | None = None) -> Json:
    """The event for a command's end, with the captured part of its output.

    stopped: {"timeout": seconds} if its time limit ended it, {"cancelled_by": who} if somebody cancelled it.
    """
    how = f"was killed by {ended.signal}" if ended.signal else f"ended with exit code {ended.code}"
    if stopped:
        how = f"{_describe_stop(stopped)}: it {how}"
    told, replaced = render_output(output)
    text = (
        f"`{line(about)}` {how}{_on(about)}, after {format_duration(ended.seconds)} ({_render_run(run, about)}).{told}"
    )
    data: Json = {"exit": ended.code, "seconds": round(ended.seconds, 3), "bytes": output.total, **(stopped or {})}
    if ended.signal:
        data["signal"] = ended.signal
    if replaced:
        data["replaced"] = replaced
    if output.kept:
        data["output"] = replace_invalid_bytes(str(output.path))
    body = _body(run, FINISHED, about, text, data)
    if (stopped or {}).get("cancelled_by") == BY_AGENT:
        body["wakes"] = False  # the agent itself cancelled it: no turn is needed (Law 2)
    return body


def build_not_started(run: str, about: Json, code: int, why: str) -> Json:
    text = (
        f"`{line(about)}` could not be started{_on(about)} ({_render_run(run, about)}): {replace_invalid_bytes(why)}."
    )
    return _body(run, FINISHED, about, text, {"exit": code, "seconds": 0.0, "bytes": 0})


def build_never_started(run: str, about: Json) -> Json:
    """The event for a background job that never started, because its gateway or supervisor died first."""
    text = f"`{line(about)}` was not started ({_render_run(run, about)}): what was to start it was killed before. "
    return _body(run, LOST, about, f"{text}Nothing of it was run.", {"running": False})


def lost(run: str, about: Json, process: Json | None, alive: bool, output: Path, killed: bool = False) -> Json:
    """The event for a run whose reporting process was killed. States what is known and guesses nothing.

    process: the started process as recorded in the spool, or `None`. alive: it is still running.
    killed: its remaining processes were found and killed.
    """
    at = datetime.fromtimestamp(about["at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    told, replaced = _render_output_file(output)
    if killed:
        state = "What still ran of it was killed."
    elif process is None:
        state = "Whether it still runs is not known." if told else "Whether it was started is not known."
    elif alive:
        state = f"It still runs (pid {process['pid']}); how it ends will not be reported."
    else:
        state = "It does not run any more; how it ended is not known."
    which = _render_run(run, about)
    text = f"Lost sight of `{line(about)}`{_on(about)} ({which}), begun {at}: what watched it was killed."
    text = f"{text} {state}{told}"
    data: Json = {"running": alive and not killed}
    if process is not None:
        data["pid"] = process["pid"]
    if replaced:
        data["replaced"] = replaced
    if told:
        data["output"] = replace_invalid_bytes(str(output))
    return _body(run, LOST, about, text, data)


def _body(run: str, kind: str, about: Json, text: str, data: Json) -> Json:
    more = {"run": run, **({"node": about["node"]} if about["node"] else {}), **data}
    return {"kind": kind, "key": f"{run}:{kind}", "text": text, "data": more}


# ---------------------------------------------------------------- texts


def _on(about: Json) -> str:
    return f" on {about['node']}" if about["node"] else ""


def _render_run(run: str, about: Json) -> str:
    if "job" not in about:
        return f"run {run}"
    return f"background job {run}" + (f", {about['job']}" if about["job"] else "")


def _describe_stop(stopped: Json) -> str:
    if "timeout" in stopped:
        return f"was ended at its time limit of {format_duration(stopped['timeout'])}"
    return f"was cancelled by {stopped['cancelled_by']}"


def replace_invalid_bytes(text: str) -> str:
    """Replace bytes that are not UTF-8 in text from the system, such as file names."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def line(about: Json) -> str:
    words = about["command"][0] if "job" in about else shlex.join(about["command"])
    told = " ".join(words.split("\n"))
    return told if len(told) <= MAX_COMMAND_CHARS else f"{told[:MAX_COMMAND_CHARS]}… ({len(told):,} characters)"


def format_duration(seconds: float) -> str:
    """Format a duration: 2.5 s, 3 min 12 s, 1 h 3 min."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def render_output(output: Output) -> tuple[str, int]:
    """(the report's text about the output, how many bytes of it were not UTF-8 and are shown as U+FFFD)."""
    head, tail = output.piece()
    if len(head) + len(tail) == output.total:
        first, last = _halves(_decoded(head + tail))
    else:
        first = _decoded(head[: len(head) - count_unfinished_bytes(head)])
        last = _decoded(drop_partial_start(tail)) if head else _decode_whole_lines(tail)
    first, last = shorten_to_json_bytes(first, last, MAX_OUTPUT_JSON_BYTES)
    told, replaced = _render_printed(first, last, output.total)
    if output.fault:
        told += f"\n\n(The file of it holds the first {output.kept:,} bytes: {output.fault}.)"
    return told, replaced


def shorten_to_json_bytes(first: str, last: str, room: int) -> tuple[str, str]:
    """Shorten the beginning and the end of an output so that both take at most `room` bytes as JSON. What is cut away
    lies between them."""
    while (size := len(json.dumps(_show_invalid_bytes(first + last), ensure_ascii=False).encode())) > room:
        part = room / size * 0.98
        first, last = first[: int(len(first) * part)], last[len(last) - int(len(last) * part) :]
    return first, last


def _render_printed(first: str, last: str, total: int) -> tuple[str, int]:
    here = len(_bytes(first + last))
    invalid = sum("\udc80" <= char <= "\udcff" for char in first + last)
    if not total:
        return " It printed nothing.", 0
    if here == total:
        head, body = f" It printed {total:,} bytes", _show_invalid_bytes(first + last)
    elif not first:
        head, body = f" The last {here:,} of the {total:,} bytes it printed", _show_invalid_bytes(last)
    else:
        gap = f"\n[... {total - here:,} bytes are left out here ...]\n"
        head, body = f" It printed {total:,} bytes", _show_invalid_bytes(first) + gap + _show_invalid_bytes(last)
    noted = f" ({invalid:,} of them no UTF-8, replaced by �)" if invalid else ""
    return f"{head}{noted}:\n\n{body}", invalid


def _render_output_file(path: Path) -> tuple[str, int]:
    """The same for a run whose reporter is gone: from the tail of its output file."""
    try:
        with os.fdopen(owned.open_file(path), "rb") as file:
            total = file.seek(0, os.SEEK_END)
            file.seek(max(0, total - TAIL))
            last = file.read()
    except OSError:
        return "", 0
    return (
        _render_printed("", _decoded(last) if total <= TAIL else _decode_whole_lines(last), total) if total else ("", 0)
    )


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _show_invalid_bytes(text: str) -> str:
    """Replace each byte that was not UTF-8 by one U+FFFD."""
    return "".join("�" if "\udc80" <= char <= "\udcff" else char for char in text)


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _decode_whole_lines(data: bytes) -> str:
    """Decode from the first line that begins within 1 KiB, else from the first whole character."""
    start = data.find(b"\n", 0, 1024) + 1
    return _decoded(data[start:] or drop_partial_start(data))
