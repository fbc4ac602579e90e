"""Scripts: the steps that the demo agent takes in one prompt.

A script is a list of steps, or {"steps": [...]} with these optional keys:

    "attempts": [[...], [...]]   steps for the first, second ... time this script is started, counted across
                                 restarts (the last list serves all later times); "name" names the counter
    "resume": [...]              steps for the session's next prompt without a script of its own; or a list of lists,
                                 one for each of the next such prompts
    "stop": "max_tokens"         the stop reason; default "end_turn"
    "meta": {...}                the response's `_meta`

A prompt contains a script as `[[script JSON]]`. A file (--script) contains one script for every prompt, or a list of
{"when": TEXT, ...script...}, of which the first whose TEXT occurs in the prompt is used. A step is a string (text to
say) or an object with one of the names below. Times are seconds; `delay` is the pause after each chunk:

    text TEXT, chunks=3, delay=0, message=ID     agent text, cut into so many chunks
    think TEXT, chunks=1, delay=0                a thought
    tool TITLE, output=[...], exit=0, delay=0, input={}, kind="execute", id=ID, status=...
                                                 a tool call with terminal output, one delta for each piece
    call NAME, arguments={}, server=NAME, id=ID, announce=true, meta="claude"|"codex"|{}, reissue=false
                                                 a call of an MCP tool; `reissue`: if the server dies, restart it
                                                 and repeat the call without telling, as two real agents do
    together [STEP or STEPS, ...]                run these at the same time
    permission TITLE, input={}, options=[...], allowed=[...], denied=[...]
    plan [[TEXT, "pending"|"in_progress"|"completed"], ...]
    update OBJECT                                any session/update
    remember OBJECT                              a session/update that goes into the history but is not sent
    raw TEXT                                     a line on stdout, JSON or not
    stderr TEXT, times=1                         lines on stderr
    ask METHOD, params={}                        a request to the client; its answer is said as text
    sleep N · wait PATH                          wait for N seconds; until the file PATH exists
    touch PATH                                   create a file, as a sign that this step was reached
    prompt true                                  say the prompt's own text
    save true                                    write the history now (default: at the end of the turn); with "end"
                                                 instead of true, as if the turn had ended
    forget true                                  do not write this turn into the history
    stop_mcp true · kill_mcp true                end the MCP servers; the next call starts them again
    deaf true                                    ignore cancels from here on
    hang true                                    wait until cancelled
    die 9 · exit 3                               end the process by this signal; with this exit code
    error {"code", "message", "data"}            the prompt ends with a JSON-RPC error
    stop REASON                                  the prompt ends here
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

Json = dict[str, Any]
SCRIPT_MARK = "[[script "


_MARKED_TEXT = re.compile(r"\[semel: .*?\n\[/semel\]", re.DOTALL)


def strip_marked_text(text: str) -> str:
    """The part of a prompt that a person wrote: all text outside the gateway's [semel: ...] marks."""
    return _MARKED_TEXT.sub("", text).strip()


def told(text: str) -> str:
    """A prompt without the lines of the gateway's marks; for prompts that no person wrote (events, resumed turns)."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(("[semel: ", "[/semel]")))


def find_in_prompt(text: str) -> Json | None:
    """The last script in a prompt, or `None`. Raises ValueError if it is not JSON."""
    at = text.rfind(SCRIPT_MARK)
    if at < 0:
        return None
    script, end = json.JSONDecoder().raw_decode(text, at + len(SCRIPT_MARK))
    if not text.startswith("]]", end):
        raise ValueError("a script in a prompt ends with ]]")
    return normal(script)


def find_in_file(path: str, text: str) -> Json | None:
    """The script in a file that matches this prompt, or `None`. `path` may be the JSON text itself."""
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
    """Split a text into up to `chunks` pieces of about the same length."""
    if chunks <= 1 or len(text) <= 1:
        return [text]
    size = max(1, -(-len(text) // chunks))
    return [text[at : at + size] for at in range(0, len(text), size)]
