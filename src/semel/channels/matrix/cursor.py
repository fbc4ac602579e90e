"""The saved position of an account in /sync.

`since` is the homeserver's token. `gaps`: for rooms of which the /sync after `since` left out events, the token up to
which those have been put. `invites`: unanswered invitations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Invite:
    """An invitation: the inviting user, and whether the room is encrypted."""

    sender: str
    encrypted: bool = False


@dataclass(frozen=True)
class Cursor:
    """A position in /sync. It is valid only for the account `user`."""

    user: str
    since: str
    gaps: Mapping[str, str] = field(default_factory=dict)  # room -> token
    invites: Mapping[str, Invite] = field(default_factory=dict)  # by room

    def dump(self) -> str:
        """The cursor as compact JSON; empty fields are left out."""
        out: dict[str, Any] = {"user": self.user, "since": self.since}
        if self.gaps:
            out["gaps"] = dict(self.gaps)
        if self.invites:
            out["invites"] = {room: [one.sender, one.encrypted] for room, one in self.invites.items()}
        return json.dumps(out, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def load(cls, text: str, user: str) -> Cursor | None:
        """Parse the text of `dump`; None if it is malformed or belongs to another account."""
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
