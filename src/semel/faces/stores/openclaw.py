"""OpenClaw's store, `~/.openclaw`: databases since 2026.8, and the JSONL files of the versions before."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from semel.faces.stores.files import (
    check_regular,
    columns_of,
    format_interval,
    format_moment,
    local_zone,
    open_database,
    parse_object,
    parse_time,
    read_json_file,
    read_text_file,
    require_version,
)
from semel.faces.stores.json5 import parse_json5
from semel.faces.stores.openclaw_events import TranscriptReader
from semel.faces.stores.records import (
    BadStore,
    StoredConversation,
    StoredMessage,
    StoredPerson,
    StoredSchedule,
    StoreReport,
    chat_key,
    page_session_key,
)
from semel.text.json_types import Json

OLDEST_SCHEMA, NEWEST_SCHEMA = 14, 23  # of an agent's database
COLUMNS = {
    "session_nodes": {"session_key", "current_session_id", "entry_json", "label", "display_name"},
    "session_windows": {"session_id", "session_key", "display_name", "created_at"},
    "transcript_events": {"session_id", "seq", "event_json"},
}
"""Table of an agent's database -> its columns that are read."""
NEWEST_TRANSCRIPT = 4  # of a JSONL file's header
MAX_LINE_BYTES = 64 << 20
PAGE_EVENTS = 200
CHAT_KINDS = ("group", "channel", "room", "direct", "dm")

_TRANSCRIPT_NAME = re.compile(r"(.+?)(?:-topic-[^.]+)?\.jsonl(?:\.(?:reset|deleted)\..+)?")


class OpenClawStore:
    """Reads an OpenClaw state folder."""

    system = "openclaw"

    def __init__(self, path: Path) -> None:
        """`path`: the state folder (`~/.openclaw`), or the home that it is in. Raises BadStore."""
        self.folder = path / ".openclaw" if (path / ".openclaw").is_dir() else path
        self.state = self.folder / "state" / "openclaw.sqlite"
        self.report = StoreReport()
        self._names: dict[str, str] = {}  # of senders, by account; known once the conversations were read
        self._decompress = _find_decompressor()
        self.databases = sorted(self.folder.glob("agents/*/agent/openclaw-agent.sqlite"))
        self.transcript_folders = sorted(self.folder.glob("agents/*/sessions"))
        if not self.databases and not self.transcript_folders:
            raise BadStore(
                f"{path} is no OpenClaw state folder: it has no agents/*/agent/openclaw-agent.sqlite and no "
                "agents/*/sessions. Give the folder that has `agents`, as ~/.openclaw"
            )
        versions = [self._check_database(database) for database in self.databases]
        self.version = f"agent schema {max(versions)}" if versions else "JSONL transcripts"

    def _check_database(self, database: Path) -> int:
        with open_database(database) as db:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            advice = "Run `openclaw doctor --fix` with OpenClaw's newest version, and import again"
            is_newer_but_known = version > NEWEST_SCHEMA and _has_known_layout(db)
            if not is_newer_but_known:
                require_version("OpenClaw", database, version, OLDEST_SCHEMA, NEWEST_SCHEMA, advice)
            for table in COLUMNS:
                if not columns_of(db, table):
                    raise BadStore(f"{database} is not OpenClaw's: it has no table `{table}`")
            if is_newer_but_known:
                self.report.name_unread(
                    f"{database}, schema {version}",
                    f"this Semel knows OpenClaw's schema up to {NEWEST_SCHEMA}; what it knows was read, and what a "
                    "newer OpenClaw may keep elsewhere was not. A newer Semel may read more",
                )
            # An import without these events would have to be done anew.
            if self._decompress is None and _has_compressed(db):
                raise BadStore(
                    f"{database} has compressed events. Install a decompressor for Semel's Python (pip install "
                    "zstandard; pipx inject semel zstandard), and import again"
                )
        return version

    # ------------------------------------------------------------ conversations

    def read_conversations(self) -> Iterator[StoredConversation]:
        """Yield the transcripts. Those that continue a chat come first, because only one can have the chat's key.

        The main conversation is before a private chat's own session, which then has what OpenClaw wrote for itself.
        """
        in_databases: set[str] = set()
        for database in self.databases:
            yield from self._list_windows(database, in_databases)
        for folder in self.transcript_folders:
            yield from self._list_files(folder, in_databases)

    def _list_windows(self, database: Path, listed: set[str]) -> Iterator[StoredConversation]:
        agent = database.parents[1].name
        with open_database(database) as db:
            rows = db.execute(
                "SELECT w.session_id, w.session_key, n.current_session_id IS w.session_id AS is_current, n.entry_json, "
                "coalesce(n.label, n.display_name, w.display_name) AS title FROM session_windows w "
                "LEFT JOIN session_nodes n ON n.session_key = w.session_key "
                "ORDER BY is_current DESC, w.session_key LIKE '%:main' DESC, w.created_at, w.session_id"
            ).fetchall()
            if "session_id" in columns_of(db, "session_transcript_cold_archives"):
                for row in db.execute("SELECT session_id FROM session_transcript_cold_archives"):
                    self.report.name_unread(
                        f"{database}, session {row['session_id']}",
                        "its transcript is in a cold archive; open it once in OpenClaw, which restores it",
                    )
        for row in rows:
            session = row["session_id"]
            listed.add(session)
            key = _session_key(agent, row["session_key"], parse_object(row["entry_json"]), session)
            if not row["is_current"]:
                key = page_session_key(f"openclaw-{session}", agent)
            read_messages = partial(self._read_window, database, session)
            yield StoredConversation(f"openclaw:{agent}:{session}", key, row["title"], read_messages)

    def _read_window(self, database: Path, session: str) -> Iterator[StoredMessage]:
        try:
            with open_database(database) as db:
                reader = TranscriptReader(session, self.report, self._names)
                yield from reader.read(self._read_rows(db, database, session))
        except BadStore as error:
            self.report.name_unread(f"{database}, session {session}", str(error))

    def _read_rows(self, db: sqlite3.Connection, database: Path, session: str) -> Iterator[tuple[str, Json]]:
        zstd = "event_zstd" if "event_zstd" in columns_of(db, "transcript_events") else "NULL AS event_zstd"
        after = -1
        while True:
            rows = db.execute(
                f"SELECT seq, event_json, {zstd} FROM transcript_events WHERE session_id = ? AND seq > ? "
                f"ORDER BY seq LIMIT {PAGE_EVENTS}",
                (session, after),
            ).fetchall()
            if not rows:
                return
            for row in rows:
                place = f"{database}, session {session}, event {row['seq']}"
                try:
                    event = json.loads(self._text_of(row))
                    if not isinstance(event, dict):
                        raise ValueError("it is no JSON object")
                except (ValueError, RecursionError) as error:
                    self.report.name_unread(place, str(error))
                    continue
                yield place, event
            after = rows[-1]["seq"]

    def _text_of(self, row: sqlite3.Row) -> str | bytes:
        """Return an event's JSON. Raises ValueError."""
        if row["event_json"] is not None:
            return str(row["event_json"])
        if self._decompress is None or not isinstance(row["event_zstd"], bytes):
            raise ValueError("it has no content")
        try:
            return self._decompress(row["event_zstd"])
        except Exception as error:  # each module has an error class of its own
            raise ValueError(f"it cannot be decompressed: {error}") from None

    def _list_files(self, folder: Path, in_databases: set[str]) -> Iterator[StoredConversation]:
        agent = folder.parent.name
        index = folder / "sessions.json"
        entries = read_json_file(index, self.report) if index.exists() else {}
        current = {
            str(entry.get("sessionId")): (key, entry)
            for key, entry in (entries.items() if isinstance(entries, dict) else ())
            if isinstance(entry, dict)
        }
        paths = [path for path in sorted(folder.glob("*.jsonl*")) if _is_transcript(path)]
        main = entries.get(f"agent:{agent}:main") if isinstance(entries, dict) else None
        main_session = main.get("sessionId") if isinstance(main, dict) else None
        paths.sort(
            key=lambda path: (
                _session_of(path) not in current or path.suffix != ".jsonl",
                _session_of(path) != main_session,
            )
        )
        seen = set(in_databases)
        for path in paths:
            session = _session_of(path)
            if session in seen:
                continue  # the database, or the file that goes on, has it
            seen.add(session)
            name, entry = current.get(session, ("", {}))
            key = _session_key(agent, name, entry, session)
            title = entry.get("label") or entry.get("displayName")
            read_messages = partial(self._read_file, path, session)
            yield StoredConversation(f"openclaw:{agent}:{session}", key, title, read_messages)

    def _read_file(self, path: Path, session: str) -> Iterator[StoredMessage]:
        yield from TranscriptReader(session, self.report, self._names).read(self._read_lines(path))

    def _read_lines(self, path: Path) -> Iterator[tuple[str, Json]]:
        try:
            check_regular(path)
            with path.open("rb") as file:
                number = 0
                while line := file.readline(MAX_LINE_BYTES):
                    number += 1
                    place = f"{path}:{number}"
                    if not line.strip():
                        continue
                    try:
                        event = json.loads(line)
                        if not isinstance(event, dict):
                            raise ValueError("it is no JSON object")
                    except (ValueError, RecursionError) as error:
                        cut = "" if line.endswith(b"\n") else "; the file ends here, in the middle of a line"
                        self.report.name_unread(place, f"{error}{cut}")
                        continue
                    if number == 1 and (why := _refuse_header(event)):
                        self.report.name_unread(place, why)
                        return
                    yield place, event
        except OSError as error:
            self.report.name_unread(str(path), error.strerror or str(error))

    # ------------------------------------------------------------ people

    def read_people(self) -> Iterator[StoredPerson]:
        """Yield the accounts that were paired, and those that the configuration allows, the owners first."""
        seen = set()
        config = self._read_config()
        owners = [str(entry) for entry in _list_of(config.get("commands"), "ownerAllowFrom")]
        owned = [(channel, account) for channel, is_named, account in (o.partition(":") for o in owners) if is_named]
        for channel, account in [*owned, *self._read_accounts(config)]:
            account = account.removeprefix(f"{channel}:").removeprefix("tg:" if channel == "telegram" else "")
            if account == "*" or account.startswith("accessGroup:"):
                self.report.left_out["rules that let in more than one account"] += 1
            elif (channel, account) not in seen:
                seen.add((channel, account))
                role = "owner" if (channel, account) in owned else None
                yield StoredPerson(channel, account, self._names.get(f"{channel}:{account}"), role)

    def _read_config(self) -> Json:
        path = self.folder / "openclaw.json"
        config = read_json_file(path, self.report, parse_json5) if path.exists() else None
        return config if isinstance(config, dict) else {}

    def _read_accounts(self, config: Json) -> Iterator[tuple[str, str]]:
        for row in self._read_state("the people", "channel_pairing_allow_entries", "channel_key, entry"):
            yield row["channel_key"], row["entry"]
        for path in sorted((self.folder / "credentials").glob("*-allowFrom.json")):
            content = read_json_file(path, self.report)
            for account in _list_of(content, "allowFrom"):
                yield path.name.partition("-")[0], str(account)
        channels = config.get("channels")
        for channel, settings in (channels if isinstance(channels, dict) else {}).items():
            bots = settings.get("accounts") if isinstance(settings, dict) else None
            for allowing in (settings, *(bots.values() if isinstance(bots, dict) else ())):
                for account in _list_of(allowing, "allowFrom"):
                    yield str(channel), str(account)

    def _read_state(self, what: str, table: str, order: str) -> list[sqlite3.Row]:
        """Return a table of the database that all agents share; [] if there is none.

        If it cannot be read, report that `what` is missing.
        """
        if not self.state.is_file():
            return []
        try:
            with open_database(self.state) as db:
                has_table = bool(columns_of(db, table))
                return db.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall() if has_table else []
        except BadStore as error:
            self.report.name_unread(f"{self.state}, {what}", str(error))
            return []

    # ------------------------------------------------------------ schedules

    def read_schedules(self) -> Iterator[StoredSchedule]:
        main_keys = {folder.parent.name: self._main_key_of_files(folder) for folder in self.transcript_folders}
        main_keys |= {database.parents[1].name: self._main_key(database) for database in self.databases}
        for place, job in self._read_jobs():
            if job.get("declarationKey"):
                self.report.left_out["schedules that OpenClaw makes for itself"] += 1
                continue
            try:
                yield _parse_job(job, main_keys)
            except (ValueError, TypeError, OverflowError) as error:
                self.report.name_unread(f"{place}, job {job.get('name') or job.get('id')}", str(error))

    def _main_key(self, database: Path) -> str:
        """Return the key of the session that an agent's main conversation becomes."""
        agent = database.parents[1].name
        key = f"agent:{agent}:main"
        with open_database(database) as db:
            row = db.execute("SELECT entry_json FROM session_nodes WHERE session_key = ?", (key,)).fetchone()
        return _session_key(agent, key, parse_object(row["entry_json"] if row else None), "")

    def _main_key_of_files(self, folder: Path) -> str:
        """Return the same for an agent whose conversations are files."""
        agent = folder.parent.name
        key = f"agent:{agent}:main"
        entry = None
        with contextlib.suppress(OSError):  # which the list of conversations has named
            entry = parse_object(read_text_file(folder / "sessions.json")).get(key)
        return _session_key(agent, key, entry if isinstance(entry, dict) else {}, "")

    def _read_jobs(self) -> Iterator[tuple[str, Json]]:
        rows = self._read_state("the schedules", "cron_jobs", "sort_order, job_id")
        for row in rows:
            yield str(self.state), {**parse_object(row["job_json"]), "enabled": bool(row["enabled"])}
        if rows:
            return  # the file is what the table was made of
        path = self.folder / "cron" / "jobs.json"
        content = read_json_file(path, self.report) if path.exists() else None
        jobs = content.get("jobs") if isinstance(content, dict) else content
        for job in jobs if isinstance(jobs, list) else []:
            if isinstance(job, dict):
                yield str(path), job


def _list_of(value: object, name: str) -> list[object]:
    """Return a list in a JSON object; [] if it has none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _has_compressed(db: sqlite3.Connection) -> bool:
    if "event_zstd" not in columns_of(db, "transcript_events"):
        return False
    return db.execute("SELECT 1 FROM transcript_events WHERE event_zstd IS NOT NULL LIMIT 1").fetchone() is not None


def _is_transcript(path: Path) -> bool:
    return ".trajectory" not in path.name and _TRANSCRIPT_NAME.fullmatch(path.name) is not None


def _refuse_header(event: Json) -> str | None:
    """Return why a file that begins with this record is not read; None if it is."""
    version = event.get("version")
    if event.get("type") != "session":
        return "the file does not begin as a transcript does"
    if isinstance(version, int) and version > NEWEST_TRANSCRIPT:
        return f"its format has version {version}; this Semel knows up to {NEWEST_TRANSCRIPT}"
    return None


def _session_of(path: Path) -> str:
    match = _TRANSCRIPT_NAME.fullmatch(path.name)
    return match[1] if match else path.name


def _session_key(agent: str, key: str, entry: Json, session: str) -> str:
    """Return the key of the session that a transcript becomes: that of its chat, or one on the page.

    `key`: OpenClaw's key of it, such as agent:main:telegram:group:-100:topic:5; "" if the transcript has none.
    """
    rest = key.removeprefix(f"agent:{agent}:")
    if rest == "main":
        channel, address = _direct_chat(entry)
        return chat_key(channel, address, agent) if address else page_session_key("openclaw-main", agent)
    parts = rest.split(":")
    place = next((index for index in (1, 2) if len(parts) > index + 1 and parts[index] in CHAT_KINDS), None)
    if place is None:
        return page_session_key(f"openclaw-{rest or session}", agent)
    address = _make_address(parts[0], ":".join(parts[place + 1 :]), parts[place])
    channel, last_address = _direct_chat({**entry, "chatType": None})
    is_same = channel == parts[0] and last_address.lower() == address.lower()
    return chat_key(parts[0], last_address if is_same else address, agent)  # keys have Signal's ids in lower case


def _direct_chat(entry: Json) -> tuple[str, str]:
    """Return the channel and address of the private chat that a main session was last used from, or ("", "")."""
    delivery = entry.get("delivery")
    context = entry.get("deliveryContext") or (delivery.get("context") if isinstance(delivery, dict) else None)
    if not isinstance(context, dict) or entry.get("chatType") not in (None, "direct"):
        return "", ""
    channel, target = str(context.get("channel") or ""), str(context.get("to") or "")
    return (channel, _make_address(channel, target)) if channel and target and channel != "webchat" else ("", "")


def _make_address(channel: str, target: str, kind: str = "direct") -> str:
    """Return a chat's address. `kind`: one of CHAT_KINDS."""
    target = target.removeprefix(f"{channel}:")
    if channel == "signal":
        return f"group:{target}" if kind == "group" and not target.startswith("group:") else target
    target = target.removeprefix("group:")
    for mark in (":topic:", ":thread:"):
        chat, is_in_topic, topic = target.partition(mark)
        if is_in_topic:
            return f"{chat}:topic-{topic}" if channel == "telegram" else f"{chat}:{topic}"
    return target


def _has_known_layout(db: sqlite3.Connection) -> bool:
    """Return whether a database of a newer OpenClaw has all columns that are read, and each event its content.

    Most versions of the schema change other tables. An import without some events would have to be done anew.
    """
    if any(not columns_of(db, table) >= columns for table, columns in COLUMNS.items()):
        return False
    has_frames = "event_zstd" in columns_of(db, "transcript_events")
    without_content = "event_json IS NULL" + (" AND event_zstd IS NULL" if has_frames else "")
    return db.execute(f"SELECT 1 FROM transcript_events WHERE {without_content} LIMIT 1").fetchone() is None


def _find_decompressor() -> Callable[[bytes], bytes] | None:
    """Return a function that decompresses Zstandard frames; None if this Python has none."""
    for name in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            decompress: Callable[[bytes], bytes] = importlib.import_module(name).decompress
            return decompress
    with contextlib.suppress(ImportError):
        module = importlib.import_module("zstandard")
        return lambda frame: bytes(module.ZstdDecompressor().decompressobj().decompress(frame))
    return None


def _parse_job(job: Json, main_keys: dict[str, str]) -> StoredSchedule:
    """Return a schedule. Raises ValueError if Semel has no such schedule."""
    payload, timing = job.get("payload"), job.get("schedule")
    text = (payload.get("message") or payload.get("text")) if isinstance(payload, dict) else None
    if not text or not isinstance(timing, dict):
        kind = payload.get("kind") if isinstance(payload, dict) else None
        raise ValueError(f"it is of the kind {kind!r}; Semel's schedules ask an agent")
    agent = str(job.get("agentId") or "main")
    delivery, session = job.get("delivery"), None
    if isinstance(delivery, dict) and delivery.get("to") and delivery.get("channel") not in (None, "last"):
        channel = str(delivery["channel"])
        session = chat_key(channel, _make_address(channel, str(delivery["to"])), agent)
    elif job.get("sessionTarget") == "main":
        session = main_keys.get(agent)
    name = str(job.get("name") or job.get("id") or "job")
    common: Json = {"name": name, "text": str(text), "session": session, "enabled": job.get("enabled") is not False}
    match timing.get("kind"):
        case "cron":
            fields = str(timing.get("expr") or "").split()
            if len(fields) == 6 and fields[0] != "0":
                raise ValueError(f"Semel's schedules have no seconds: {' '.join(fields)}")
            spec = " ".join(fields[-5:] if len(fields) == 6 else fields)
            return StoredSchedule(**common, form="cron", spec=spec, tz=str(timing.get("tz") or local_zone()))
        case "every":
            interval = format_interval(int(timing.get("everyMs") or 0) // 1000)
            return StoredSchedule(**common, form="every", spec=interval, tz="UTC")
        case "at":
            at = parse_time(timing.get("at") or timing.get("atMs"))
            if at is None:
                raise ValueError(f"its time cannot be read: {timing.get('at')}")
            return StoredSchedule(**common, form="at", spec=format_moment(at), tz="UTC")
        case kind:
            raise ValueError(f"Semel has no schedules of the kind {kind!r}")
