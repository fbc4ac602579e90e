"""A command loads what it uses: the start of a gateway waits for no library that no message needs yet."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

LATE = {
    "httpx2": "clients, agents of models, channels",
    "markdown_it": "the first text that is shown as Markdown",
    "segno": "the QR code of a login link",
    "semel.faces.client": "other commands",
    "semel.faces.terminal": "semel chat",
    "semel.channels.http": "a configured channel",
    "semel.channels.discord.channel": "a configured channel",
    "semel.channels.email.channel": "a configured channel",
    "semel.channels.irc.channel": "a configured channel",
    "semel.channels.matrix.channel": "a configured channel",
    "semel.channels.mattermost.channel": "a configured channel",
    "semel.channels.signal.channel": "a configured channel",
    "semel.channels.slack.channel": "a configured channel",
    "semel.channels.telegram.channel": "a configured channel",
    "semel.channels.webhook": "a configured channel",
    "semel.channels.whatsapp.channel": "a configured channel",
    "semel.channels.teams.channel": "a configured channel",
    "semel.channels.xmpp.channel": "a configured channel",
    "pydantic_ai": "an agent that is a model",
    "fastmcp": "an agent that is a model",
    "opentelemetry": "traces",
}
"""Modules that `semel up` without channels does not load, and who needs them."""


def environment(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SEMEL_", "OTEL_"))}
    return {**kept, "HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home)}


def imported_by(home: Path, *words: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    program = (
        "import atexit, sys; from semel.faces.cli import main\n"
        "atexit.register(lambda: print('loaded:', *sys.modules, file=sys.stderr)); main()"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=environment(home), cwd=home, capture_output=True, text=True, check=False)
    return set(done.stderr.rpartition("loaded: ")[2].split())


def test_a_gateway_without_channels_starts_without_what_it_does_not_use(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "semel", "up", "--listen", "127.0.0.1:0", "--log", "json"]
    with subprocess.Popen(
        command, env=environment(tmp_path), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as up:
        assert up.stderr is not None
        try:
            lines = []
            for line in up.stderr:
                lines.append(line)
                if '"event": "ready"' in line:
                    break
        finally:
            up.terminate()
            up.communicate(timeout=60)
    loaded = set(re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", "".join(lines), re.M))
    assert {"semel.gateway.api.gateway", "semel.faces.http.app", "uvicorn"} <= loaded, "".join(lines)[-2000:]
    assert {name: why for name, why in LATE.items() if name in loaded} == {}


def test_a_command_loads_no_other(tmp_path: Path) -> None:
    commands = re.compile(r"semel\.faces\.cli\.(status|outbox|talk|up|init)")
    loaded = imported_by(tmp_path, "--version")
    assert "semel.faces.cli.app" in loaded
    assert {name for name in loaded if commands.fullmatch(name)} == set()
    assert not {"semel.faces.client", "semel.ledger", "semel.gateway", "pydantic.main"} & loaded
    assert {name for name in imported_by(tmp_path, "status") if commands.fullmatch(name)} == {"semel.faces.cli.status"}
    program = "import sys, semel.faces.health.overview, semel.faces.health.installation; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not {"semel.faces.run", "semel.faces.http", "semel.gateway.api.gateway"} & loaded, "beside a running gateway"
    loaded = imported_by(tmp_path, "say", "--help")  # in a module of another name, the third in the help
    assert "semel.faces.cli.talk" in loaded and "semel.faces.cli.outbox" not in loaded
    assert not {"semel.faces.run", "semel.faces.http", "semel.gateway.api.gateway"} & loaded
