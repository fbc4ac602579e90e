"""What is written in a person's name in Hermes's rows: their words, and what Hermes puts around or in place of them.

Hermes writes what its model is to see. So a row of the role `user` may begin with notes about a file or a quoted
message, and a row may be Hermes's report of a process or of a schedule, whom no person wrote (Law 4). The forms are
those of `gateway/run.py`, `cron/scheduler.py` and `tools/process_registry.py` of hermes-agent 0.19.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MACHINE_TEXTS = ("[System note:", "[System:", "[IMPORTANT: MCP servers have been reloaded")
_REPORTS = ("[IMPORTANT: Background process ", "[ASYNC DELEGATION ")
_ENDED_PROCESS = re.compile(r"\[IMPORTANT: Background process \S+ (?!matched watch pattern )")
_SCHEDULE = "[IMPORTANT: You are running as a scheduled cron job."
_AFTER_SKILLS = "The user has provided the following instruction alongside the skill invocation: "
_NOTES = (
    re.compile(r'\[Replying to(?: your previous message)?: ".*?"\]', re.S),
    re.compile(r"\[Triggering message id: `[^`]*`[^\]]*\]"),
    re.compile(
        r"\[The user sent (?:a|an) (?:text )?(?:document|audio file attachment|video attachment): '([^']*)'.*?\]"
    ),
    re.compile(r"\[The user sent an image~ .*?\]\n\[If you need a closer look, [^\n]*image_url: ([^\n]*?) ?~?\]", re.S),
    re.compile(r"\[The user sent an image but [^\n]*image_url: ([^\n]*?)\]"),
    re.compile(r"\[The user sent a voice message: ([^\n]*?)(?: \(duration: [^)\n]*\))?\]"),
    re.compile(r"\[(voice message) could not be transcribed\]"),
    re.compile(r"\[The user sent an? (?:animated )?(sticker)\b[^\n]*\]"),
)
"""Notes before a person's words; a group is the name or path of a file."""
_IMAGE = re.compile(r"\n*^\[Image attached(?: at)?: ([^\n]*)\]$", re.M)
_SENDER = re.compile(r"\[([^\[\]\n]{1,200})\] ")


@dataclass(frozen=True)
class PersonText:
    """`kind`: of an event, if no person wrote it. `sender`: who wrote it, if the row says so in a shared session."""

    text: str
    files: tuple[str, ...] = ()
    kind: str | None = None
    sender: str | None = None


def read_person_text(content: str, *, is_shared: bool) -> PersonText:
    """Return what a row says. `is_shared`: in its session, Hermes writes each person's name before their words."""
    if content.startswith(_REPORTS):
        return PersonText(content, kind="exec.finished" if _ENDED_PROCESS.match(content) else "report")
    if _SCHEDULE in content and content.startswith(("[IMPORTANT: The ", _SCHEDULE)):
        _, _, prompt = content.rpartition(_AFTER_SKILLS)
        return PersonText(prompt.partition("]\n\n")[2] if prompt.startswith(_SCHEDULE) else prompt, kind="schedule")
    text, files = content, list[str]()
    while match := next(filter(None, (note.match(text) for note in _NOTES)), None):
        files += [_base_name(name) for name in match.groups() if name]
        text = text[match.end() :].lstrip("\n")
    files += [_base_name(match[1]) for match in _IMAGE.finditer(text)]
    text = _IMAGE.sub("", text)
    sender = _SENDER.match(text) if is_shared else None
    if sender:
        text = text[sender.end() :]
    return PersonText(text.strip(), tuple(files), sender=sender[1] if sender else None)


def _base_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path
