"""What can complete the word at the cursor: commands after "/", files of the agent's workspace after "@", and files of
this machine after "/attach".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from semel.faces.terminal.attachments import ATTACH, list_paths
from semel.law.commands import COMMANDS
from semel.text.json_types import Json, objects_in
from semel.text.visible import visible

MAX_CANDIDATES = 50

_ATTACHED_PATH = re.compile(rf"{ATTACH} +(.*)")
_COMMAND_WORD = re.compile(r"/\S*")
_FILE_WORD = re.compile(r'(?:^|(?<=[\s(\[{]))@(?:"[^"]*|[^\s"]*)$')
_FILE_MENTION = re.compile(r'(?:^|(?<=[\s(\[{]))@(?:"([^"\n]+)"|([^\s"]+))')
_SENTENCE_MARKS = ".,;:!?)]}'"  # may follow the name of a file


@dataclass(frozen=True)
class Candidate:
    """A text that completes a word, how it is listed, and what it means. `usage`: "" if it is the text itself."""

    text: str
    meaning: str = ""
    usage: str = ""


@dataclass(frozen=True)
class Completion:
    """The candidates for the word that begins at `start` in the line of the cursor and ends there."""

    start: int
    word: str
    candidates: Sequence[Candidate]


def complete(
    line: str, row: int, column: int, commands: Sequence[Candidate], files: Iterable[str]
) -> Completion | None:
    """Return what completes the word before the cursor, which is at `column` of the `row`-th line; None if nothing."""
    before = line[:column]
    if row == 0 and _COMMAND_WORD.fullmatch(before) and not line[column:].strip():
        return _pack(0, before, _find_commands(before, commands))
    if row == 0 and (attach := _ATTACHED_PATH.fullmatch(before)):
        return _pack(attach.start(1), attach[1], [Candidate(path) for path in list_paths(attach[1])])
    if match := _FILE_WORD.search(before):
        return _pack(match.start(), match[0], find_files(match[0][1:].removeprefix('"'), files))
    return None


def _pack(start: int, word: str, candidates: Sequence[Candidate]) -> Completion | None:
    return Completion(start, word, candidates[:MAX_CANDIDATES]) if candidates else None


def list_commands(session: Json) -> list[Candidate]:
    """List the gateway's commands, then the agent's own in this session. A name that both have is the gateway's; with a
    second slash, the agent gets it.
    """
    candidates = [Candidate(f"/{name}", command.description, command.usage) for name, command in COMMANDS.items()]
    candidates.append(Candidate(ATTACH, "Send a file of this machine with the next message.", f"{ATTACH} PATH"))
    for command in objects_in(session.get("commands")):
        if name := str(command.get("name") or ""):
            hint = str((command.get("input") or {}).get("hint") or "") if isinstance(command.get("input"), dict) else ""
            text = f"/{'/' if name in COMMANDS else ''}{name}"
            meaning = " ".join(str(command.get("description") or "").split())
            candidates.append(Candidate(text, meaning, f"{text} [{hint}]" if hint else ""))
    return candidates


def _find_commands(word: str, commands: Iterable[Candidate]) -> list[Candidate]:
    """Return the commands that begin with the word, then those that have it elsewhere."""
    name = word.strip("/").casefold()
    found = [one for one in commands if name in one.text.casefold()]
    return sorted(found, key=lambda one: (one.text != word, not one.text.casefold().startswith(word.casefold())))


def find_files(query: str, files: Iterable[str]) -> list[Candidate]:
    """Return the files whose path contains the query; first those whose name begins with it, short ones before long."""
    wanted = query.casefold()

    def rank(path: str) -> tuple[bool, int, str]:
        return not path.rpartition("/")[2].casefold().startswith(wanted), len(path), path

    return [Candidate(_quote(path)) for path in sorted((one for one in files if wanted in one.casefold()), key=rank)]


def _quote(path: str) -> str:
    return f'@"{path}"' if re.search(r"\s", path) else f"@{path}"


def write_blocks(text: str, workspace: Path, files: Collection[str]) -> list[Json] | None:
    """Return a message as ACP content blocks, with a `resource_link` for each "@file" of the workspace.

    None if the text mentions no such file: then it is sent as it is. `files`: paths below the workspace.
    """
    blocks: list[Json] = []
    end = 0
    for match in _FILE_MENTION.finditer(text):
        path = match[1] or match[2]
        while path not in files and match[1] is None and path[-1:] in _SENTENCE_MARKS and path:
            path = path[:-1]
        if path not in files:
            continue
        if before := text[end : match.start()]:
            blocks.append({"type": "text", "text": before})
        blocks.append({"type": "resource_link", "uri": (workspace / path).as_uri(), "name": path})
        end = match.end() if match[1] else match.start() + 1 + len(path)
    if blocks and (rest := text[end:]):
        blocks.append({"type": "text", "text": rest})
    return blocks or None


def format_candidate(candidate: Candidate) -> tuple[str, str]:
    """Return how a candidate is listed: itself or its usage, and its meaning."""
    return visible(candidate.usage or candidate.text), visible(candidate.meaning)
