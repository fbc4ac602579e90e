"""A gateway in memory, of the shape that the HTTP face asks for: what tests of that face stand on.

It honours what watchers rely on: one rev a change, a snapshot where the cursor is too old, heard once by key.
`Script` is the hand that moves it: it plays the agent.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_people import MemoryPeople

from semel.gateway.errors import BadRequest, Conflict, NoSuchSession, NotFound
from semel.gateway.ports import Heard
from semel.law.busy import Busy
from semel.ledger.inbound.hear import NO_STEERING

Json = dict[str, Any]

VERDICTS = {"resend": "queued", "arrived": "sent", "drop": "dropped"}


class Session:
    """One session: rows by number, and the last changes for those who resume."""

    def __init__(self, key: str, kept: int):
        self.key = key
        self.agent = key.partition(":")[0]
        self.seq = self.rev = 0
        self.state, self.waiting = "idle", 0
        self.more: Json = {}
        self.entries: dict[int, Json] = {}
        self.items: dict[int, Json] = {}
        self.changes: deque[Json] = deque(maxlen=kept)
        self.changed = asyncio.Event()
        self.watchers = 0
        self.left = asyncio.Event()  # a watcher has left

    def change(self, op: str, **fields: Any) -> Json:
        self.rev += 1
        change = {"op": op, "rev": self.rev, **fields}
        self.changes.append(change)
        self.changed.set()
        self.changed = asyncio.Event()
        return change

    def public(self) -> Json:
        home = f"web:{self.key}"
        out = {
            "key": self.key,
            "state": self.state,
            "waiting": self.waiting,
            "agent": self.agent,
            "home": home,
        }
        return {**out, **self.more}

    def snapshot(self, limit: int = 200) -> Json:
        return {"type": "snapshot", "rev": self.rev, "session": self.public(), **self.stretch(1 << 62, limit)}

    def stretch(self, before: int, limit: int) -> Json:
        rows = [e for e in self.entries.values() if e["seq"] < before][-limit:] if limit else []
        more = bool(rows) and rows[0]["seq"] > 1
        low = rows[0]["born"] if more else 0
        edge = self.entries.get(before)
        high = edge["born"] if edge else 1 << 62
        items = [item for item in self.items.values() if low <= item["born"] < high]
        return {"entries": rows, "items": items, "more": more, "before": rows[0]["seq"] if rows else 0}


class MemorySchedules:
    """Schedules that never fire."""

    def __init__(self) -> None:
        self.rows: dict[str, Json] = {}
        self._put("nightly", "count")

    def _put(self, name: str, text: str, **more: Any) -> Json:
        row = {"name": name, "session": f"schedule:{name}", "text": text, "tz": "UTC", "downtime": "once"}
        row |= {"source": "api", "enabled": True, "next": 1_900_000_000_000, "last": None}
        self.rows[name] = row | {key: value for key, value in more.items() if value is not None and key != "replace"}
        return self.rows[name]

    async def list(self, session: str | None = None) -> Any:
        return [row for row in self.rows.values() if session in (None, row["session"])]

    async def show(self, name: str) -> Json:
        if name not in self.rows:
            raise NotFound(f"there is no schedule {name!r}")
        return self.rows[name]

    async def add(self, name: str, text: str, **more: Any) -> Json:
        return self._put(name, text, **more)

    async def remove(self, name: str) -> None:
        await self.show(name)
        del self.rows[name]

    async def pause(self, name: str) -> Json:
        return await self.show(name) | {"enabled": False, "next": None}

    async def resume(self, name: str) -> Json:
        return await self.show(name)


class MemoryGateway:
    def __init__(self, kept: int = 1000, root: Path | None = None):
        self.kept = kept
        self.root = root
        self.schedules = MemorySchedules()
        self.people = MemoryPeople()
        about = {"session": "s", "agent": "demo", "command": "make", "seconds": 60.0, "at": 1}
        self.job: Json = {"id": "3", "state": "running", **about}
        self.channels: list[Json] = []
        self._sessions: dict[str, Session] = {}
        self._events: dict[tuple[str, str], tuple[int, str]] = {}
        self._numbers = itertools.count(1)
        self.outbox: dict[int, Json] = {}
        self.blobs: dict[str, tuple[Path, str, str]] = {}
        self.stops: list[tuple[str, str]] = []
        self.said = asyncio.Event()
        self.broken: Exception | None = None
        self.on_say: Any = None
        self.steers = False  # its agents read a second prompt
        self.overlap = 0  # so many changes a watcher has seen are sent again

    # ------------------------------------------------------------ hearing

    async def say(
        self,
        session: str,
        text: str,
        *,
        sender: str | None = None,
        key: str | None = None,
        source: str | None = None,
        busy: Busy | None = None,
        **rest: Any,
    ) -> Heard:
        if not text.strip():
            raise BadRequest("text is empty: say something")
        more: Json = {"sender": sender} if sender else {}
        if rest.get("automatic"):
            more["automatic"] = True
        found = self.script(session).session
        mode: Busy = busy or found.more.get("busy") or "queue"
        if found.state != "running":
            return self._hear(session, text, key, source, "user", more)
        why = None
        if mode == "steer" and not self.steers:
            mode, why = "queue", NO_STEERING
        heard = self._hear(session, text, key, source, "user", more, waiting=mode)
        found.waiting += 1
        self.script(session).state()
        return replace(heard, waiting=mode, place=found.waiting, why=why)

    async def report(
        self,
        session: str,
        kind: str,
        text: str,
        *,
        key: str | None = None,
        data: Json | None = None,
        wakes: bool | None = None,
        source: str | None = None,
        scope: Sequence[str] | None = None,
    ) -> Heard:
        return self._hear(session, text, key, source, "event", {"kind": kind})

    def _hear(
        self, session: str, text: str, key: str | None, source: str | None, role: str, more: Json, **shown: Any
    ) -> Heard:
        if self.broken:
            raise self.broken
        digest = hashlib.blake2b(json.dumps([text, more]).encode(), digest_size=32).hexdigest()
        identity = (source or f"api:{session}", key or "")
        if key is not None and identity in self._events:
            event, kept = self._events[identity]
            same = kept == digest
            return Heard(event, "duplicate" if same else "conflict", kept, "" if same else digest)
        event = next(self._numbers)
        if key is not None:
            self._events[identity] = (event, digest)
        self.script(session).entry(role, text, event=event, **more, **shown)
        self.said.set()
        if self.on_say is not None:
            self.on_say(session, text)
        return Heard(event, "accepted", digest)

    def script(self, session: str) -> Script:
        if session not in self._sessions:
            self._sessions[session] = Session(session, self.kept)
        return Script(self, self._sessions[session])

    def _find(self, key: str) -> Session:
        if self.broken:
            raise self.broken
        if key not in self._sessions:
            raise NoSuchSession(key)
        return self._sessions[key]

    # ------------------------------------------------------------ looking

    async def sessions(self, archived: bool = False, before: str | None = None, limit: int = 200) -> list[Json]:
        out = []
        for session in reversed(self._sessions.values()):
            if session.more.get("archived", False) != archived:
                continue
            last = next(reversed(session.entries.values()), {"text": "", "at": 0})
            row = session.public() | {"seq": session.seq, "rev": session.rev, "at": last["at"]}
            out.append(row | {"last": last["text"][:200]})
        keys = [row["key"] for row in out]
        start = 0 if before is None else keys.index(self._find(before).key) + 1
        return out[start : start + limit]

    async def session(self, session: str) -> Json:
        key = self._find(session).key
        return next(s for s in [*await self.sessions(), *await self.sessions(archived=True)] if s["key"] == key)

    async def rename(self, session: str, title: str | None) -> None:
        self._find(session).more["title"] = title
        self.script(session).state()

    async def archive(self, session: str, away: bool = True) -> None:
        self._find(session).more["archived"] = away
        self.script(session).state()

    async def delete(self, session: str) -> None:
        self._find(session).state = "deleted"
        self.script(session).state()
        del self._sessions[session]

    async def new_chapter(self, session: str, by: str, key: str | None = None) -> Heard:
        self._find(session)
        return self._hear(session, "/new", key, None, "user", {"sender": by, "kind": "command"})

    async def entries(self, session: str, after: int = 0, limit: int = 1000) -> tuple[list[Json], int]:
        found = self._find(session)
        rows = sorted((e for e in found.entries.values() if e["rev"] > after), key=lambda e: int(e["rev"]))
        return rows[:limit], rows[limit - 1]["rev"] if len(rows) > limit else found.rev

    async def watch(self, session: str, after: int | None) -> AsyncIterator[Json]:
        found = self._find(session)
        found.watchers += 1
        try:
            cursor = after
            while True:
                changed = found.changed
                first = found.changes[0]["rev"] if found.changes else found.rev + 1
                if cursor is None or cursor > found.rev or cursor + 1 < first:
                    yield found.snapshot()
                    cursor = found.rev
                elif cursor < found.rev:
                    changes = [change for change in found.changes if change["rev"] > cursor - self.overlap]
                    cursor = found.rev
                    yield {"type": "change", "rev": cursor, "changes": changes}
                else:
                    await changed.wait()
        finally:
            found.watchers -= 1
            found.left.set()

    async def history(self, session: str, before: int, limit: int) -> Json:
        return self._find(session).stretch(before, limit)

    async def output(self, session: str, item: int) -> str:
        row = self._find(session).items.get(item)
        if row is None or row["kind"] != "tool":
            raise NotFound(f"there is no tool call {item} in this session")
        return str(row["text"]) + "x" * row.get("gap", 0) + str(row.get("tail", ""))

    # ------------------------------------------------------------ acting

    async def search(self, text: str, **where: Any) -> Json:
        found = [
            {
                "session": key,
                "seq": e["seq"],
                "at": e["at"],
                "role": e["role"],
                "snippet": [{"text": e["text"], "hit": True}],
            }
            for key, session in self._sessions.items()
            for e in session.entries.values()
            if text.rstrip("*") in e["text"]
        ]
        return {"hits": found, "next": None, "index": {"current": True, "behind": 0}}

    async def export(self, session: str) -> AsyncIterator[list[Json]]:
        found = self._find(session)
        yield [{"line": "session", "key": session, "title": None, "agent": "a", "entries": 1, "exported": 1}]
        yield [{"line": "entry", "more": {}, **entry} for entry in found.entries.values()]

    async def import_session(self, file: Any, key: str | None = None) -> Json:
        return {"session": key or "s", "status": "imported", "entries": file.seek(0) + file.read().count(b"\n")}

    async def stop_turn(self, session: str, by: str) -> bool:
        found = self._find(session)
        self.stops.append((session, by))
        running = found.state == "running"
        if running:
            self.script(session).state("idle")
        return running

    async def answer(self, session: str, item: int, option: str | None, by: str, **_: Any) -> str:
        found = self._find(session)
        if item not in found.items:
            raise BadRequest(f"there is no item {item} in this session")
        state = found.items[item]["state"]
        if state != "open":
            return "already" if state == "answered" else "closed"
        state = "answered" if option is not None else "cancelled"
        self.script(session).item(found.items[item]["kind"], id=item, state=state, answer=option, by=by)
        return "answered"

    async def set_busy(self, session: str, mode: Busy | None) -> None:
        more = self._find(session).more
        more.pop("busy", None)
        if mode is not None:
            more["busy"] = mode
        self.script(session).state()

    async def set_mode(self, session: str, mode: str) -> None:
        self._find(session).more["mode"] = mode
        self.script(session).state()

    async def set_model(self, session: str, model: str) -> None:
        self._find(session).more["model"] = model
        self.script(session).state()

    # ------------------------------------------------------------ the outbox and the books

    async def parts(self, state: str | None, limit: int, before: int | None) -> list[Json]:
        rows = [p for p in reversed(self.outbox.values()) if state in (None, p["state"])]
        return [p for p in rows if before is None or p["id"] < before][:limit]

    async def part(self, id: int) -> Json:
        if id not in self.outbox:
            raise NotFound(f"there is no part {id}")
        return self.outbox[id]

    async def _decide(self, id: int, verdict: str) -> Json:
        part = await self.part(id)
        if part["state"] != "held":
            raise Conflict(f"part {id} is {part['state']}, not held")
        part["state"] = VERDICTS[verdict]
        if "session" in part:
            self.script(part["session"]).fares(part["seq"])
        return part

    async def resend(self, id: int) -> Json:
        return await self._decide(id, "resend")

    async def arrived(self, id: int) -> Json:
        return await self._decide(id, "arrived")

    async def drop(self, id: int) -> Json:
        return await self._decide(id, "drop")

    async def channel_list(self) -> list[Json]:
        return self.channels

    async def quarantined(self, limit: int = 100, before: int | None = None) -> list[Json]:
        return []

    async def jobs_of(self, session: str | None = None) -> list[Json]:
        if session is not None:
            self._find(session)
        return [self.job]

    async def cancel_job(self, id: str, by: str) -> Json:
        if id != self.job["id"]:
            raise NotFound(f"there is no job {id!r}")
        self.job |= {"state": "finished", "cancelled_by": by, "exit": 143, "ended": 2}
        return self.job

    async def diff_agent(self, session: str) -> Json:
        self._find(session)
        return {"compared": False, "why": "this gateway has no agent", "lacks": [], "extra": []}

    async def why(self, ref: str) -> Json:
        return {"ref": ref, "story": []}

    async def doctor(self) -> Json:
        return {
            "ok": True,
            "books": [{"name": "seq", "ok": True, "rows": [], "what": "no gaps"}],
            "ledger": {},
        }

    async def status(self) -> Json:
        if self.broken:
            raise self.broken
        return {"version": "0", "sessions": len(self._sessions), "configured": ["main", "codex"]}

    async def metrics(self) -> dict[str, float]:
        return {"semel_events_total": 3.0, 'semel_parts{state="held"}': 1.0, "semel_uptime_seconds": 1.5}

    async def hook(self, channel: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Json]:
        if channel != "ci":
            return 404, {"detail": f"there is no channel {channel!r}"}
        return 202, {"signed": headers.get("webhook-signature"), "bytes": len(body)}

    async def blob(self, id: str) -> tuple[Path, str, str]:
        if id not in self.blobs:
            raise NotFound(f"there is no file {id}")
        return self.blobs[id]


class Script:
    """Plays the agent in one session. Each call is one change with one rev."""

    def __init__(self, gateway: MemoryGateway, session: Session):
        self.gateway = gateway
        self.session = session

    def entry(self, role: str, text: str, **more: Any) -> int:
        session = self.session
        session.seq += 1
        rev = session.rev + 1
        at = more.pop("at", int(time.time() * 1000))
        row = {"seq": session.seq, "born": rev, "rev": rev, "at": at, "role": role, "text": text, **more}
        session.entries[session.seq] = row
        session.change("entry", **{k: v for k, v in row.items() if k != "rev"})
        return session.seq

    def append(self, seq: int, text: str) -> None:
        row = self.session.entries[seq]
        row["text"] += text
        row["rev"] = self.session.change("append", seq=seq, text=text)["rev"]

    def set(self, seq: int, **fields: Any) -> None:
        """Change an entry; a field set to None goes."""
        row = {k: v for k, v in (self.session.entries[seq] | fields).items() if v is not None}
        row["rev"] = self.session.rev + 1
        self.session.entries[seq] = row
        self.session.change("entry", **{k: v for k, v in row.items() if k != "rev"})

    def finish(self, seq: int, **fields: Any) -> None:
        self.set(seq, live=None, **fields)

    def gone(self, seq: int) -> None:
        del self.session.entries[seq]
        self.session.change("gone", seq=seq)

    def item(self, kind: str, id: int | None = None, text: str | None = None, **body: Any) -> int:
        session = self.session
        id = id or next(self.gateway._numbers)
        rev = session.rev + 1
        row = session.items.get(id, {"id": id, "born": rev, "kind": kind, "text": ""})
        row = {k: v for k, v in (row | body).items() if v is not None} | {"rev": rev}
        row["text"] = row["text"] if text is None else text
        session.items[id] = row
        session.change("item", **{k: v for k, v in row.items() if k != "rev"})
        return id

    def output(self, id: int, text: str) -> None:
        row = self.session.items[id]
        row["text"] += text
        row["rev"] = self.session.change("output", id=id, text=text)["rev"]

    def state(self, state: str | None = None, **more: Any) -> None:
        session = self.session
        session.state = state or session.state
        session.waiting = more.pop("waiting", session.waiting)
        session.more |= more
        session.change("session", **session.public())

    def held(self, seq: int, dest: str, error: str, texts: Sequence[str] = ("",)) -> int:
        """Parts of an entry are held, one for each text; the first one's id."""
        ids = [next(self.gateway._numbers) for _ in texts]
        for id, text in zip(ids, texts, strict=True):
            row = {"id": id, "dest": dest, "state": "held", "session": self.session.key, "seq": seq, "text": text}
            self.gateway.outbox[id] = row | {"error": error}
        self.fares(seq)
        return ids[0]

    def fares(self, seq: int) -> None:
        """Tells how the parts of an entry fare, those in one state together."""
        mine = [
            row
            for row in self.gateway.outbox.values()
            if row.get("seq") == seq and row.get("session") == self.session.key
        ]
        ways = []
        for state in sorted({str(row["state"]) for row in mine}):
            ids = [int(row["id"]) for row in mine if row["state"] == state]
            told = {"error": mine[0]["error"], **({"held": ids} if len(ids) > 1 else {})} if state == "held" else {}
            ways.append({"to": mine[0]["dest"], "state": state, "parts": len(ids), "part": ids[0], **told})
        self.set(seq, delivery=ways)
