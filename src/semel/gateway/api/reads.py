"""The queries of the gateway's API: entries, live views, parts, channels, the books and `why`; and answers (Law 8)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

from semel import __version__
from semel.gateway.errors import BadRequest, Conflict, NoSuchSession, NotFound
from semel.gateway.hub import Hub
from semel.gateway.inbound.admission import People
from semel.gateway.settings import GatewaySettings
from semel.gateway.transactions import Record
from semel.law import identity
from semel.law.delivery import STATES, PartStepNotAllowed
from semel.ledger.admin import books, explain
from semel.ledger.delivery import outgoing, parts
from semel.ledger.inbound import answers, channel_batch
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import views
from semel.ledger.turns import jobs

Json = dict[str, Any]
T = TypeVar("T")

STREAM_EVERY = 0.033  # seconds between two frames that only extend a text; other changes are sent at once


class Views:
    """The part of the gateway's facade that reads, answers requests, and decides about held parts."""

    record: Record
    hub: Hub
    blobs: Path
    started_at: float
    settings: GatewaySettings
    turns: Any
    spawns: Any
    outbox: Any
    tools: Any
    hearing: Any
    people: People
    _found: Callable[[], list[Json]] | None

    async def _id(self, session: str) -> int:
        row = await self.record.read(views.find, session)
        if row is None:
            raise NoSuchSession(session)
        return int(row.id)

    async def entries(self, session: str, after: int = 0, limit: int = 1000) -> tuple[list[Json], int]:
        """The entries that changed after a rev, and the rev to pass as `after` in the next call."""
        return await self.record.read(views.entries, await self._id(session), after, limit)

    async def history(self, session: str, before: int, limit: int = 100) -> Json:
        """The page of history before the entry `before` (a seq): {"entries", "items", "more", "before"}."""
        return await self.record.read(views.history, await self._id(session), before, limit)

    async def watch(self, session: str, after: int | None = None) -> AsyncIterator[Json]:
        """Yield a snapshot, or the changes after the rev `after`; then every change as it is committed.

        Ends when the session is deleted. Raises NoSuchSession.
        """
        number = await self._id(session)
        watcher = self.hub.join(number)
        try:
            # Yield from a list and drop our reference: a snapshot is large, and a watcher may be slow.
            told = [await self._catch_up(number, after)]
            rev, over = int(told[0]["rev"]), _deleted(told[0])
            yield told.pop()
            while not over:
                await watcher.ready.wait()
                if watcher.lagged:
                    watcher.lagged = False
                    watcher.take()
                    caught = await self._catch_up(number, rev)
                    if caught.get("changes") == []:  # the watcher has all of it already
                        caught = {}
                else:
                    fresh = watcher.take(rev)
                    caught = {"type": "change", "rev": fresh[-1]["rev"], "changes": fresh} if fresh else {}
                if caught:
                    rev, over = int(caught["rev"]), _deleted(caught)
                    told.append(caught)
                    caught, fresh = {}, []
                    yield told.pop()
                    if over:
                        return
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(STREAM_EVERY):  # wait_for would swallow a cancel, before Python 3.12
                            await watcher.urgent.wait()
        finally:
            self.hub.leave(number, watcher)

    async def _catch_up(self, session: int, after: int | None) -> Json:
        if after is not None:
            since = await self.record.read(views.since, session, after)
            if since is not None:
                return {"type": "change", "rev": since[0], "changes": since[1]}
        return {"type": "snapshot", **await self.record.read(views.snapshot, session)}

    # ------------------------------------------------------------ answers

    async def answer(
        self, session: str, item: int, option: str | None, by: str, *, told: bool = False,
        given: answers.AnswerContext = answers.OVER_THE_API,
    ) -> str:  # fmt: skip
        """Answer a permission request or a question. Returns "answered", "already" or "closed".

        A permission request is "answered" only once the agent has the answer, too; if a stop was faster, it is
        "closed". `told`: the person who was asked in a chat learns the outcome in another way. `given`: where the
        answer came from. Raises NoSuchSession, NotFound, BadRequest.
        """
        number = await self._id(session)
        if item >= 1 << 63:  # larger than any row id
            raise NotFound(f"there is no request {item} in this session")
        digest = identity.digest({"answer": option})
        done = await self.record.write(answers.answer, number, item, option, by, digest, told, given)
        if done.status == "unknown":
            raise NotFound(f"there is no request {item} in this session")
        if done.status == "no such option":
            raise BadRequest(f"option: {option!r} is not one of the options of request {item}")
        if done.status == "unseen":
            raise BadRequest(f"seen: request {item} is newer than the rev that was seen; nothing was answered")
        if done.status == "no words":
            raise BadRequest(
                "option: a question is answered with words; give one of its options, or a text of your own"
            )
        if done.kind == "permission" and done.status in ("answered", "repeat", "already"):
            return await self._delivered(number, item, done)
        if done.heard is not None:
            self.turns.wake(number)
        return str(done.status)

    async def _delivered(self, session: int, item: int, done: answers.Answer) -> str:
        """Give the agent the recorded answer and return the status for the person.

        Also delivers an answer that was recorded earlier but not delivered, because the gateway had not learned that
        the commit succeeded.
        """
        run = self.turns.runs.get(session)
        delivered = run is not None and run.answered(item, done.option)
        if done.status == "answered" and not delivered:
            await self.record.write(answers.undelivered, item)
        self.outbox.kick()
        if done.status == "already":
            return "already"
        return "answered" if delivered or done.status == "repeat" else "closed"

    # ------------------------------------------------------------ parts

    async def parts(self, state: str | None = None, limit: int = 100, before: int | None = None) -> list[Json]:
        """Parts, newest first."""
        if state is not None and state not in STATES:
            raise BadRequest(f"state: {state!r} is not one of {', '.join(STATES)}")
        return await self.record.read(parts.newest, state, limit, before)

    async def part(self, id: int) -> Json:
        """One part."""
        try:
            return await self.record.read(parts.show, id)
        except parts.NoSuchPart as no:
            raise NotFound(str(no)) from None

    async def resend(self, id: int) -> Json:
        """Send a held part again: it joins the tail of its destination's queue and is marked as a repeat."""
        return await self._decide(id, "resend")

    async def arrived(self, id: int) -> Json:
        """Record a person's decision that a held part has arrived."""
        return await self._decide(id, "arrived")

    async def drop(self, id: int) -> Json:
        """Give up a held part; it is never sent."""
        return await self._decide(id, "drop")

    async def _decide(self, id: int, decision: str) -> Json:
        try:
            done: Json = await self.record.write(outgoing.decide, id, decision)
        except parts.NoSuchPart as no:
            raise NotFound(str(no)) from None
        except PartStepNotAllowed as no:
            raise Conflict(str(no)) from None
        self.outbox.kick()
        return done

    # ------------------------------------------------------------ channels

    async def channel_list(self) -> list[Json]:
        """Every channel with its state, since when, its last error, and counts of its events."""
        found: list[Json] = self.hearing.list()
        return found

    async def quarantined(self, limit: int = 100, before: int | None = None) -> list[Json]:
        """The events in quarantine, newest first: each with the reason and its raw content."""
        return await self.record.read(channel_batch.quarantined, limit, before)

    # ------------------------------------------------------------ the books and the story

    async def why(self, ref: str) -> Json:
        """The story of one event, claim, part, turn or platform message."""
        story = await self.record.read(explain.story, ref)
        if story is None:
            raise NotFound(
                f"nothing is known of {ref!r}; ask for e1 (event), c1 (claim), p1 (part), t1 (turn), KEY#1 (entry), "
                "an event's key or a platform's message id"
            )
        return story

    async def doctor(self) -> Json:
        """Run all books on the live ledger: {"ok", "books", "ledger"}."""
        return await self.record.read(report)

    async def blob(self, id: str) -> tuple[Path, str, str]:
        """(path, name, media type) of a stored file."""
        row = await self.record.read(_blob, id)
        if row is None:
            raise NotFound(f"there is no file {id!r}")
        return self.blobs / id, row[0], row[1]

    async def output(self, session: str, item: int) -> str:
        """The whole output of a tool call (the view holds its head and tail)."""
        number = await self._id(session)
        text = await self.record.read(_output, number, item)
        if text is None:
            raise NotFound(f"there is no tool call {item} in this session")
        return text

    async def status(self) -> Json:
        """A summary of the gateway's state: version, uptime, agents, running turns, watchers, parts."""
        return {
            "version": __version__,
            "uptime": round(time.time() - self.started_at, 1),
            "configured": sorted(self.settings.agents, key=lambda name: name != self.settings.default_agent),
            "turns": len(self.turns.runs),
            "agents": self.spawns.status(),
            "watchers": self.hub.count,
            "parts": await self.record.read(parts.backlog),
            "found": self._found() if self._found is not None else [],
        }

    async def metrics(self) -> dict[str, float]:
        """Numbers for Prometheus, by metric name."""
        backlog = await self.record.read(parts.backlog)
        return {
            "semel_uptime_seconds": time.time() - self.started_at,
            "semel_turns_running": float(len(self.turns.runs)),
            "semel_agents_live": float(len(self.spawns.live)),
            "semel_watchers": float(self.hub.count),
            "semel_jobs_open": float(await self.record.read(jobs.count)),
            "semel_strangers_total": float(self.tools.strangers),
            **self.people.metrics(),
            **{f"semel_parts_{state}": float(n) for state, n in backlog.items()},
            **self.outbox.metrics(),
            **self.hearing.metrics(),
        }


def _deleted(frame: Json) -> bool:
    """Whether this frame reports that the session is deleted, which makes it the last one."""
    told = [frame.get("session", {}), *(c for c in frame.get("changes", ()) if c["op"] == "session")]
    return any(one.get("state") == "deleted" for one in told)


def report(tx: Tx) -> Json:
    """The books of a ledger as a JSON object: {"ok", "books", "ledger"}."""
    audit = books.audit(tx)
    return {
        "ok": all(b.ok for b in audit),
        "books": [{"name": b.name, "ok": b.ok, "law": b.law, "what": b.what, "rows": list(b.broken)} for b in audit],
        "ledger": books.counts(tx),
    }


def _blob(tx: Tx, id: str) -> tuple[str, str] | None:
    row = tx.one("blob_get", id=id)
    return None if row is None else (row.name, row.mime)


def _output(tx: Tx, session: int, item: int) -> str | None:
    row = tx.one("item_get", id=item)
    if row is None or row.session != session or row.kind != "tool":
        return None
    return "".join(r.text for r in tx.all("output_of_item", item=item))
