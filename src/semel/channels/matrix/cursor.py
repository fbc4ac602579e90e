"""How far the account was read.

`since` is the homeserver's token. `gaps`: rooms of which a /sync after `since` left something out, and how far that was
put by now. `invites`: rooms we were asked into and have not answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Invite:
    """Who asked us into a room, and whether that is encrypted."""

    sender: str
    encrypted: bool = False


@dataclass(frozen=True)
class Cursor:
    """`user`: whose it is. Another account's tokens mean nothing to this one."""

    user: str
    since: str
    gaps: Mapping[str, str] = field(default_factory=dict)  # room -> token
    invites: Mapping[str, Invite] = field(default_factory=dict)  # by room

    def dump(self) -> str:
        """Compact JSON; parts that are empty are left out."""
        out: dict[str, Any] = {"user": self.user, "since": self.since}
        if self.gaps:
            out["gaps"] = dict(self.gaps)
        if self.invites:
            out["invites"] = {room: [one.sender, one.encrypted] for room, one in self.invites.items()}
        return json.dumps(out, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def load(cls, text: str, user: str) -> Cursor | None:
        """What `dump` wrote for this account; None: it is another account's, or another kind of channel's."""
        try:
            data = json.loads(text)
            invites = {
                room: Invite(str(sender), bool(locked))
                for room, [sender, locked] in dict(data.get("invites", {})).items()
            }
            gaps = {str(room): str(token) for room, token in dict(data.get("gaps", {})).items()}
            found = cls(str(data["user"]), str(data["since"]), gaps, invites)
        except (ValueError, TypeError, AttributeError, LookupError):
            return None
        return found if found.user == user else None
