"""Build the events that report a run: `exec.started`, then either `exec.finished` or `exec.lost`.

Each `build_` function returns a body for POST /v1/sessions/{key}/events. The body's key is the run's id and the event's
kind, so it is one event however often and by whichever process it is posted (Law 1). `exec.started` does not wake its
session (Law 2).

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

from semel.gateway.ports import BY_AGENT
from semel.text.json_types import Json
from semel.tools import trusted_files
from semel.tools.exec.command import CommandExit
from semel.tools.exec.output import OutputRecorder, count_unfinished_bytes, drop_partial_start
from semel.tools.exec.spool import FINISHED, LOST, STARTED

TAIL_BYTES = 8_192  # bytes of the output's end, in an ordinary report
ATTACHED_END_BYTES = 450_000  # with --attach: bytes of the output's beginning, and as many of its end
MAX_OUTPUT_JSON_BYTES = 900_000  # the output's share of a body, which may have 1 MiB
MAX_COMMAND_CHARS = 500  # characters of the command line, in a report's text


def describe_run(node: str, session: str, command: Sequence[str], at: float) -> Json:
    """Describe a run before it starts, for run.json and its reports. `at` is seconds since the epoch."""
    where = replace_invalid_bytes(str(Path.cwd()))
    return {
        "node": node,
        "session": session,
        "command": [replace_invalid_bytes(word) for word in command],
        "cwd": where,
        "at": at,
    }


def describe_job(session: str, command: str, name: str, cwd: str, at: float) -> Json:
    """Describe a background job, as `describe_run` does a run. `command`: one shell command line. There is no node."""
    info = {"node": "", "session": session, "command": [command], "cwd": cwd, "at": at}
    return {**info, "job": name}


def build_started(run: str, info: Json, pid: int) -> Json:
    text = f"`{format_command(info)}` was started{_format_node(info)} ({_render_run(run, info)})."
    return _make_body(run, STARTED, info, text, {"pid": pid, "cwd": info["cwd"]})


def build_finished(
    run: str, info: Json, ended: CommandExit, output: OutputRecorder, stop_reason: Json | None = None
) -> Json:
    """Build the event for a command's end, with the captured part of its output.

    stop_reason: {"timeout": seconds} if its time limit ended it, {"cancelled_by": who} if somebody cancelled it.
    """
    ending = f"was killed by {ended.signal}" if ended.signal else f"ended with exit code {ended.code}"
    if stop_reason:
        ending = f"{_describe_stop(stop_reason)}: it {ending}"
    output_text, replaced = render_output(output)
    ending = f"{ending}{_format_node(info)}, after {format_duration(ended.seconds)}"
    text = f"`{format_command(info)}` {ending} ({_render_run(run, info)}).{output_text}"
    data: Json = {
        "exit": ended.code,
        "seconds": round(ended.seconds, 3),
        "ended": round(ended.at * 1000),
        "bytes": output.total_bytes,
        **(stop_reason or {}),
    }
    if ended.signal:
        data["signal"] = ended.signal
    if replaced:
        data["replaced"] = replaced
    if output.stored_bytes:
        data["output"] = replace_invalid_bytes(str(output.path))
    body = _make_body(run, FINISHED, info, text, data)
    if (stop_reason or {}).get("cancelled_by") == BY_AGENT:
        body["wakes"] = False  # the agent itself cancelled it: no turn is needed (Law 2)
    return body


def build_not_started(run: str, info: Json, code: int, reason: str, at: float) -> Json:
    """Build the event for a command that could not be started. `at`: when, in seconds since the epoch."""
    command = f"`{format_command(info)}` could not be started{_format_node(info)}"
    text = f"{command} ({_render_run(run, info)}): {replace_invalid_bytes(reason)}."
    return _make_body(run, FINISHED, info, text, {"exit": code, "seconds": 0.0, "ended": round(at * 1000), "bytes": 0})


def build_never_started(run: str, info: Json) -> Json:
    """Build the event for a background job that never started, because its gateway or supervisor died first."""
    text = f"`{format_command(info)}` was not started ({_render_run(run, info)}): its supervisor was killed first. "
    return _make_body(run, LOST, info, f"{text}Nothing was run.", {"running": False})


def build_lost(run: str, info: Json, process: Json | None, alive: bool, output: Path, killed: bool = False) -> Json:
    """Build the event for a run whose reporting process was killed. It states what is known and guesses nothing.

    process   the command's process as recorded in the spool, or `None`
    alive     that process runs now; nobody looks again
    killed    the remaining processes were found and killed
    """
    start_time = datetime.fromtimestamp(info["at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    output_text, replaced = _render_output_file(output)
    if killed:
        state = "Its remaining processes were killed."
    elif process is None:
        state = "Whether it still runs is not known." if output_text else "Whether it was started is not known."
    elif alive:
        state = f"When this was noticed, it still ran (pid {process['pid']}); how it ends will not be reported."
    else:
        state = "It does not run any more; how it ended is not known."
    run_text = f"`{format_command(info)}`{_format_node(info)} ({_render_run(run, info)}), begun {start_time}"
    text = f"Lost sight of {run_text}: the process that watched it was killed. {state}{output_text}"
    data: Json = {"running": alive and not killed}
    if process is not None:
        data["pid"] = process["pid"]
    if replaced:
        data["replaced"] = replaced
    if output_text:
        data["output"] = replace_invalid_bytes(str(output))
    return _make_body(run, LOST, info, text, data)


def _make_body(run: str, kind: str, info: Json, text: str, data: Json) -> Json:
    body_data = {"run": run, **({"node": info["node"]} if info["node"] else {}), **data}
    return {"kind": kind, "key": f"{run}:{kind}", "text": text, "data": body_data}


# ---------------------------------------------------------------- texts


def _format_node(info: Json) -> str:
    return f" on {info['node']}" if info["node"] else ""


def _render_run(run: str, info: Json) -> str:
    if "job" not in info:
        return f"run {run}"
    return f"background job {run}" + (f", {info['job']}" if info["job"] else "")


def _describe_stop(stop_reason: Json) -> str:
    if "timeout" in stop_reason:
        return f"was ended at its time limit of {format_duration(stop_reason['timeout'])}"
    return f"was cancelled by {stop_reason['cancelled_by']}"


def replace_invalid_bytes(text: str) -> str:
    """Replace bytes that are not UTF-8 in text from the system, such as file names."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def format_command(info: Json) -> str:
    command_line = info["command"][0] if "job" in info else shlex.join(info["command"])
    one_line = " ".join(command_line.split("\n"))
    return (
        one_line
        if len(one_line) <= MAX_COMMAND_CHARS
        else f"{one_line[:MAX_COMMAND_CHARS]}… ({len(one_line):,} characters)"
    )


def format_duration(seconds: float) -> str:
    """Format a duration: 2.5 s, 3 min 12 s, 1 h 3 min."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds_left} s"


def render_output(output: OutputRecorder) -> tuple[str, int]:
    """Return (the report's text about the output, how many bytes were not UTF-8 and are shown as U+FFFD)."""
    head, tail = output.head_and_tail()
    if len(head) + len(tail) == output.total_bytes:
        text = _decode_output(head + tail)
        first, last = text[: len(text) // 2], text[len(text) // 2 :]
    else:
        first = _decode_output(head[: len(head) - count_unfinished_bytes(head)])
        last = _decode_output(drop_partial_start(tail)) if head else _decode_whole_lines(tail)
    first, last = shorten_to_json_bytes(first, last, MAX_OUTPUT_JSON_BYTES)
    output_text, replaced = _render_printed(first, last, output.total_bytes)
    if output.incomplete_reason:
        output_text += f"\n\n(Only its first {output.stored_bytes:,} bytes were stored: {output.incomplete_reason}.)"
    return output_text, replaced


def shorten_to_json_bytes(first: str, last: str, max_bytes: int) -> tuple[str, str]:
    """Cut the end of `first` and the beginning of `last` until both together take at most `max_bytes` as JSON.

    Returns (the rest of `first`, the rest of `last`).
    """
    while (size := len(json.dumps(_show_invalid_bytes(first + last), ensure_ascii=False).encode())) > max_bytes:
        part = max_bytes / size * 0.98
        first, last = first[: int(len(first) * part)], last[len(last) - int(len(last) * part) :]
    return first, last


def _render_printed(first: str, last: str, total: int) -> tuple[str, int]:
    shown_bytes = len((first + last).encode("utf-8", "surrogateescape"))
    invalid = sum("\udc80" <= char <= "\udcff" for char in first + last)
    if not total:
        return " It printed nothing.", 0
    if shown_bytes == total:
        head, body = f" It printed {total:,} bytes", _show_invalid_bytes(first + last)
    elif not first:
        head, body = f" The last {shown_bytes:,} of the {total:,} bytes it printed", _show_invalid_bytes(last)
    else:
        gap = f"\n[... {total - shown_bytes:,} bytes are left out here ...]\n"
        head, body = f" It printed {total:,} bytes", _show_invalid_bytes(first) + gap + _show_invalid_bytes(last)
    note = f" ({invalid:,} of them no UTF-8, replaced by �)" if invalid else ""
    return f"{head}{note}:\n\n{body}", invalid


def _render_output_file(path: Path) -> tuple[str, int]:
    """Render the output of a run whose reporter is gone, from the end of its output file.

    Returns the same as `render_output`; ("", 0) if there is no output.
    """
    try:
        with os.fdopen(trusted_files.open_file(path), "rb") as file:
            total = file.seek(0, os.SEEK_END)
            file.seek(max(0, total - TAIL_BYTES))
            last = file.read()
    except OSError:
        return "", 0
    if not total:
        return "", 0
    return _render_printed("", _decode_output(last) if total <= TAIL_BYTES else _decode_whole_lines(last), total)


def _decode_output(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _show_invalid_bytes(text: str) -> str:
    """Replace each byte that was not UTF-8 by one U+FFFD."""
    return "".join("�" if "\udc80" <= char <= "\udcff" else char for char in text)


def _decode_whole_lines(data: bytes) -> str:
    """Decode an output's end from the first line that begins in its first KiB, else from its first whole character."""
    start = data.find(b"\n", 0, 1024) + 1
    return _decode_output(data[start:] or drop_partial_start(data))
