"""Make the sample stores in tests/data/stores: run OpenClaw and Hermes with a small model server, or write NanoClaw's.

    npm install node@24                          # in a folder of its own; OpenClaw is not installed by an older Node
    PATH=$PWD/node_modules/node/bin:$PATH npm install openclaw@2026.9.6    # 2026.8.2 and 2026.5.7 in other folders
    python -m venv v && v/bin/python -m pip install hermes-agent==0.19.0 python-telegram-bot==22.6

    python tests/stores/make_stores.py openclaw FOLDER VERSION     # FOLDER has node_modules
    python tests/stores/make_stores.py hermes v/bin/hermes
    python tests/stores/make_stores.py nanoclaw

Each program talks to the double of Telegram in `semel.testing` and to a server that answers as a model's
(`sample_model.py`), both in this process; nothing leaves the machine. Ada pairs, asks in private and in a group, has a
command run, sends a picture, and makes schedules, of which one fires. Hermes is killed while it answers, and started
again. NanoClaw is in no registry and needs containers: its store is written here with the tables and columns of its
public source (`src/db/schema.ts`), and with faults that its issues describe.

What a store keeps that an import does not read (prompts, tools, search indexes) is not copied. A database is kept as
the SQL that makes it.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from sample_model import Model

from semel.testing.telegram import TOKEN, TelegramDouble, serve

Json = dict[str, Any]
DATA = Path(__file__).parents[1] / "data" / "stores"
HOME = "/home/you"  # stands for the folder in which a program ran
START_S = 90.0
PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c636060606000000005000165f645400000000049454e44ae426082"
)
KEPT_ENTRY_FIELDS = {"sessionId", "chatType", "delivery", "deliveryContext", "displayName", "label", "sessionStartedAt"}


class PlainDouble(TelegramDouble):
    """The double, for bots that send markup: it shows the markup as text."""

    async def call(self, method: str, params: Json) -> tuple[int, Json]:
        unknown = {"parse_mode", "reply_markup", "link_preview_options", "disable_web_page_preview"}
        return await super().call(method, {key: value for key, value in params.items() if key not in unknown})


@asynccontextmanager
async def world() -> AsyncIterator[tuple[PlainDouble, str, str]]:
    """Yield the double, its URL, and the model's URL."""
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=model.serve_forever, daemon=True).start()
    double = PlainDouble(privacy=False)
    double.person(7, "Ada", "ada")
    double.person(8, "Ben", "ben")
    double.group(-1001, "Kitchen")
    async with serve(double) as url:
        yield double, url, f"http://127.0.0.1:{model.server_address[1]}/v1"
    model.shutdown()


async def hears(double: PlainDouble, chat: int, words: str, seconds: float = 120.0) -> str:
    """Wait until somebody in a chat was told something with `words`, and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for text in double.texts(chat):
            if re.search(words, text):
                return str(text)
        await asyncio.sleep(0.2)
    raise TimeoutError(f"nobody in {chat} was told {words!r}: {double.texts(chat)}")


class Program:
    """A program with an environment and a home of its own."""

    def __init__(self, command: list[str], home: Path, **environment: str) -> None:
        self.command = command
        self.environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "NO_COLOR": "1", **environment}
        self.home = home
        self.log = (home / "log.txt").open("ab")

    async def call(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *self.command, *arguments, env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=self.log,
        )  # fmt: skip
        out, _ = await asyncio.wait_for(process.communicate(), 300)
        print("$", *arguments, "->", process.returncode, flush=True)
        return out.decode()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self.command, *arguments], env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log,
        )  # fmt: skip


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()


async def ask(double: PlainDouble) -> None:
    """Ada asks in private and in the group, where Ben speaks, too; she has a command run, and sends a picture."""
    double.write(7, "What is the time of the train?")
    await hears(double, 7, "9:41")
    await asyncio.sleep(15)  # the gateway may start a channel again after the first person was let in
    double.write(-1001, "Who brings bread?", sender=7)
    with suppress(TimeoutError):  # OpenClaw 2026.5.7 writes its answers in groups down, and does not send them
        await hears(double, -1001, "Ben brings", 60)
    double.write(7, "And back?")
    await hears(double, 7, "22:15")
    double.write(-1001, "I am Ben.", sender=8)  # Hermes does not let him in
    double.write(7, "Bake the cake.")
    await hears(double, 7, "in the oven")
    await hears(double, 7, "cake is ready")
    double.write(7, "Tell me once.")
    await hears(double, 7, "at seven")
    double.send_file(7, PICTURE, kind="photo", name="cat.png", mime="image/png", caption="What is in this picture?")
    await hears(double, 7, "shows nothing")
    double.write(7, "/new")
    await asyncio.sleep(15)
    double.write(7, "It is a new day.")
    await hears(double, 7, "new day it is")


async def pair(double: PlainDouble, approve: Callable[[str], Any]) -> None:
    double.write(7, "Hello, may I come in?")
    code = re.search(r"(?=[A-Z0-9]*[A-Z])\b[A-Z0-9]{8}\b", await hears(double, 7, r"[Cc]ode"))
    assert code
    await approve(code[0])


# ---------------------------------------------------------------- OpenClaw


async def make_openclaw(folder: Path, version: str) -> None:
    node, program = folder / "node_modules/node/bin/node", folder / "node_modules/openclaw/openclaw.mjs"
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        async with world() as (double, telegram, model):
            write_openclaw_config(home / ".openclaw", telegram, model)
            claw = Program([str(node), str(program)], home)
            await claw.call("agent", "--local", "--session-key", "agent:main:notes", "-m", "From the command line")
            gateway = claw.start("gateway", "run", "--allow-unconfigured")
            deadline = time.monotonic() + START_S
            while time.monotonic() < deadline:  # it may end once, to begin with a configuration that it has completed
                await asyncio.sleep(5)
                if gateway.poll() is not None:
                    gateway = claw.start("gateway", "run", "--allow-unconfigured")
            try:
                await pair(double, lambda code: claw.call("pairing", "approve", "telegram", code))
                await ask(double)
                add = ("cron", "add", "--token", "t", "--name")
                target = ("--announce", "--channel", "telegram", "--to", "7")
                await claw.call(
                    *add, "bell", "--at", "5s", "--session", "isolated", "--message", "Ring the bell.", *target
                )
                await hears(double, 7, "bell rings")
                await claw.call(
                    *add, "morning", "--cron", "30 7 * * 1-5", "--tz", "Europe/Berlin", "--session", "isolated",
                    "--message", "Tell what today brings.", *target,
                )  # fmt: skip
                await claw.call(
                    *add, "cake", "--at", "2031-03-29T07:30:00Z", "--session", "main", "--system-event",
                    "Remember the cake.",
                )  # fmt: skip
                await claw.call(
                    *add, "oven", "--every", "2h", "--session", "isolated", "--message", "Look at the oven."
                )
            finally:
                end(gateway)
        copy_openclaw(home, DATA / f"openclaw-{version}")


def write_openclaw_config(folder: Path, telegram: str, model: str) -> None:
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
    small = {
        "id": "small", "name": "small", "contextWindow": 200_000, "maxTokens": 4096, "input": ["text", "image"],
        "reasoning": False, "cost": cost,
    }  # fmt: skip
    server = {"baseUrl": model, "apiKey": "none", "api": "openai-completions", "models": [small]}
    channel = {
        "enabled": True, "botToken": TOKEN, "apiRoot": telegram, "dmPolicy": "pairing", "groupPolicy": "open",
        "groups": {"*": {"requireMention": False}},
    }  # fmt: skip
    config = {
        "models": {"mode": "merge", "providers": {"local": server}},
        "agents": {"defaults": {"model": {"primary": "local/small"}, "skipBootstrap": True}},
        "channels": {"telegram": channel},
        "plugins": {"entries": {"telegram": {"enabled": True}}},
        "gateway": {"mode": "local", "port": 18735, "auth": {"mode": "token", "token": "t"}},
    }
    folder.mkdir(parents=True)
    (folder / "openclaw.json").write_text(json.dumps(config))


def copy_openclaw(home: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    state = home / ".openclaw"
    tables = ("session_nodes", "session_windows", "transcript_events", "session_transcript_cold_archives")
    agent = Path("agents/main/agent/openclaw-agent.sqlite")
    copy_database(state / agent, target / agent, tables, str(home))
    database = Path("state/openclaw.sqlite")
    copy_database(state / database, target / database, ("channel_pairing_allow_entries", "cron_jobs"), str(home))
    paths = (*state.glob("agents/main/sessions/*.jsonl"), *state.glob("credentials/*-allowFrom.json"))
    for path in (*paths, *state.glob("cron/jobs.json")):
        if ".trajectory" not in path.name:
            write(target / path.relative_to(state), path.read_text().replace(str(home), HOME))
    commands = json.loads((state / "openclaw.json").read_text()).get("commands")
    if commands:
        write(target / "openclaw.json", json.dumps({"commands": commands}))
    for path in state.glob("agents/main/sessions/sessions.json"):
        entries = {key: keep_fields(entry) for key, entry in json.loads(path.read_text()).items()}
        write(target / path.relative_to(state), json.dumps(entries, indent=1).replace(str(home), HOME))


def keep_fields(entry: Json) -> Json:
    return {key: value for key, value in entry.items() if key in KEPT_ENTRY_FIELDS}


# ---------------------------------------------------------------- Hermes


async def make_hermes(program: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        hermes = Program([str(program)], home, HERMES_HOME=str(home), OPENAI_API_KEY="none", TELEGRAM_BOT_TOKEN=TOKEN)
        async with world() as (double, telegram, model):
            (home / "config.yaml").write_text(
                f"model:\n  provider: custom\n  base_url: {model}\n  default: small\n  api_key: none\n"
                "timezone: Europe/Berlin\nplatforms:\n  telegram:\n    enabled: true\n"
                f'    token: "{TOKEN}"\n    extra:\n      base_url: "{telegram}/bot"\n'
                f'      base_file_url: "{telegram}/file/bot"\n'
            )
            gateway = hermes.start("gateway", "run")
            try:
                await pair(double, lambda code: hermes.call("pairing", "approve", "telegram", code))
                await ask(double)
                await hermes.call(
                    "cron", "create", "30 7 * * 1-5", "Tell what today brings.", "--name", "morning", "--deliver",
                    "telegram:7",
                )  # fmt: skip
                await hermes.call("cron", "create", "every 2h", "Look at the oven.", "--name", "oven")
                await hermes.call("cron", "create", "1m", "Ring the bell.", "--name", "bell", "--deliver", "telegram:7")
                await hears(double, 7, "bell rings", 180)
                await hermes.call("chat", "-q", "From the command line", "-Q")
                double.write(7, "Think about it.")
                await asyncio.sleep(8)
                gateway.kill()
                gateway.wait()
                gateway = hermes.start("gateway", "run")
                await hears(double, 7, "Noted|thought", 180)
                await asyncio.sleep(3)
            finally:
                end(gateway)
        copy_hermes(home, DATA / "hermes-0.19.0")


def copy_hermes(home: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    tables = ("schema_version", "sessions", "messages", "delivery_obligations")
    copy_database(home / "state.db", target / "state.db", tables, str(home))
    for path in (home / "cron/jobs.json", home / "platforms/pairing/telegram-approved.json"):
        write(target / path.relative_to(home), path.read_text().replace(str(home), HOME))
    write(target / "config.yaml", "timezone: Europe/Berlin\n")


# ---------------------------------------------------------------- NanoClaw


def make_nanoclaw() -> None:
    """Write a store with the columns of NanoClaw 2's schema."""
    target = DATA / "nanoclaw-2"
    shutil.rmtree(target, ignore_errors=True)
    write(target / ".env", "TZ=Europe/Berlin\n")
    write(target / "data/v2.db.sql", NANOCLAW_CENTRAL)
    session = target / "data/v2-sessions/ag-1/sess-1"
    write(session / "inbound.db.sql", NANOCLAW_INBOUND)
    write(session / "outbound.db.sql", NANOCLAW_OUTBOUND)


NANOCLAW_CENTRAL = """\
CREATE TABLE agent_groups (id TEXT PRIMARY KEY, name TEXT, folder TEXT, agent_provider TEXT, created_at TEXT);
CREATE TABLE messaging_groups (id TEXT PRIMARY KEY, channel_type TEXT, platform_id TEXT, instance TEXT, name TEXT,
  is_group INTEGER, unknown_sender_policy TEXT, created_at TEXT, denied_at TEXT);
CREATE TABLE users (id TEXT PRIMARY KEY, kind TEXT, display_name TEXT, created_at TEXT);
CREATE TABLE user_roles (user_id TEXT, role TEXT, agent_group_id TEXT, granted_by TEXT, granted_at TEXT);
CREATE TABLE agent_group_members (user_id TEXT, agent_group_id TEXT, added_by TEXT, added_at TEXT);
CREATE TABLE sessions (id TEXT PRIMARY KEY, agent_group_id TEXT, messaging_group_id TEXT, thread_id TEXT,
  agent_provider TEXT, status TEXT, container_status TEXT, last_active TEXT, created_at TEXT);
INSERT INTO agent_groups VALUES('ag-1', 'House', 'house', 'claude', '2026-11-20T08:00:00.000Z');
INSERT INTO messaging_groups VALUES('mg-1', 'telegram', 'telegram:7', 'telegram', 'Ada', 0, 'strict',
  '2026-11-20T08:00:00.000Z', NULL);
INSERT INTO users VALUES('telegram:7', 'telegram', 'Ada', '2026-11-20T08:00:00.000Z');
INSERT INTO users VALUES('telegram:8', 'telegram', 'Ben', '2026-11-20T08:00:00.000Z');
INSERT INTO users VALUES('telegram:9', 'telegram', 'Somebody', '2026-11-20T08:00:00.000Z');
INSERT INTO user_roles VALUES('telegram:7', 'owner', NULL, NULL, '2026-11-20T08:00:00.000Z');
INSERT INTO agent_group_members VALUES('telegram:8', 'ag-1', 'telegram:7', '2026-11-20T08:00:00.000Z');
INSERT INTO sessions VALUES('sess-1', 'ag-1', 'mg-1', NULL, NULL, 'active', 'stopped', NULL,
  '2026-11-20T08:00:00.000Z');
"""
NANOCLAW_INBOUND = """\
CREATE TABLE messages_in (id TEXT PRIMARY KEY, seq INTEGER UNIQUE, kind TEXT, timestamp TEXT, status TEXT,
  process_after TEXT, recurrence TEXT, series_id TEXT, tries INTEGER, trigger INTEGER, platform_id TEXT,
  channel_type TEXT, thread_id TEXT, content TEXT, source_session_id TEXT, on_wake INTEGER);
CREATE TABLE delivered (message_out_id TEXT PRIMARY KEY, platform_message_id TEXT, status TEXT, delivered_at TEXT);
INSERT INTO messages_in VALUES('3:ag-1', 2, 'chat', '2026-11-20T08:01:00.120Z', 'completed', NULL, NULL, NULL, 0, 1,
  'telegram:7', 'telegram', NULL, '{"sender": "Ada", "senderId": "telegram:7", "text": "Send the report."}', NULL, 0);
INSERT INTO messages_in VALUES('5:ag-1', 4, 'chat', '2026-11-20T08:05:00.500Z', 'completed', NULL, NULL, NULL, 0, 1,
  'telegram:7', 'telegram', NULL, '{"sender": "Ada", "senderId": "telegram:7", "text": "And the other one?"}', NULL, 0);
INSERT INTO messages_in VALUES('task-1', 6, 'task', '2026-11-20T08:05:30.000Z', 'completed',
  '2026-11-21T06:30:00.000Z', NULL, 'series-1', 0, 1, 'telegram:7', 'telegram', NULL,
  '{"prompt": "Tell what today brings."}', NULL, 0);
INSERT INTO messages_in VALUES('task-2', 8, 'task', '2026-11-21T06:30:10.000Z', 'pending',
  '2026-11-22T06:30:00.000Z', '30 7 * * *', 'series-1', 0, 1, 'telegram:7', 'telegram', NULL,
  '{"prompt": "Tell what today brings."}', NULL, 0);
INSERT INTO messages_in VALUES('task-3', 10, 'task', '2026-11-21T06:30:10.000Z', 'pending',
  '2026-11-22T06:30:00.000Z', '30 7 * * *', 'series-1', 0, 1, 'telegram:7', 'telegram', NULL,
  '{"prompt": "Tell what today brings."}', NULL, 0);
INSERT INTO delivered VALUES('out-1', '4', 'delivered', '2026-11-20 08:01:03');
INSERT INTO delivered VALUES('out-2', '5', 'delivered', '2026-11-20 08:01:04');
INSERT INTO delivered VALUES('out-3', NULL, 'failed', '2026-11-20 08:05:09');
INSERT INTO delivered VALUES('out-4', '7', 'delivered', '2026-11-21 06:30:40');
"""
NANOCLAW_OUTBOUND = """\
CREATE TABLE messages_out (id TEXT PRIMARY KEY, seq INTEGER UNIQUE, in_reply_to TEXT, timestamp TEXT,
  deliver_after TEXT, recurrence TEXT, kind TEXT, platform_id TEXT, channel_type TEXT, thread_id TEXT, content TEXT);
INSERT INTO messages_out VALUES('out-1', 3, NULL, '2026-11-20 08:01:02', NULL, NULL, 'chat', 'telegram:7', 'telegram',
  NULL, '{"text": "The report is sent."}');
INSERT INTO messages_out VALUES('out-2', 5, '3:ag-1', '2026-11-20 08:01:03', NULL, NULL, 'chat', 'telegram:7',
  'telegram', NULL, '{"text": "The report is sent."}');
INSERT INTO messages_out VALUES('out-3', 7, '5:ag-1', '2026-11-20 08:05:05', NULL, NULL, 'chat', 'telegram:7',
  'telegram', NULL, '{"text": "That one is not ready."}');
INSERT INTO messages_out VALUES('out-4', 9, 'task-1', '2026-11-21 06:30:38', NULL, NULL, 'chat', 'telegram:7',
  'telegram', NULL, '{"text": "Bread day."}');
"""


# ---------------------------------------------------------------- copies


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def copy_database(source: Path, target: Path, tables: tuple[str, ...], home: str) -> None:
    """Write the SQL that makes these tables with their rows, as `target`.sql. Does nothing if there is no database."""
    if not source.is_file():
        return
    db = sqlite3.connect(source)
    lines = [f"PRAGMA user_version={db.execute('PRAGMA user_version').fetchone()[0]};"]
    for table in tables:
        columns = [f'"{row[1]}" {row[2]}' for row in db.execute(f'PRAGMA table_info("{table}")')]
        if not columns:
            continue
        lines.append(f'CREATE TABLE "{table}" ({", ".join(columns)});')  # without checks, which an old SQLite lacks
        cursor = db.execute(f'SELECT * FROM "{table}" ORDER BY rowid')
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            values = [reduce_value(name, value) for name, value in zip(names, row, strict=True)]
            quoted = [db.execute("SELECT quote(?)", (value,)).fetchone()[0] for value in values]
            lines.append(f'INSERT INTO "{table}" VALUES({", ".join(quoted)});')
    db.close()
    write(target.with_name(f"{target.name}.sql"), "\n".join(lines).replace(home, HOME) + "\n")


def reduce_value(name: str, value: Any) -> Any:
    """Return a column's value without what an import does not read: prompts and settings."""
    if name in ("system_prompt", "model_config", "api_content", "navigation_json", "schedule_identity"):
        return None if name != "schedule_identity" else "{}"
    if name == "entry_json":
        return json.dumps(keep_fields(json.loads(value)))
    if name == "job_json":
        job = json.loads(value)
        if job.get("declarationKey"):
            job["payload"] = {"kind": "agentTurn", "message": "A prompt of OpenClaw's own."}
        job.pop("description", None)
        return json.dumps(job)
    return None if name == "description" else value


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["openclaw", folder, version]:
            asyncio.run(make_openclaw(Path(folder).absolute(), version))
        case ["hermes", program]:
            asyncio.run(make_hermes(Path(program).absolute()))
        case ["nanoclaw"]:
            make_nanoclaw()
        case _:
            sys.exit(__doc__)
