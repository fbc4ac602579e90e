"""The queries of the gateway's API: entries, live views, parts, status, the books and `why` (Law 8)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, Literal

from semel import __version__
from semel.gateway.activity import log_activity
from semel.gateway.api.book_checks import read_last_check
from semel.gateway.api.composition import Components
from semel.gateway.bucket import StorageUnavailable
from semel.gateway.disk_use import DiskUse, measure_store
from semel.gateway.errors import BadRequest, Conflict, GatewayUnavailable, NotFound
from semel.gateway.files import StoreFailed
from semel.gateway.metrics import count_gateways, measure_storage
from semel.gateway.object_files import ObjectFiles
from semel.gateway.record import LedgerAccess
from semel.law import limits as law_limits
from semel.law.delivery import STATES, PartStepNotAllowed
from semel.ledger import file_pieces
from semel.ledger.admin import books, explain, needs, overview
from semel.ledger.backup.last_backup import read_last_backup, read_last_restore
from semel.ledger.delivery import parts, send_queue
from semel.ledger.engines import list_gateways
from semel.ledger.inbound import channel_batch
from semel.ledger.storage.location import name_database
from semel.ledger.storage.rows import ItemRow
from semel.ledger.storage.sql import Tx
from semel.ledger.transcript import views
from semel.ledger.turns import jobs as job_rows
from semel.ledger.turns import limits
from semel.text.json_types import Json
from semel.text.wellformed import MAX_NAME_CHARS, one_line

FRAME_INTERVAL_S = 0.033  # seconds between two frames that only extend a text; other changes are sent at once


class ReadApi(Components):
    """The part of the gateway's API that answers queries, and records decisions about held parts."""

    async def entries(self, session: str, after: int = 0, limit: int = 1000) -> tuple[list[Json], int]:
        """Return the entries that changed after the rev `after`, and the `after` for the next call."""
        return await self.record.read(views.read_entries, await self.record.find_session(session), after, limit)

    async def removed(self, session: str) -> Json | None:
        """Return what retention removed of a session, as `views.read_removed` does; None if nothing."""
        return await self.record.read(views.read_removed, await self.record.find_session(session))

    async def history(self, session: str, before: int, limit: int = 100) -> Json:
        """Return a page of history that ends before the seq `before`: {"entries", "items", "more", "before"}."""
        return await self.record.read(views.read_history, await self.record.find_session(session), before, limit)

    async def watch(self, session: str, after: int | None = None) -> AsyncIterator[Json]:
        """Yield the frames of a live view of the session.

        The first frame is a snapshot or, if the changes after the rev `after` are still known, these changes. Then each
        change is yielded as it is committed. The iteration ends when the session is deleted. Raises NoSuchSession.
        """
        number = await self.record.find_session(session)
        watcher = self.hub.join(number)
        try:
            # Keep no reference to a frame that is yielded: a snapshot is large, and a watcher may be slow.
            frames = [await self._catch_up(number, after)]
            rev, over = int(frames[0]["rev"]), _is_deleted(frames[0])
            yield frames.pop()
            while not over:
                await watcher.ready.wait()
                if watcher.lagged:
                    watcher.lagged = False
                    watcher.take()
                    frame = await self._catch_up(number, rev)
                    if frame.get("changes") == []:  # the watcher has all of it already
                        frame = {}
                else:
                    changes = watcher.take(rev)
                    frame = {"type": "change", "rev": changes[-1]["rev"], "changes": changes} if changes else {}
                if frame:
                    rev, over = int(frame["rev"]), _is_deleted(frame)
                    frames.append(frame)
                    frame, changes = {}, []
                    yield frames.pop()
                    if over:
                        return
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(
                            FRAME_INTERVAL_S
                        ):  # wait_for would swallow a cancel, before Python 3.12
                            await watcher.urgent.wait()
        finally:
            self.hub.leave(number, watcher)

    async def _catch_up(self, session: int, after: int | None) -> Json:
        if after is not None:
            since = await self.record.read(views.read_changes, session, after)
            if since is not None:
                return {"type": "change", "rev": since[0], "changes": since[1]}
        return {"type": "snapshot", **await self.record.read(views.read_snapshot, session)}

    # ------------------------------------------------------------ parts

    async def parts(self, state: str | None = None, limit: int = 100, before: int | None = None) -> list[Json]:
        """Return a page of parts, newest first.

        `state`: only parts in this state. `before`: only parts with a lower id. Raises BadRequest.
        """
        if state is not None and state not in STATES:
            raise BadRequest(f"state: {state!r} is not one of {', '.join(STATES)}")
        return await self.record.read(parts.list_newest, state, limit, before)

    async def part(self, id: int) -> Json:
        """Return one part. Raises NotFound."""
        try:
            return await self.record.read(parts.get_json, id)
        except parts.NoSuchPart as error:
            raise NotFound(str(error)) from None

    async def decide_part(self, id: int, decision: Literal["resend", "arrived", "drop"], by: str | None = None) -> Json:
        """Record a person's decision about a held or rejected part. Return the part.

        "resend": send the part again, after all others for its destination; a held one is marked as a repeat.
        "arrived": count it as sent. "drop": never send it. `by`: the person's name. Raises NotFound, or Conflict if the
        part is not held, nor rejected and resent or dropped.
        """
        by = one_line(by or "", MAX_NAME_CHARS) or "a person"
        try:
            part: Json = await self.record.write(send_queue.decide, id, decision, by)
        except parts.NoSuchPart as error:
            raise NotFound(str(error)) from None
        except PartStepNotAllowed as error:
            raise Conflict(str(error)) from None
        log_activity("part decided", session=part["session"], part=id, channel=part["channel"], outcome=decision, by=by)
        self.outbox.kick()
        return part

    async def quarantined(self, limit: int = 100, before: int | None = None) -> list[Json]:
        """Return a page of the events in quarantine, newest first, each with the reason and its raw content."""
        return await self.record.read(channel_batch.list_quarantined, limit, before)

    async def jobs_of(
        self, session: str | None = None, limit: int = job_rows.MAX_JOBS_LISTED, after: str | None = None
    ) -> list[Json]:
        """Return a page of a session's background jobs, newest first; if `session` is None, return all unfinished jobs.

        `after`: the id of a job; only older jobs of the session are returned.
        """
        number = None if session is None else await self.record.find_session(session)
        return await self.jobs.list(number, limit, after)

    async def limits(self, limit: int = 200, after: str = "") -> Json:
        """Return today's use, the limits, and the sessions that wait for a limit, as `GET /v1/limits` answers them.

        `limit`: the maximum length of each of the lists `limits` and `waiting`. `after`: "SCOPE/SUBJECT" of the last
        line of the previous page. Raises BadRequest.
        """
        return await read_limits(self.record, self.turns.limits, self.clock.now(), limit, after)

    # ------------------------------------------------------------ the books and the story

    async def why(self, ref: str) -> Json:
        """Return the story of an event, claim, part, turn, entry or platform message. Raises NotFound.

        `ref` names it: e1, c1, p1, t1, SESSION#1, an event's key, or a platform's message id.
        """
        story = await self.record.read(explain.tell_story, ref)
        if story is None:
            raise NotFound(await self.record.read(explain.describe_unknown, ref))
        for limit in story.get("limits", ()):
            limit["tz"] = self.turns.limits.zone_name
        return story

    async def doctor(self) -> Json:
        """Check all books of the ledger. Return {"ok", "books", "ledger"} as `audit_report` does."""
        return await self.record.read(audit_report)

    async def open_blob(self, id: str) -> tuple[BinaryIO, str, str]:
        """Return (content, name, media type) of a stored file; the caller closes the content.

        Raises NotFound, GatewayUnavailable.
        """
        row = await self.record.read(file_pieces.find_file, id)
        if row is None:
            raise NotFound(f"there is no file {id!r}")
        try:
            return await asyncio.to_thread(self.file_store.content.open, id), row.name, row.mime
        except StorageUnavailable as error:
            raise GatewayUnavailable(str(error)) from None
        except StoreFailed:
            raise NotFound("The file is not in the store any more.") from None

    async def output(self, session: str, item: int) -> str:
        """Return the whole output of the tool call `item`, of which the view has only head and tail.

        Raises NotFound.
        """
        number = await self.record.find_session(session)
        text = await self.record.read(_read_output, number, item)
        if text is None:
            raise NotFound(f"there is no tool call {item} in this session")
        return text

    async def status(self) -> Json:
        """Return a summary of the gateway's state: version, uptime, agents, running turns, watchers, parts."""
        return {
            "version": __version__,
            "uptime": round(time.time() - self.started_at, 1),
            "started": round(self.started_at * 1000),
            "configured": sorted(self.settings.agents, key=lambda name: name != self.settings.default_agent),
            "workspaces": {name: str(agent.cwd) for name, agent in self.settings.agents.items()},
            "turns": len(self.turns.runs),
            "agents": self.spawns.status(),
            "checks": await self._read_checks(),
            "watchers": self.hub.count + self.list_feed.count,
            "parts": await self.record.read(parts.count_backlog),
            "found": self.list_installed_agents() if self.list_installed_agents is not None else [],
        }

    async def _read_checks(self) -> dict[str, Json]:
        """Return the result of trying each agent. What was wrong then is not any more if a turn ended well since."""
        checks = dict(self.agent_checks)
        if any(check["level"] != "ok" for check in checks.values()):
            for agent, ended in (await self.record.read(overview.list_last_answers)).items():
                if agent in checks and checks[agent]["level"] != "ok" and checks[agent]["at"] < ended:
                    checks[agent] = {"level": "ok", "text": "its last turn ended well", "remedy": "", "at": ended}
        return checks

    async def find_problem(self) -> str | None:
        """Return why the gateway accepts no messages now, as a sentence; None if it accepts them."""
        return "The gateway is stopping." if self.stopping else await self.readiness.find_problem()

    async def overview(self) -> Json:
        """Return `status`, and what an operator looks at: sessions that need someone, channels, disk, backup, books."""
        status = await self.status()
        memory = await self.spawns.measure_memory()
        return {
            **status,
            "agents": [{**agent, "memory": memory.get(agent["spawn"])} for agent in status["agents"]],
            "problem": await self.find_problem(),
            "attention": await self.record.read(needs.list_attention, self.turns.limits.zone_name),
            "agent_notices": await self.record.read(overview.list_agent_notices),
            "put_off": await self.record.read(overview.list_put_off),
            "delayed": await self.record.read(parts.list_delayed, self.settings.channels),
            "rejected": await self.record.read(parts.count_rejected),
            "missing_agents": await self.record.read(overview.list_missing_agents, self.settings.configured_agents),
            "missing_channels": await self.record.read(overview.list_missing_channels, self.settings.channels),
            "channels": self.channel_manager.list(),
            "refused_nodes": self.node_refusals.list(),
            "database": name_database(self.settings.ledger),
            "object_storage": self._describe_object_storage(),
            **await self.gateways(),
            **await asyncio.to_thread(self._read_storage),
        }

    async def needs(self) -> list[Json]:
        """Return what needs somebody, over all sessions, as `needs.list_needs` does."""
        return await self.record.read(needs.list_needs, self.turns.limits.zone_name)

    async def gateways(self) -> Json:
        """Return {"gateways": those of the cluster that live, "missing_gateways": those that sessions wait for}."""
        if self.cluster_name is None:
            return {"gateways": [], "missing_gateways": []}
        gateways = await asyncio.to_thread(list_gateways, self.settings.ledger)
        living = {gateway.name for gateway in gateways}
        missing = await self.record.read(overview.list_missing_gateways, living, self.settings.moving_agents)
        return {"gateways": [asdict(gateway) for gateway in gateways], "missing_gateways": missing}

    def _describe_object_storage(self) -> Json | None:
        content = self.file_store.content
        if not isinstance(content, ObjectFiles):
            return None
        return {"url": str(content.bucket), "problem": content.bucket.problem}

    def _read_storage(self) -> Json:
        data_dir = self.settings.data_dir
        return read_storage(measure_store(self.store, data_dir), data_dir, self.clock.now())

    async def metrics(self) -> dict[str, float]:
        """Return the metrics for Prometheus: {name with labels: value}."""
        backlog = await self.record.read(parts.count_backlog)
        gateways = await asyncio.to_thread(list_gateways, self.settings.ledger) if self.cluster_name else ()
        return {
            **await asyncio.to_thread(measure_storage, self.store, self.settings.data_dir),
            **(count_gateways(gateways) if self.cluster_name else {}),
            "semel_uptime_seconds": time.time() - self.started_at,
            "semel_ready": float(await self.find_problem() is None),
            "semel_turns_running": float(len(self.turns.runs)),
            **self.turns.counts.metrics(),
            "semel_agents_live": float(len(self.spawns.live)),
            "semel_watchers": float(self.hub.count + self.list_feed.count),
            "semel_jobs_open": float(await self.record.read(job_rows.count_open)),
            "semel_strangers_total": float(self.tools.unknown_tokens),
            **self.people.metrics(),
            **{f"semel_parts_{state}": float(n) for state, n in backlog.items()},
            **self.outbox.metrics(),
            **self.book_checks.metrics(),
            **self.channel_manager.metrics(),
        }


def read_storage(use: DiskUse, data_dir: Path, now: int) -> Json:
    """Return {"disk", "backup", "restore", "books"} as in `GET /v1/status`. `now`: in ms. Reads files, so it blocks."""
    backup, restore, check = read_last_backup(data_dir), read_last_restore(data_dir), read_last_check(data_dir)
    growth = None if check is None else check.measure_growth(now, use.ledger + use.files)
    return {
        "disk": {**use.json(), "growth": growth},
        "backup": None if backup is None else asdict(backup),
        "restore": None if restore is None else asdict(restore),
        "books": None if check is None else check.json(),
    }


def _is_deleted(frame: Json) -> bool:
    """Return whether this frame, which is then the last one, reports that the session is deleted."""
    sessions = [frame.get("session", {}), *(c for c in frame.get("changes", ()) if c["op"] == "session")]
    return any(session.get("state") == "deleted" for session in sessions)


def audit_report(tx: Tx) -> Json:
    """Check all books of a ledger. Return {"ok": whether all hold, "books": each result, "ledger": row counts}."""
    audit = books.audit(tx)
    return {
        "ok": all(b.ok for b in audit),
        "books": [{"name": b.name, "ok": b.ok, "law": b.law, "what": b.what, "rows": list(b.broken)} for b in audit],
        "ledger": books.count_rows(tx),
    }


def _read_output(tx: Tx, session: int, item: int) -> str | None:
    row = tx.one(ItemRow, "item_get", id=item)
    if row is None or row.session != session or row.kind != "tool":
        return None
    return "".join(tx.values(str, "output_of_item", item=item))


async def read_limits(record: LedgerAccess, policy: limits.LimitPolicy, now: int, limit: int, after: str = "") -> Json:
    """Return what `ReadApi.limits` returns, without a running gateway. `now`: the time in ms."""
    day, ends = policy.find_day(now)
    scope, _, subject = after.partition("/")
    if after and scope not in ("all", "person", "session"):
        raise BadRequest(f"after: {after!r} is not the `next` of a page of this list")
    rows = await record.read(limits.list_spent, day, (scope, subject), limit)
    waiting = await record.read(limits.list_limited, limit)
    return {
        "day": day, "tz": policy.zone_name, "ends": ends,
        "limits": [_limit_json(row, policy.of(row.scope)) for row in rows],
        "waiting": [
            {"session": row.key, "scope": row.scope, "subject": row.subject, "measure": row.measure,
             "until": row.until, "since": row.at}
            for row in waiting
        ],
    }  # fmt: skip


def _limit_json(row: limits.ListedSpent, most: law_limits.Limits) -> Json:
    """Return one line of `limits`. "cost" is in the agents' currency; None in "most" means that there is no limit."""
    used = {"turns": row.turns, "tokens": row.tokens, "cost": row.cost / law_limits.MILLION}
    allowed = {
        "turns": most.turns, "tokens": most.tokens,
        "cost": None if most.cost is None else most.cost / law_limits.MILLION,
    }  # fmt: skip
    return {"scope": row.scope, "subject": row.subject, "used": used, "most": allowed, "unreported": row.unreported}
