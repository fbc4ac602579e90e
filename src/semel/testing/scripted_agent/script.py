"""Scripts: the steps that the scripted agent runs for one prompt.

A script is {"steps": [...]}, or in a prompt the list of steps alone, with these optional keys:

    "attempts": [[...], [...]]   steps for the first, second ... time this script is started, counted across
                                 restarts (the last list serves all later times); "name" names the counter
    "resume": [...]              steps for the session's next prompt without a script of its own; or a list of lists,
                                 one for each of the next such prompts
    "stop": "max_tokens"         the stop reason; default "end_turn"
    "meta": {...}                the response's `_meta`

A prompt contains a script as `[[script JSON]]`. A file (--script) contains a list of {"when": TEXT, ...script...}; the
agent runs the first one whose TEXT occurs in the prompt. If it finds no script, it answers "You said: LINE" with the
prompt's last line, or TEXT if that line is `say: TEXT`. A step is a string (text to say) or an object with one of the
names below. Times are seconds; `delay` is the pause after each chunk:

    text TEXT, chunks=3, delay=0, message=ID     agent text, cut into so many chunks
    think TEXT, chunks=1, delay=0                a thought
    tool TITLE, output=[...], exit=0, delay=0, input={}, kind="execute", id=ID
                                                 a tool call with terminal output, one delta for each piece
    call NAME, arguments={}, id=ID, announce=true, meta="claude"|{}, reissue=false
                                                 a call of an MCP tool; `reissue`: if the server dies, restart it
                                                 and silently repeat the call, as two real agents do
    together [STEP or STEPS, ...]                run these at the same time
    permission TITLE, input={}, options=[...], allowed=[...], denied=[...]
    update OBJECT                                any session/update
    remember OBJECT                              a session/update that goes into the history but is not sent
    raw TEXT                                     a line on stdout, JSON or not
    stderr TEXT, times=1                         lines on stderr
    ask METHOD, params={}                        a request to the client; its answer is said as text
    sleep N · wait PATH                          wait for N seconds; until the file PATH exists
    touch PATH                                   create a file, as a sign that this step was reached
    prompt true                                  say the text of the prompt
    save true                                    write the history now (default: at the end of the turn); with "end"
                                                 instead of true, as if the turn had ended
    forget true                                  do not write this turn into the history
    kill_mcp true                                kill the MCP servers; the next call starts them again
    deaf true                                    ignore all later cancels
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
    """Return the part of a prompt that a person wrote: without the gateway's text from [semel: ...] to [/semel]."""
    return _MARKED_TEXT.sub("", text).strip()


def steps_without_script(prompt: str) -> list[Any]:
    """Return the steps that answer a prompt without a script."""
    lines = [line for line in prompt.splitlines() if not line.startswith(("[semel: ", "[/semel]"))]
    line = lines[-1] if lines else ""
    match = re.fullmatch(r"(?:[^:]{1,80}:\s+)?say:\s*(.+)", line)
    return [match[1] if match else f"You said: {line[:300]}"]


def find_in_prompt(text: str) -> Json | None:
    """Return the last script in a prompt, None if it has none. Raises ValueError if the script is malformed."""
    at = text.rfind(SCRIPT_MARK)
    if at < 0:
        return None
    script, end = json.JSONDecoder().raw_decode(text, at + len(SCRIPT_MARK))
    if not text.startswith("]]", end):
        raise ValueError("a script in a prompt ends with ]]")
    return {"steps": script} if isinstance(script, list) else dict(script)


def find_in_file(path: Path, text: str) -> Json | None:
    """Return the first script of a file that matches this prompt; None if none does."""
    return next((script for script in json.loads(path.read_text()) if script["when"] in text), None)


def cut(text: str, chunks: int) -> list[str]:
    """Split a text into up to `chunks` pieces of about the same length."""
    size = max(1, -(-len(text) // max(1, chunks)))
    return [text[at : at + size] for at in range(0, len(text), size)] or [text]
