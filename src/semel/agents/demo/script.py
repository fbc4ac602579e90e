"""Scripts: what the demo agent does in one prompt, step by step.

A script is a list of steps, or {"steps": [...]}, with, if wanted:

    "attempts": [[...], [...]]   steps for the first, second ... time this script is begun, counted across
                                 restarts (the last list serves all later times); "name" names the count
    "resume": [...]              steps for the next prompt of the session that brings no script of its own; or lists of
                                 steps, for the next ones
    "stop": "max_tokens"         the stop reason; default "end_turn"
    "meta": {...}                the response's `_meta`

In a prompt it stands as `[[script JSON]]`. In a file (--script) stands one script for every prompt, or a
list of {"when": TEXT, ...script...}: the first whose TEXT occurs in the prompt is taken. A step is a
string (text to say) or an object with one of these names; times are seconds, `delay` stands between
chunks:

    text TEXT, chunks=3, delay=0, message=ID     agent text, cut into so many chunks
    think TEXT, chunks=1, delay=0                a thought
    tool TITLE, output=[...], exit=0, delay=0, input={}, kind="execute", id=ID, status=...
                                                 a tool call with terminal output, one delta for each piece
    call NAME, arguments={}, server=NAME, id=ID, announce=true, meta="claude"|"codex"|{}, reissue=false
                                                 a call of an MCP tool; `reissue`: where the server dies,
                                                 start it again and call again, as two real agents do,
                                                 with no mark
    together [STEP or STEPS, ...]                run these at the same time
    permission TITLE, input={}, options=[...], allowed=[...], denied=[...]
    plan [[TEXT, "pending"|"in_progress"|"completed"], ...]
    update OBJECT                                any session/update
    remember OBJECT                              a session/update that only the history holds
    raw TEXT                                     a line on stdout, JSON or not
    stderr TEXT, times=1                         lines on stderr
    ask METHOD, params={}                        a request to the client; its answer is said as text
    sleep N · wait PATH                          for a time; until a file exists
    touch PATH                                   make a file: a sign that this point was reached
    prompt true                                  say the prompt's own text
    save true                                    write the history now (else at the end of the turn); "end": with the
                                                 mark that the turn ended, as if it had
    forget true                                  this turn never enters the history
    stop_mcp true · kill_mcp true                end the MCP servers; the next call starts them again
    deaf true                                    from here on, cancels are not heard
    hang true                                    until cancelled
    die 9 · exit 3                               the process: by a signal, with a code
    error {"code", "message", "data"}            the prompt ends with a JSON-RPC error
    stop REASON                                  the prompt ends here
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

Json = dict[str, Any]
MARK = "[[script "


_MARKED = re.compile(r"\[semel: .*?\n\[/semel\]", re.DOTALL)


def typed(text: str) -> str:
    """What of a prompt somebody wrote:

    What the gateway adds, a lost turn told again included, stands in marks.
    """
    return _MARKED.sub("", text).strip()


def told(text: str) -> str:
    """What the gateway tells where nobody wrote anything: an event, or that an interrupted turn goes on."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(("[semel: ", "[/semel]")))


def in_prompt(text: str) -> Json | None:
    """The last script that stands in a prompt, or None. Raises ValueError for one that is not JSON."""
    at = text.rfind(MARK)
    if at < 0:
        return None
    script, end = json.JSONDecoder().raw_decode(text, at + len(MARK))
    if not text.startswith("]]", end):
        raise ValueError("a script in a prompt ends with ]]")
    return normal(script)


def from_file(path: str, text: str) -> Json | None:
    """The script of a file that fits this prompt. `path` may be the JSON itself."""
    found = json.loads(path if path.lstrip().startswith(("[", "{")) else Path(path).read_text())
    if isinstance(found, list) and found and all(isinstance(one, dict) and "when" in one for one in found):
        return next((one for one in found if one["when"] in text), None)
    return normal(found)


def normal(script: Any) -> Json:
    if isinstance(script, list):
        return {"steps": script}
    if not isinstance(script, dict):
        raise ValueError("a script is a list of steps, or an object with steps")
    return script


def pieces(text: str, chunks: int) -> list[str]:
    """The text in so many pieces of about the same length."""
    if chunks <= 1 or len(text) <= 1:
        return [text]
    size = max(1, -(-len(text) // chunks))
    return [text[at : at + size] for at in range(0, len(text), size)]
