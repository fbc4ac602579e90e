"""Configuration: any semel.toml is settings, or a ConfigError whose lines name a place; secrets are never told."""

from __future__ import annotations

from pathlib import Path

from proof.fuzz.scratch import folder
from proof.fuzz.source import Source
from semel.faces.config.load import load_config
from semel.faces.config.paths import locate
from semel.faces.config.problems import ConfigError

SECRET = "s3cr3t-of-the-test-0123456789"
ENV = {"HOME": "/nowhere", "SECRET": SECRET, "HOOK": "whsec_" + "QUJD" * 11}
SECTIONS = [
    "[gateway]", "[ledger]", "[agents.main]", "[agents.main.env]",
    "[agents.m]\nkind = \"model\"\nmodel = \"openai:gpt-5\"", "[agents.m.mcp.git]", "[agents.m.settings]",
    "[channels.hook]\nkind = \"webhook\"", "[channels.t]\nkind = \"telegram\"", "[channels.m]\nkind = \"matrix\"",
    "[channels.x]\nkind = \"xmpp\"", "[channels.e]\nkind = \"email\"", "[channels.odd]",
    "[channels.t.groups.\"-100\"]", "[destinations.ops]", "[schedules.daily]", "[heartbeat]", "[background]",
    "[nodes.ci]", "[people.ann]", "[sessions.\"main:*\"]", "[sessions.\"main:*\".wake]", "[[agents]]", "[odd]",
    "[gateway", "[agents.\"a b\"]",
]  # fmt: skip
KEYS = [
    "listen", "data_dir", "hosts", "heartbeat", "log", "default_agent", "max_live_agents", "idle_after",
    "permission_deadline", "grace", "url", "kind", "command", "cwd", "env", "permissions", "approvals", "attempts",
    "silence", "trace", "model", "key", "base_url", "instructions", "tools", "mcp", "context", "max_tokens",
    "compaction", "settings", "headers", "A", "secret", "token", "session", "sessions", "allow_private", "key_life",
    "timeout", "pace", "homeserver", "user", "password", "jid", "rooms", "address", "imap", "smtp", "authserv",
    "poll", "api", "narration", "stream", "resend_unknown", "agent", "channel", "allow", "cron", "at", "every",
    "text", "tz", "downtime", "quiet", "hours", "jobs", "all", "time", "output", "role", "accounts", "busy", "wake",
    "automatic", "debounce", "longest", "join", "mail_limit", "ca_file", "groups", "policy", "strangers",
]  # fmt: skip
VALUES = [
    '"127.0.0.1:8420"', '"[::1]:0"', '"x:99999"', '":1"', '"env:SECRET"', '"env:NOTHING"', '"env:HOOK"',
    '"file:nothing"', '"file:~nobody/x"', '"file:~no-such-user/x"', '"~no-such-user/x"', '"file:\\u0000"',
    '"~nobody/x"', '"\\u0000"', '"main"', '"nobody"', '["codex-acp"]', "[]", '["", 1]', "true", "0", "-1", "1.5",
    "inf", "nan", '"10m"', '"0s"', '"9' + "9" * 320 + 's"', '"10MB"', '"9' + "9" * 320 + 'GB"',
    "99999999999999999999", '"30 7 * * *"', '"@never"', "2030-03-29T07:30:00Z", "2030-03-29", '"2030-13-01"',
    '"90s"', '"Europe/Berlin"', '"Mars/Base"', '"sqlite:///x.db"', '"sqlite://"', '"postgres://x"', '"https://x.y"',
    '"http://127.0.0.1"', '"http://["', '"http://x:99999"', '"4242:' + "A" * 35 + '"', '"@bot:x.y"', '"bot@x.y"',
    '"owner"', '["ann", "t:7"]', '["main:*"]', '"main:x"', "{ a = 1 }", '{ b = "env:SECRET" }', '""', '"\\ud800"',
    "'''\nx\n'''", '"openai:gpt-5"', '"22:00-06:00"', '"all"', '"queue"', '"-100"', '"ops"', '"daily"',
    "0x7fffffffffffffffff", "1979-05-27T07:32:00", "07:32:00", '"é"', '"whsec_AAAA"', f'"{SECRET}"',
]  # fmt: skip
_SAFE = ("/dev", "/proc", "/sys")


def one(data: bytes) -> None:
    source = Source(data)
    path = folder() / "semel.toml"
    whole = _file(source)
    if any(part.encode() in whole for part in _SAFE):
        return  # a device is no file: to read one may never end
    path.write_bytes(whole)
    data_dir = folder() / "data" if source.number(2) else None
    try:
        found = load_config(path, data_dir, env=ENV)
        assert 0 <= found.port <= 65535 and found.gateway.agents and found.gateway.data_dir.is_absolute()
        assert SECRET not in repr(found), "a secret is shown"
        again = load_config(path, data_dir, env=ENV)
        assert repr(again) == repr(found)
    except ConfigError as bad:
        assert bad.problems and all(isinstance(one, str) and one.strip() for one in bad.problems)
        assert SECRET.encode() in whole or SECRET not in str(bad), "a secret is told"
    try:
        data, ledger = locate(path, data_dir, ENV)
        assert isinstance(data, Path) and SECRET not in str(ledger), "a secret is shown"
    except ConfigError as bad:
        assert str(bad)


def _file(source: Source) -> bytes:
    if source.number(5) == 4:
        return source.rest()
    lines = []
    while source.left > 2 and len(lines) < 60:
        if source.number(4) == 3:
            lines.append(source.pick(SECTIONS))
        key = source.pick(KEYS) if source.number(12) else f'"{source.pick(KEYS)}.{source.number(9)}"'
        lines.append(f"{key} = {source.pick(VALUES)}")
        if source.number(40) == 39:
            lines.append(source.words(3))
    return "\n".join(lines).encode("utf-8", "replace")


SEEDS = [
    b'\x04[gateway]\nlisten = "127.0.0.1:8420"\n[agents.main]\nkind = "acp"\ncommand = ["codex-acp"]\n[channels.hook]\n'
    b'kind = "webhook"\nurl = "https://x.y"\nsecret = "env:HOOK"\nsession = "main:x"\n[destinations.ops]\n'
    b'channel = "hook"\naddress = "o"\nallow = ["main:*"]\n[schedules.daily]\ncron = "30 7 * * *"\n'
    b'session = "main:x"\ntext = "go"\n',
    b'\x04[channels.t]\nkind = "telegram"\ntoken = "env:SECRET"\n', b"\x04\xef\xbb\xbf[gateway]\nlistn = 1\n",
    b"\x04\xff",
    *(bytes([0, 3, n % 26, 1, n, n * 3 % 256, 0, 1, n + 7, n + 20, 0, 3, n % 26, 1, n + 1, n]) * 2
      for n in range(0, 80, 2)),
]  # fmt: skip
