"""`semel channels`, and how transcripts tell of what people do to messages."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from cli_house import Cli, until

from semel.faces.config import ConfigError
from semel.faces.config.load import load_config
from semel.faces.transcript import format_body, format_entry

HOOK = '[channels.hook]\nkind = "webhook"\ntoken = "env:TOKEN"\nsession = "demo:hook:team"\n'


def test_channels_are_listed_with_how_they_fare(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "a-token-of-sixteen-letters")
    (cli.home / "semel.toml").write_text(HOOK)
    cli.up()
    [one] = cli.json("channels")
    assert (one["name"], one["kind"], one["state"], one["safety"], one["agent"]) == (
        "hook", "webhook", "online", "idempotent", "demo",
    )  # fmt: skip
    told = cli("channels").stdout.split("\t")
    assert told[:3] == ["hook", "webhook", "online"]
    assert cli.json("channels", "--quarantined") == []
    assert "nothing is quarantined" in cli("channels", "--quarantined").stdout
    assert httpx2.post(f"{cli.json('status')['url']}/v1/hooks/hook", json={"text": "hello"}).status_code == 401
    told = cli("people", "strangers").stderr
    assert "no sender was refused" in told and "hook: 1 refused, HTTP requests with no-token; see: semel logs" in told


def test_the_reason_of_a_channel_that_is_down_is_whole_in_a_pipe(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text('[channels.hook]\nkind = "webhook"\n')
    cli.up()
    [hook] = until(lambda: [c for c in cli.json("channels") if c["state"] == "denied"], "the channel is denied")
    assert len(hook["error"]) > 80
    assert cli("channels").stdout.rstrip("\n").split("\t")[-1] == hook["error"]


def test_the_agent_of_a_channel_is_one_that_exists(tmp_path: Path) -> None:
    path = tmp_path / "semel.toml"
    path.write_text('[agents.abe]\ncommand = ["abe"]\n[agents.zoe]\ncommand = ["zoe"]\n' + HOOK + 'agent = "zoe"\n')
    env = {"TOKEN": "a-token-of-sixteen-letters", "HOME": str(tmp_path)}
    assert load_config(path, env=env).gateway.channels["hook"].agent == "zoe"
    path.write_text(path.read_text().replace('agent = "zoe"', 'agent = "zeo"'))
    with pytest.raises(ConfigError, match=r'\[channels.hook\] agent is "zeo".*zoe'):
        load_config(path, env=env)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"of": 1, "quote": "Five?", "whose": "Bob"}, "(replies to 1 (Bob: 'Five?'))"),
        ({"kind": "edit", "of": 1, "quote": "Five?", "whose": "Bob"}, "(edits 1 (Bob: 'Five?'))"),
        ({"kind": "reaction", "of": 1, "quote": "Five?", "removed": True}, "(takes back a reaction to 1 ('Five?'))"),
        ({"kind": "delete"}, "(deletes a message that is not here)"),
        ({"edited": 4, "deleted": 5}, "(edited in 4, deleted in 5)"),
        ({}, "Ann: x"),
    ],
)
def test_a_line_tells_what_an_entry_is_about(more: dict[str, object], told: str) -> None:
    assert told in format_entry({"seq": 3, "at": 0, "role": "user", "sender": "Ann", "text": "x", **more})


def test_a_missing_file_is_named_with_its_reason() -> None:
    files = [{"id": "a", "name": "a.txt"}, {"name": "b.mp4", "missing": "too large"}]
    assert (
        format_body({"text": "see", "files": files})
        == "see\n[file a.txt, /v1/blobs/a]\n[file b.mp4 is missing: too large]"
    )


def test_an_event_is_shown_with_its_sender() -> None:
    event = {"seq": 3, "at": 0, "role": "event", "kind": "build.failed", "text": "Build 12 failed"}
    assert " build.failed: Build 12 failed" in format_entry(event)
    assert " build.failed from ci: Build 12 failed" in format_entry({**event, "sender": "ci"})
