"""What is said in the script, by people, machines and the agent. The agent reads this file, too: standard library only.

Each message holds a mark; what the agent says about it depends on the mark alone, so that a second attempt at a turn
says the same. LOOKING streams, SENT goes by tool and is then the closing text, to home: an echo.
"""

from __future__ import annotations

import re

SESSION = "main:post:room"

M1, M2 = "Ann asks m1.", "Ann asks m2."  # by the chat, in one batch
M3 = "Ann asks m3."  # by the chat: that a job be run in the background
M4, M5 = "Ann asks m4.", "Ann asks m5."  # by the chat: the agent is at work on the first, the second waits
M6 = "Ann asks m6."  # by the chat, after the ledger was copied
H1 = "The desk asks h1."  # by HTTP
H2 = "The hook asks h2."  # by the webhook
E1 = "The editor asks e1."  # by `semel acp`

LOOKING = "Looking at m1 and m2, and at what became of them before."
SENT = "On it: m1 and m2."
HOOK_1, BIRD_1 = "To the hook: m1 and m2.", "To the bird: m1 and m2."
HOOK_2, BIRD_2 = "To the hook: h1.", "To the bird: h1."
HOME_2, HOME_3, HOME_4 = "Answer to h1.", "Answer to the run.", "Answer to h2."
HOME_5 = "Answer to e1."
STARTED = "It is being run."

MARKS = (
    ("pair", re.compile(r"Ann asks m[12]\.")),
    ("desk", re.compile(r"The desk asks h1\.")),
    ("job", re.compile(r"Ann asks m3\.")),
    ("copied", re.compile(r"Ann asks m[456]\.")),
    ("run", re.compile(r"ended with exit code|Lost sight of|could not be started|was not started")),
    ("edit", re.compile(r"The editor asks e1\.")),
    ("hook", re.compile(r"The hook asks h2\.")),
)
SAYS = {
    "pair": {"room": [SENT], "out": [HOOK_1], "nest": [BIRD_1]},
    "desk": {"room": [HOME_2], "out": [HOOK_2], "nest": [BIRD_2]},
    "copied": {},
    "job": {"room": [STARTED]},
    "run": {"room": [HOME_3]},
    "edit": {"room": [HOME_5]},
    "hook": {"room": [HOME_4]},
}
"""What must reach each address, by what was asked."""

DROPPED = (SENT, HOOK_2)
"""The platform takes these and its answer is lost, the first time."""
REFUSED = (HOOK_1, BIRD_2)
"""The platform does not take these the first time, and says so."""


def marks(text: str) -> list[str]:
    """What is asked in a text."""
    return [name for name, found in MARKS if found.search(text)]


def closing(name: str) -> list[str]:
    """The pieces of the closing text: those for others, then the one for home."""
    return {
        "pair": [_to("hook", HOOK_1), _to("bird", BIRD_1), SENT],
        "desk": [_to("hook", HOOK_2), _to("bird", BIRD_2), HOME_2],
        "copied": [],
        "job": [STARTED],
        "run": [HOME_3],
        "edit": [HOME_5],
        "hook": [HOME_4],
    }[name]


def _to(name: str, text: str) -> str:
    return f'<message to="{name}">{text}</message>'
