"""`semel doctor` says whether the installation is all right, and for each fault what to do."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli_house import SCRIPTED, Cli, end, until

from semel.faces.health.installation import examine_files
from semel.ledger.sqlite.connect import connect
from semel.testing.scripted_agent import command, prompt
from semel.text.write_errors import advise_on_write_error

LOGGED_OUT = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        methods = [{"id": "key", "name": "Key"}]
        answer = {"result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": methods}}
    else:
        answer = {"error": {"code": -32000, "message": "Authentication required"}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
"""


def findings(cli: Cli, rc: int = 0) -> dict[str, list[dict[str, Any]]]:
    """What the doctor found, by subject."""
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in cli.json("doctor", rc=rc)["findings"]:
        found.setdefault(finding["subject"], []).append(finding)
    return found


def test_a_healthy_installation_is_told_in_a_few_lines_with_the_books_in_one(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(SCRIPTED)
    process = cli.up()
    cli("say", "main", "hello", "--wait")
    lines = cli("doctor").stdout.splitlines()
    end(process)
    assert lines[-1] == "all is well"
    assert all(line.startswith("ok ") for line in lines[:-1]), lines
    [books] = [line for line in lines if line.startswith("ok       books")]
    assert books.endswith("laws hold over 2 entries")
    assert "the gateway is running at http://127.0.0.1" in "".join(lines)
    again = cli("doctor").stdout
    assert "no gateway is running" in again and "laws hold over 2 entries" in again


def test_each_agent_that_cannot_be_used_is_told_with_what_to_do(cli: Cli) -> None:
    (cli.home / "locked").write_text("#!/bin/sh\n")
    agents = {
        "codex": ["codex-acp-is-not-here"],
        "locked": [str(cli.home / "locked")],
        "cat": ["cat"],
        "out": [sys.executable, "-c", LOGGED_OUT],
    }
    sections = [f"[agents.{name}]\ncommand = {json.dumps(command)}\n" for name, command in agents.items()]
    writer = '[transcription]\ncommand = ["whisper-is-not-here", "{file}"]\n'
    (cli.home / "semel.toml").write_text("".join(sections) + writer + SCRIPTED)
    found = findings(cli, rc=1)
    assert found["agent demo"][0]["level"] == "ok"
    [notes] = found["voice notes"]
    assert notes["level"] == "broken" and "there is no program whisper-is-not-here" in notes["text"]
    told = {name: found[f"agent {name}"][0] for name in agents}
    assert {finding["level"] for finding in told.values()} == {"broken"}
    assert "command not found" in told["codex"]["text"]
    assert "is not executable. Allow it: chmod +x" in told["locked"]["text"]
    assert "refused `initialize`" in told["cat"]["text"] and "agents check cat" in told["cat"]["remedy"]
    assert "is not logged in" in told["out"]["text"] and "semel agents login out" in told["out"]["text"]
    assert not cli.data.exists(), "nothing was made"


def test_an_agent_that_is_logged_in_for_the_running_gateway_alone_is_a_warning(cli: Cli) -> None:
    """The usual case is a key in the shell of `semel up` that the other shell lacks. Here a file stands for the key."""
    key = cli.home / "key"
    has_key = f"    elif __import__('os').path.exists({str(key)!r}):\n"
    logs_in = LOGGED_OUT.replace("    else:", has_key + "        answer = {'result': {'sessionId': 's'}}\n    else:")
    program = cli.home / "program"
    program.write_text(f"#!/bin/sh\nexec {shlex.join(command())}\n")
    program.chmod(0o755)
    agents = {"out": [sys.executable, "-c", logs_in], "gone": [str(program)]}
    sections = [f"[agents.{name}]\ncommand = {json.dumps(argv)}\n" for name, argv in agents.items()]
    (cli.home / "semel.toml").write_text("".join(sections) + SCRIPTED)
    key.touch()
    process = cli.up()
    until(lambda: cli.json("status")["checks"].keys() == {*agents, "demo"}, "the gateway's own checks")
    key.unlink()
    program.unlink()
    [found], [gone] = (findings(cli, rc=1)[f"agent {name}"] for name in agents)
    checked = cli("agents", "check", "out", rc=1).stdout
    refused = cli("agents", "check", "demo", "--prompt", prompt({"error": {"code": -32000, "message": "no"}}), rc=1)
    cli("say", "out:main", "hello", "--wait", rc=1)
    failing = cli("agents", "check", "out", rc=1).stdout
    end(process)
    assert found["level"] == "warning" and "the running gateway could use it at 20" in found["text"]
    assert gone["level"] == "broken" and "command not found" in gone["text"], "nothing says that it is a key"
    assert "; but the running gateway could use it at 20" in gone["text"]
    assert "the running gateway could use it at 20" in checked and "than this shell, such as an API key" in checked
    assert "running gateway" not in refused.stdout, "a session could be opened here, too"
    assert "running gateway" not in failing, "the gateway cannot use it, either"
    assert findings(cli, rc=1)["agent out"][0]["level"] == "broken", "no gateway says otherwise"


def test_an_agent_whose_last_turn_gave_no_answer_is_a_warning_until_one_does(cli: Cli) -> None:
    """To open a session does not try the agent's key, so it alone would say that all is well."""
    (cli.home / "semel.toml").write_text(SCRIPTED)
    process = cli.up()
    cli("say", "main", prompt({"error": {"code": -32602, "message": "the key was refused"}}), "--wait", rc=1)
    [failed] = findings(cli)["agent demo"]
    assert failed["level"] == "warning" and ": a session after " in failed["text"]
    assert "; but its last turn (main, " in failed["text"] and "failed: the key was refused" in failed["text"]
    assert "semel agents check demo --prompt" in failed["remedy"]
    cli("say", "other", prompt(), "--wait", rc=1)
    assert findings(cli)["agent demo"][0]["text"].endswith("ended without a word.")
    cli("say", "main", "hello", "--wait")
    end(process)
    assert findings(cli)["agent demo"][0]["level"] == "ok"


def test_wrong_configuration_is_a_finding_and_the_rest_is_checked_all_the_same(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text('[agents.main]\ncomand = ["x"]\n[channels.w]\nkind = "telegam"\n')
    found = findings(cli, rc=1)
    told = [finding["text"] for finding in found["configuration"]]
    assert any('semel.toml:2: [agents.main] has no setting "comand"' in text for text in told), told
    assert any('semel.toml:4: [channels.w] kind is "telegam"; did you mean "telegram"?' in text for text in told), told
    assert found["disk"][0]["level"] == "ok"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'[gateway]\nlisten = "a', "semel.toml:2: this is not TOML"),
        (b'[gateway]\nlisten = "\xe9"', "semel.toml:2: this is not UTF-8"),
        (None, "semel.toml: cannot be read: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_finding_among_the_others(cli: Cli, content: bytes | None, told: str) -> None:
    file = cli.home / "semel.toml"
    file.mkdir() if content is None else file.write_bytes(content)
    found = findings(cli, rc=1)
    assert told in found["configuration"][0]["text"]
    assert "may name another data directory" in found["data"][0]["text"]
    assert {"files", "disk", "versions", "books"} <= found.keys()


def test_files_that_others_can_read_are_told_with_the_chmod_to_type(cli: Cli) -> None:
    end(cli.up())
    secret = cli.home / "secret"
    secret.write_text("0123456789abcdef")
    secret.chmod(0o644)
    (cli.home / "semel.toml").write_text('[nodes.ci]\ntoken = "file:secret"\n')
    (cli.data / "owner.token").chmod(0o640)
    (cli.data / "ledger.db").chmod(0o644)
    found = findings(cli, rc=1)
    assert [(finding["level"], finding["remedy"]) for finding in found["files"]] == [
        ("broken", f"chmod 600 {cli.data}/owner.token"),
        ("warning", f"chmod 600 {cli.data}/ledger.db*"),
    ]
    assert found["credentials"][0]["remedy"] == f"chmod 600 {secret}"
    assert "0123456789abcdef" not in json.dumps(found)


def test_a_file_in_the_place_of_the_data_directory_keeps_its_mode(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("of another program")
    found = cli.json("doctor", "--data-dir", str(other), rc=1)["findings"]
    [told] = [finding for finding in found if finding["subject"] == "files"]
    assert (told["level"], told["text"]) == ("broken", f"{other} is not a directory")
    assert not any("chmod" in finding["remedy"] for finding in found)


@pytest.mark.parametrize(("owner", "advice"), [(os.geteuid(), "chmod -R u+rwX"), (os.geteuid() + 1, "chown -R $USER")])
def test_a_directory_that_cannot_be_written_gets_the_command_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, advice: str
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    monkeypatch.setattr(os, "geteuid", lambda uid=owner: uid)
    tmp_path.chmod(0o500)
    [told] = examine_files(tmp_path, tmp_path / "ledger.db")
    assert (told.level, told.remedy) == ("broken", f"{advice} {tmp_path}")
    command = advice.replace("$USER", "USER")
    assert command in advise_on_write_error(PermissionError(errno.EACCES, "Permission denied"))


def test_a_data_directory_that_cannot_be_made_is_told_before_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "a" / "b"
    assert examine_files(missing, missing / "ledger.db")[0].level == "ok"
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    [told] = examine_files(missing, missing / "ledger.db")
    assert told.level == "broken" and f"{tmp_path} is not a directory that this user can write" in told.text


def test_an_address_that_another_program_has_is_told(cli: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (cli.home / "semel.toml").write_text(f'[gateway]\nlisten = "127.0.0.1:{port}"\n')
        assert f"port {port} on 127.0.0.1 is in use" in findings(cli, rc=1)["address"][0]["text"]
    assert f"127.0.0.1:{port} is free" in findings(cli)["address"][0]["text"]


def test_a_clock_behind_the_ledger_and_an_old_backup_are_told(cli: Cli) -> None:
    process = cli.up()
    cli("say", "main", "hello", "--wait")
    end(process)
    day_ms = 86_400_000
    change(cli.data / "ledger.db", f"UPDATE ledger SET at = at - {30 * day_ms}")
    assert findings(cli)["backup"][0] == {
        "subject": "backup", "level": "warning", "text": "none was made yet", "remedy": "make one: semel backup",
    }  # fmt: skip
    cli("backup", str(cli.home / "copies"))
    assert "less than a minute ago, in " in findings(cli)["backup"][0]["text"]
    (cli.home / "copies").rename(cli.home / "elsewhere")
    assert "which is not there now" in findings(cli)["backup"][0]["text"]
    change(cli.data / "ledger.db", f"UPDATE event SET at = at + {day_ms}")
    [clock] = findings(cli, rc=1)["clock"]
    assert "behind the newest row of the ledger" in clock["text"] and clock["remedy"].startswith("set the clock")


@pytest.mark.parametrize("first_byte", [0, 4096 * 2], ids=["its head", "its pages"])
def test_a_damaged_ledger_gets_the_command_that_restores_the_last_backup(cli: Cli, first_byte: int) -> None:
    end(cli.up())
    cli("backup", str(cli.home / "my copies"))
    ledger = cli.data / "ledger.db"
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[:first_byte] + b"\xff" * (len(whole) - first_byte))
    [told] = findings(cli, rc=1)["ledger"]
    command = re.search(r"run: semel (restore '.+/my copies/.+' --replace)$", told["remedy"])
    assert command is not None and told["level"] == "broken", told
    assert command[1] in cli("status", rc=1).stderr
    cli(*shlex.split(command[1]))
    assert cli("sessions").stdout == "" and "laws hold over 0 entries" in cli("doctor").stdout


def test_a_broken_law_is_one_line_and_leads_to_the_full_list(cli: Cli) -> None:
    process = cli.up()
    cli("say", "main", "hello", "--wait")
    end(process)
    change(cli.data / "ledger.db", "UPDATE entry SET seq = seq + 5 WHERE seq = 2")
    [books] = findings(cli, rc=1)["books"]
    assert books["text"].startswith("broken laws (") and "seq" in books["text"]
    assert "semel doctor --laws" in books["remedy"]
    assert "BROKEN  seq" in cli("doctor", "--laws", rc=1).stdout


def change(ledger: Path, sql: str) -> None:
    with connect(ledger) as db:
        db.execute(sql)


def test_a_channel_that_its_platform_refuses_is_told_by_the_running_gateway(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text('[channels.hook]\nkind = "webhook"\n')
    assert findings(cli)["configuration"][1]["level"] == "warning"
    process = cli.up()
    deadline = time.monotonic() + 30
    while (told := cli.json("channels")[0])["state"] == "starting" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert told["state"] == "denied", "a webhook that can do nothing is not online"
    [channel] = findings(cli, rc=1)["channel hook"]
    end(process)
    assert channel["level"] == "broken" and "it can neither send nor receive" in channel["text"]
    assert channel["remedy"].startswith("remove the cause, and restart the gateway"), "it may lie outside of semel.toml"


def test_a_channel_on_which_nobody_may_talk_is_a_warning_until_somebody_may(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(
        f'[channels.telegram]\nkind = "telegram"\ntoken = "123456:{"A" * 36}"\napi = "http://127.0.0.1:9"\n'
    )
    process = cli.up()
    warnings = [finding for finding in findings(cli, rc=1)["channel telegram"] if finding["level"] == "warning"]
    status = cli("status").stdout
    cli("people", "add", "telegram:7", "--name", "ann")
    later = [finding["level"] for finding in findings(cli, rc=1)["channel telegram"]]
    end(process)
    assert [finding["text"] for finding in warnings] == ["nobody may talk there yet: it refuses everybody"]
    assert warnings[0]["remedy"] == "semel pair telegram --name NAME --role owner"
    assert "nobody may talk there yet: " in status and "pair telegram --name NAME --role owner" in status
    assert later == ["broken"], "it is offline, and somebody may talk there"


def test_a_variable_that_only_the_running_gateway_has_is_no_fault_of_the_installation(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = '[agents.model]\nkind = "model"\nmodel = "openai:gpt-5"\n'  # with the key of the usual variable
    (cli.home / "semel.toml").write_text(f'{SCRIPTED}{model}[nodes.ci]\ntoken = "env:CI_TOKEN"\n')
    assert {finding["level"] for finding in findings(cli, rc=1)["configuration"]} == {"broken"}
    with monkeypatch.context() as service:
        service.setenv("CI_TOKEN", "0123456789abcdef")
        service.setenv("OPENAI_API_KEY", "sk-of-the-gateway")
        process = cli.up()
    until(lambda: cli.json("status")["checks"].keys() == {"demo", "model"}, "the gateway's own checks")
    found = findings(cli)
    end(process)
    told = found["configuration"]
    assert {finding["level"] for finding in told} == {"warning"}
    assert "CI_TOKEN is not set (in this shell; the running gateway may have it)" in told[0]["text"]
    assert "Set the `OPENAI_API_KEY` environment variable" in told[1]["text"]
    for agent in ("demo", "model"):
        [finding] = found[f"agent {agent}"]
        assert finding["level"] == "ok" and finding["text"].startswith("the running gateway found at 20")
    assert "key of the environment variable OPENAI_API_KEY" in found["agent model"][0]["text"]


def test_the_configuration_of_the_running_gateway_is_examined_if_none_is_named(cli: Cli) -> None:
    """A service for the whole system reads /etc/semel/semel.toml; its user's commands name only the data directory."""
    own = cli.home / "etc" / "semel.toml"
    own.parent.mkdir()
    own.write_text('[agents.gone]\ncommand = ["gone-acp-is-not-here"]\n' + SCRIPTED)
    process = cli.up("--config", str(own))
    assert f"{own}: 2 agents" in findings(cli, rc=1)["configuration"][0]["text"]
    assert cli.json("config", "check")["file"] == str(own)
    here = cli.home / "semel.toml"  # of another gateway, perhaps
    here.write_text(SCRIPTED)
    assert findings(cli, rc=1)["agent gone"][0]["level"] == "broken", "the data directory is named"
    told = cli.json("doctor", "--config", str(here))["findings"]
    [other] = [finding for finding in told if finding["subject"] == "configuration" and finding["level"] == "warning"]
    assert f"the running gateway has read {own}" in other["text"] and f"--config {own}" in other["remedy"]
    end(process)
    assert cli.json("config", "check")["file"] == str(here), "no gateway says otherwise"
    here.unlink()
    assert cli.json("config", "check")["file"] == str(own), "the last gateway read it"
    own.unlink()
    assert cli.json("config", "check")["file"] is None


def test_a_file_that_the_running_gateway_did_not_read_is_told(cli: Cli) -> None:
    process = cli.up()
    (cli.home / "semel.toml").write_text(SCRIPTED)
    told = cli.json("doctor", "--config", "semel.toml")["findings"]
    end(process)
    [other] = [finding for finding in told if finding["subject"] == "configuration" and finding["level"] == "warning"]
    assert "the running gateway has read no configuration file" in other["text"] and "restart" in other["remedy"]


def test_a_program_that_never_answers_does_not_hold_the_doctor_up(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text('[agents.main]\ncommand = ["sleep", "600"]\n')
    program = (
        "import semel.faces.agent_check as check; check.QUICK_TIMEOUT_S = 1.0; from semel.faces.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "doctor"],
        env={**os.environ, **cli.env}, cwd=cli.home, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "it opened no session within 1 s" in done.stdout
