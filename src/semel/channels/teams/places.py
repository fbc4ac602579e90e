"""The conversations behind addresses, and the URLs at which Teams serves them: the cursor.

Whatever is sent later, unasked, needs Teams' id of the conversation and the URL that Teams named with the newest
message of it (https://learn.microsoft.com/microsoftteams/platform/bots/how-to/conversations/send-proactive-messages).
Both are saved with the messages, in the channel's cursor, which has no other use: nothing can be read again from Teams.
"""

from __future__ import annotations

import json

from semel.channels.recent_map import RecentMap
from semel.channels.teams.address import TeamsPlace
from semel.text.json_types import object_at, text_at

MAX_PLACES = 300
"""Chats and channels that are remembered: the newest. A personal chat that is not is opened again by a call."""


class TeamsPlaces:
    """What is known of conversations. `url`: where Teams was heard from last; "" if it was not."""

    def __init__(self, url: str = "") -> None:
        self.url = url
        self._chats = RecentMap[str, str](MAX_PLACES)  # ids of personal chats, by person
        self._urls = RecentMap[str, str](MAX_PLACES)  # by person or chat

    def __repr__(self) -> str:
        return f"<TeamsPlaces of {len(self._chats)} people>"

    def note(self, place: TeamsPlace, conversation: str, url: str) -> bool:
        """Note where a message came from. Return whether that changes anything."""
        name = place.person or place.chat
        before = (self.url, self._urls.get(name), self._chats.get(place.person))
        self.url = self._urls[name] = url
        if place.person:
            self._chats[place.person] = conversation
        return before != (self.url, self._urls.get(name), self._chats.get(place.person))

    def find_conversation(self, place: TeamsPlace) -> str | None:
        """Return Teams' id of a conversation; None of a personal chat that is not known."""
        return self._chats.get(place.person) if place.person else str(place)

    def find_url(self, place: TeamsPlace) -> str:
        """Return the URL at which a conversation is served; "" if Teams was never heard from."""
        return self._urls.get(place.person or place.chat) or self.url

    def dump(self) -> str:
        """Return the cursor as text."""
        return json.dumps({"url": self.url, "chats": self._chats, "urls": self._urls}, separators=(",", ":"))

    @classmethod
    def load(cls, text: str | None) -> TeamsPlaces:
        """Return what `dump` wrote; on the first run, or if it cannot be read, nothing is known."""
        try:
            saved = json.loads(text or "")
        except ValueError:
            return cls()
        places = cls(text_at(saved, "url") or "")
        for person, chat in object_at(saved, "chats").items():
            places._chats[person] = str(chat)
        for name, url in object_at(saved, "urls").items():
            places._urls[name] = str(url)
        return places
