"""`semel agents`: what is configured and installed, adding one, trying it, logging it in."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
import terminal
from cli_house import Cli

from semel.faces.cli.agents import _list_others
from semel.testing.scripted_agent import command, prompt

LOGIN_AGENT = Path(__file__).parent.parent / "agents" / "login_agent.py"
MCP_SERVER = Path(__file__).parent.parent / "model" / "mcp_server.py"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A home in which no agent is installed; programs can be put into `bin`."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.chdir(home)
    for name in ("OPENAI_API_KEY", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Cli(home, tmp_path / "data")


def install(cli: Cli, name: str) -> None:
    program = cli.home / "bin" / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)


def configure(cli: Cli, **agents: list[str]) -> None:
    tables = [f"[agents.{name}]\ncommand = {json.dumps(argv)}\n" for name, argv in agents.items()]
    (cli.home / "semel.toml").write_text("\n".join(tables))


def login_agent(kind: str) -> list[str]:
    return [sys.executable, str(LOGIN_AGENT), kind]


def test_the_list_has_what_is_configured_what_is_installed_and_what_needs_an_adapter(cli: Cli) -> None:
    assert cli.json("agents", "list") == []
    for program in ("claude", "codex-acp", "gone"):
        install(cli, program)
    (cli.home / "bin" / "gone").unlink()
    configure(cli, mine=["gone"])
    rows = {row["name"]: row for row in cli.json("agents", "list")}
    assert rows["mine"]["state"] == "configured" and "gone is not installed" in rows["mine"]["todo"]
    assert (rows["codex"]["state"], rows["codex"]["todo"]) == ("installed", "semel agents add codex")
    assert rows["claude"]["state"] == "no adapter"
    assert rows["claude"]["todo"].startswith("needs an adapter: npm install -g @agentclientprotocol/claude-agent-acp@")


def test_the_check_makes_the_data_directory_private(cli: Cli) -> None:
    """Otherwise the first `semel doctor` warns of a directory that Semel itself has just made."""
    configure(cli, mine=["gone"])
    assert "cannot be used" in cli("agents", "check", rc=1).stdout
    assert (cli.data / "workspaces" / "mine").is_dir()
    assert cli.data.stat().st_mode & 0o077 == 0


def test_an_installed_agent_is_added_to_the_configuration_once(cli: Cli) -> None:
    install(cli, "codex-acp")
    (cli.home / "semel.toml").write_text("# mine\n[gateway]\ngrace = 3\n")
    assert "semel agents check codex" in cli("agents", "add", "codex").stderr
    text = (cli.home / "semel.toml").read_text()
    assert text == '# mine\n[gateway]\ngrace = 3\n\n[agents.codex]\nkind = "acp"\ncommand = ["codex-acp"]\n'
    assert "has [agents.codex] already" in cli("agents", "add", "codex", rc=1).stderr
    assert (cli.home / "semel.toml").read_text() == text


def test_adding_an_agent_says_who_answers_in_new_conversations(cli: Cli) -> None:
    for program in ("codex-acp", "opencode"):
        install(cli, program)
    assert "codex answers in new conversations, because it is the default" in cli("agents", "add", "codex").stderr
    with (cli.home / "semel.toml").open("a") as file:
        file.write('[channels.hook]\nkind = "webhook"\ntoken = "0123456789abcdef"\nsession = "x"\n')
    said = cli("agents", "add", "opencode").stderr
    assert "codex still answers in new conversations." in said
    assert 'set default_agent = "opencode" in [gateway]' in said
    assert "opencode begins a new session then, without what was said there before" in said


def test_a_node_that_is_too_old_is_told_before_anything_is_downloaded(cli: Cli) -> None:
    for name, script in (("npm", f": > {cli.home}/asked"), ("node", "echo v20.20.2")):
        install(cli, name)
        (cli.home / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    for options in ((), ("--install",)):
        said = cli("agents", "add", "claude", *options, rc=1).stderr
        assert "claude needs Node.js 22 or newer, and this is v20.20.2. Nothing was installed" in said
    assert not (cli.home / "asked").exists()
    (cli.home / "bin/node").write_text("#!/bin/sh\necho v22.1.0\n")
    cli("agents", "add", "claude", "--install", rc=1)
    assert (cli.home / "asked").exists()


def test_a_file_that_cannot_take_the_section_is_left_as_it_is(cli: Cli) -> None:
    install(cli, "codex-acp")
    text = 'agents = { claude = { command = ["claude-agent-acp"] } }'
    (cli.home / "semel.toml").write_text(text)
    said = cli("agents", "add", "codex", rc=1).stderr
    assert "was left as it is" in said and '[agents.codex]\nkind = "acp"' in said.replace("semel: ", "")
    assert (cli.home / "semel.toml").read_text() == text


def test_the_file_is_edited_in_place_and_another_mistake_in_it_is_told(cli: Cli) -> None:
    install(cli, "codex-acp")
    real = cli.home / "real.toml"
    real.write_bytes(b'[agents.mine]\r\ncommand = ["x"]\r\ncomand = ["y"]  # no newline')
    (cli.home / "semel.toml").symlink_to(real)
    said = cli("agents", "add", "codex", rc=1).stderr
    assert "[agents.codex] was added" in said and 'did you mean "command"?' in said
    assert (cli.home / "semel.toml").is_symlink()
    assert real.read_bytes().startswith(
        b'[agents.mine]\r\ncommand = ["x"]\r\ncomand = ["y"]  # no newline\n\n[agents.codex]\n'
    )


def test_without_a_configuration_one_is_made(cli: Cli) -> None:
    install(cli, "opencode")
    cli("agents", "add", "opencode")
    assert (cli.home / "semel.toml").read_text().startswith("[agents.opencode]\n")


def test_an_agent_that_is_not_installed_is_named_with_the_command_that_installs_it(cli: Cli) -> None:
    said = cli("agents", "add", "codex", rc=1).stderr
    assert "npm install -g @agentclientprotocol/codex-acp@" in said and "--install" in said
    assert "npm is not installed: install Node.js 22" in cli("agents", "add", "codex", "--install", rc=1).stderr
    assert "as its own documentation says" in cli("agents", "add", "goose", rc=1).stderr
    assert 'did you mean "codex"?' in cli("agents", "add", "codx", rc=2).stderr
    assert not (cli.home / "semel.toml").exists()


def test_installing_runs_the_package_manager_and_adds_the_agent(cli: Cli) -> None:
    npm = cli.home / "bin" / "npm"
    npm.write_text(
        f'#!/bin/sh\necho "$@" > asked\n: > {cli.home}/bin/codex-acp\n/bin/chmod +x {cli.home}/bin/codex-acp\n'
    )
    npm.chmod(0o755)
    cli("agents", "add", "codex", "--install")
    assert (cli.home / "asked").read_text().startswith("install -g @agentclientprotocol/codex-acp@")
    assert "[agents.codex]" in (cli.home / "semel.toml").read_text()
    npm.write_text("#!/bin/sh\nexit 3\n")
    assert "npm could not install gemini" in cli("agents", "add", "gemini", "--install", rc=1).stderr


def test_an_agent_that_works_is_found_to_work(cli: Cli) -> None:
    configure(cli, demo=command())
    asks = prompt({"call": "send_message", "arguments": {"text": "on my way"}}, "forty-two")
    [found] = cli.json("agents", "check", "demo", "--prompt", asks)
    assert (found["problem"], found["answer"], found["notes"]) == ("", "forty-two", [])
    assert found["tools"] and found["session_s"] > 0
    done = cli("agents", "check")
    assert "demo: ok" in done.stdout and "has not started Semel's MCP server" in done.stdout
    assert "not tried" not in done.stdout  # the demo needs no login


@pytest.mark.long
def test_a_check_without_a_prompt_says_that_the_login_was_not_tried(cli: Cli) -> None:
    configure(cli, mine=login_agent("prompt"))
    done = cli("agents", "check")
    assert "mine: ok" in done.stdout and "login    not tried" in done.stdout
    assert "agents check mine --prompt 'Say hello.'" in done.stdout
    refused = cli("agents", "check", "--prompt", "Say hello.", rc=1).stdout
    assert "The agent is not logged in" in refused and "not tried" not in refused


def test_a_known_agent_that_is_not_configured_is_told_with_the_command_that_adds_it(cli: Cli) -> None:
    configure(cli, demo=command())
    for action in ("check", "login"):
        told = cli("agents", action, "codex", rc=2).stderr
        assert "no agent 'codex' is configured yet. Add it with: " in told and "semel agents add codex" in told
    assert 'did you mean "demo"?' in cli("agents", "check", "demi", rc=2).stderr


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["no-such-program"], "command not found: 'no-such-program'"),
        (login_agent("key"), "is not logged in (Authentication required): set OPENAI_API_KEY"),
        (login_agent("node"), "Error: Cannot find module 'pi'"),
    ],
)
def test_an_agent_that_cannot_be_used_is_named_with_the_reason(cli: Cli, argv: list[str], why: str) -> None:
    configure(cli, bad=argv)
    done = cli("agents", "check", rc=1)
    assert "bad: cannot be used" in done.stdout and why in done.stdout


def test_a_mode_in_which_the_agent_decides_alone_is_noted(cli: Cli) -> None:
    (cli.home / "semel.toml").write_text(
        f'[agents.alone]\nmode = "auto"\ncommand = {json.dumps(login_agent("modes"))}\n'
    )
    [found] = cli.json("agents", "check")
    assert found["mode"] == "auto" and any("asks nobody" in note for note in found["notes"])
    assert any("has not started Semel's MCP server" in note for note in found["notes"])


@pytest.mark.long
def test_an_agent_that_never_asks_is_noted_unless_it_may_do_everything(cli: Cli) -> None:
    configure(cli, pi=[*command(), "--name", "pi-acp"])
    asks_nobody = "it decides by itself what it may do, and asks nobody"
    [found] = cli.json("agents", "check")
    assert any(note.endswith(asks_nobody) for note in found["notes"])
    with (cli.home / "semel.toml").open("a") as file:
        file.write('permissions = "allow"\n')
    [found] = cli.json("agents", "check")
    assert not any(asks_nobody in note for note in found["notes"])


def test_a_login_in_a_terminal_runs_what_the_agent_names(cli: Cli, capfd: pytest.CaptureFixture[str]) -> None:
    configure(cli, claude=login_agent("status"))
    assert "semel agents check claude" in cli("agents", "login", "claude").stderr
    assert "logged in with login --browser b" in capfd.readouterr().out


def test_a_login_by_the_agent_itself_is_waited_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(cli, codex=login_agent("key"))
    with (cli.home / "semel.toml").open("a") as file:
        file.write('env = { OPENAI_API_KEY = "env:KEY" }\n')
    monkeypatch.setenv("KEY", " ")
    assert (
        "choose one with --method: api-key (API Key), chat-gpt (ChatGPT), device (ChatGPT (device code))"
        in cli("agents", "login", "codex", rc=2).stderr
    )
    refused = cli("agents", "login", "codex", "--method", "chat-gpt", rc=1).stderr
    assert "it may open a browser. If nothing happens: Ctrl-C, then --method device" in refused
    assert "the key was not accepted" in refused
    monkeypatch.setenv("KEY", "sk-test")
    assert "waiting" not in cli("agents", "login", "codex", "--method", "api-key").stderr


def test_a_login_with_a_key_that_is_not_set_says_where_to_set_it(cli: Cli) -> None:
    configure(cli, codex=login_agent("key"))
    refused = cli("agents", "login", "codex", "--method", "api-key", rc=1).stderr
    assert "Set OPENAI_API_KEY or CODEX_API_KEY in this shell, or in `env` of [agents.codex], then try again" in refused


def test_a_page_that_the_agent_wants_opened_is_shown_with_its_code(cli: Cli) -> None:
    configure(cli, codex=login_agent("key"))
    shown = cli("agents", "login", "codex", "--method", "device").stderr.splitlines()
    at = shown.index("the agent says: Enter this code: ABCD-1234")
    assert shown[at + 1] == "https://openai.test/device" and shown[-1].startswith("logged in.")


def test_a_wrong_number_is_asked_again(cli: Cli) -> None:
    configure(cli, codex=login_agent("key"))
    env = {**cli.env, "PATH": os.environ["PATH"]}
    with terminal.semel("agents", "login", "codex", env=env, cwd=cli.home) as person:
        person.answer("Number or name [1]:", "4")
        person.expect("choose a number from 1 to 3")
        person.answer("Number or name [1]:", "device")
        person.expect("logged in.")
        assert person.wait() == 0


def test_names_that_are_none_are_refused(cli: Cli) -> None:
    configure(cli, codex=login_agent("plain"), claude=login_agent("status"))
    said = cli("agents", "login", "claude", "--method", "nonsense", rc=2).stderr
    assert "choose one with --method: claude-ai-login (Claude)" in said, "the only login is not taken for another one"
    assert 'did you mean "codex"?' in cli("agents", "check", "codx", rc=2).stderr
    assert "offers no login" in cli("agents", "login", "codex", rc=1).stderr


def test_the_check_lists_the_modes_and_models_and_what_the_agent_says_of_itself(cli: Cli) -> None:
    configure(cli, codex=[*command(), "--name", "codex-acp"])
    error = {"message": "Reconnecting... 1/5", "willRetry": True}
    retry = {"update": {"sessionUpdate": "session_info_update", "_meta": {"codex": {"error": error}}}}
    failing = prompt(retry, {"error": {"code": -32603, "message": "stream disconnected"}})
    done = cli("agents", "check", "--prompt", failing, rc=1)
    said = done.stdout
    assert done.stderr == "codex says: Reconnecting... 1/5\n"
    assert "mode     auto (of auto, ask)" in said and "model    brisk (of brisk, slow)" in said
    assert "Reconnecting" not in said, "it was printed already"
    assert "problem  stream disconnected" in said
    told = json.loads(cli("agents", "check", "--json", "--prompt", failing, rc=1).stdout)
    assert "it said: Reconnecting... 1/5" in told[0]["notes"]


def test_a_check_tells_that_its_prompt_is_not_answered_yet(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.faces.agent_check.SILENCE_S", 0.4)
    configure(cli, mine=command())
    done = cli("agents", "check", "--prompt", prompt({"sleep": 3}, "At last."))
    assert "mine: no answer after 0.4 s. It may be repeating a request: is its key right, and" in done.stderr
    assert "'At last.'" in done.stdout


def test_what_the_agent_says_of_itself_is_the_likely_reason_for_no_answer(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy model or a used-up quota is no wrong key."""
    monkeypatch.setattr("semel.faces.agent_check.SILENCE_S", 0.4)
    configure(cli, codex=[*command(), "--name", "codex-acp"])
    error = {"message": "Reconnecting... 5/5", "willRetry": True}
    retry = {"update": {"sessionUpdate": "session_info_update", "_meta": {"codex": {"error": error}}}}
    done = cli("agents", "check", "--prompt", prompt(retry, {"sleep": 1.5}), rc=1)
    assert "codex: no answer after 0.4 s. It last said: Reconnecting... 5/5\n" in done.stderr
    assert "key" not in done.stderr
    assert "problem  it answered the prompt without a word; its last report: Reconnecting... 5/5" in done.stdout
    assert "it said:" not in done.stdout, "the problem says it"


def test_a_failure_that_only_the_meta_of_the_answer_tells_is_the_problem(cli: Cli) -> None:
    """claude-agent-acp 0.101.0, on a limit that is used up, ends its turn without a word and without an error."""
    configure(cli, demo=command())
    failure = {"title": "API Error: Request rejected (429)", "severity": "error"}
    failing = prompt(meta={"jetbrains": {"air": {"sessionFailure": failure}}})
    done = cli("agents", "check", "--prompt", failing, rc=1)
    assert "problem  API Error: Request rejected (429)\n" in done.stdout


def test_a_failure_that_only_the_stream_tells_is_the_problem(cli: Cli) -> None:
    """codex-acp 2.6.0 answers a request that it gave up like one that was answered."""
    configure(cli, codex=[*command(), "--name", "codex"])
    status = {"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": {"type": "systemError"}}}}
    reason = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "No quota.\n\n"}}
    half = {"text": "Half an answer", "message": "m1"}
    done = cli("agents", "check", "--prompt", prompt(half, {"update": status}, {"update": reason}), rc=1)
    assert "codex: cannot be used" in done.stdout and "problem  No quota.\n" in done.stdout


def test_a_slow_agent_keeps_no_other_one_waiting(cli: Cli) -> None:
    """Its neighbour is told at once, and the checks are printed in the order of the file."""
    met = cli.home / "met"
    configure(cli, slow=["sh", "-c", f"until test -e {met}; do sleep 0.05; done; exit 3"])
    with (cli.home / "semel.toml").open("a") as file:
        file.write(f"[agents.quick]\ncommand = {json.dumps(['sh', '-c', f'touch {met}; exit 3'])}\n")
    done = cli("agents", "check", rc=1)
    assert done.stdout.index("slow: cannot be used") < done.stdout.index("quick: cannot be used")


def test_a_check_without_an_answer_yet_names_the_key_that_may_have_been_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.faces.agent_check.SILENCE_S", 0.4)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    configure(cli, mine=login_agent("prompt-key-late"))
    with (cli.home / "semel.toml").open("a") as file:
        file.write('env = { OPENAI_API_KEY = "env:OPENAI_API_KEY" }\n')
    said = cli("agents", "check", "--prompt", "Hi", rc=1)
    assert "no answer after 0.4 s. It may be repeating a request. OPENAI_API_KEY is set: its value may" in said.stderr
    assert "OPENAI_API_KEY is set, so this key was probably refused" in said.stdout
    assert "sk-wrong" not in said.stdout + said.stderr


def test_an_agents_own_program_is_named_with_its_adapter_and_not_started(cli: Cli) -> None:
    install(cli, "codex")
    (cli.home / "bin" / "codex").write_text(f"#!/bin/sh\n: > {cli.home}/started\n")
    configure(cli, codex=["codex"])
    said = cli("agents", "check", rc=1).stdout
    assert "codex itself does not speak ACP. Its adapter does: npm install -g @agentclientprotocol/codex-acp@" in said
    assert '["codex-acp"] as `command` under [agents.codex]' in said
    assert "does not speak ACP" in cli.json("agents", "list")[0]["todo"]
    assert not (cli.home / "started").exists()


def configure_adapter(cli: Cli, agent: str, adapter: str, kind: str = "modes") -> None:
    """Let an agent with modes, or a `login_agent` of another kind, stand for this adapter."""
    install(cli, adapter)
    (cli.home / "bin" / adapter).write_text(f"#!/bin/sh\nexec {shlex.join(login_agent(kind))}\n")
    configure(cli, **{agent: [adapter]})


def configure_codex(cli: Cli, kind: str = "modes") -> None:
    configure_adapter(cli, "codex", "codex-acp", kind)


def test_a_token_of_which_claude_says_that_it_is_no_login_is_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_adapter(cli, "claude", "claude-agent-acp")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "secret-token")
    said = cli("agents", "check").stdout
    assert "claude: ok" in said and "login    ANTHROPIC_AUTH_TOKEN is set; not tried" in said
    assert "secret" not in said


@pytest.mark.long
def test_a_key_that_codex_keeps_is_told_if_the_environment_has_another(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_codex(cli)
    (cli.home / ".codex").mkdir()
    (cli.home / ".codex" / "auth.json").write_text('{"OPENAI_API_KEY": "sk-old"}')
    monkeypatch.setenv("OPENAI_API_KEY", "sk-old")
    said = cli("agents", "check").stdout
    assert "keeps another key" not in said
    assert f"it uses the API key with which it was logged in ({cli.home}/.codex/auth.json)" in said
    monkeypatch.setenv("OPENAI_API_KEY", "sk-new")
    said = cli("agents", "check").stdout
    assert "Codex keeps another key in" in said and "semel agents login codex --method api-key" in said
    assert "sk-" not in said


def test_a_check_tells_which_login_the_agent_says_that_it_uses(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_codex(cli, "key")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert "login    A key; not tried: only a prompt shows whether it is accepted" in cli("agents", "check").stdout
    assert "its login: A key" in cli("doctor").stdout


@pytest.mark.long
def test_codex_says_that_it_uses_an_account_and_not_the_key_that_is_set(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_codex(cli)
    (cli.home / ".codex").mkdir()
    login = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": {"access_token": "secret-token"}}
    (cli.home / ".codex" / "auth.json").write_text(json.dumps(login))
    account = f"it uses the ChatGPT account with which it was logged in ({cli.home}/.codex/auth.json)"
    said = cli("doctor").stdout
    assert account in said and "OPENAI_API_KEY" not in said
    monkeypatch.setenv("OPENAI_API_KEY", "sk-new")
    told = [cli("agents", "check").stdout]
    configure_codex(cli, "key")
    told.append(cli("agents", "login", "codex", "--method", "api-key").stderr)
    for said in told:
        assert f"{account}, and not OPENAI_API_KEY, which is set" in said
        assert "nothing is charged to the key" in said and "semel agents login codex --method api-key" in said
        assert "sk-" not in said and "secret" not in said


@pytest.mark.long
def test_a_server_that_codex_ignores_is_told_unless_its_own_file_names_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_codex(cli)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    file = cli.home / ".codex" / "config.toml"
    said = cli("agents", "check").stdout
    assert f"To use that server, write its URL as `openai_base_url` into {file}" in said
    file.parent.mkdir()
    file.write_text('openai_base_url = "http://127.0.0.1:9/v1"')
    assert "OPENAI_BASE_URL" not in cli("agents", "check").stdout


def test_npm_that_may_not_write_is_explained(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    read_only = cli.home / "system"
    monkeypatch.setattr(os, "access", lambda place, mode: place != cli.home)  # as for a user who is not root
    npm = cli.home / "bin" / "npm"
    npm.write_text(f'#!/bin/sh\nif [ "$1" = root ]; then echo {read_only}/lib/node_modules; else exit 243; fi\n')
    npm.chmod(0o755)
    said = cli("agents", "add", "codex", "--install", rc=1).stderr
    assert f"npm may not write to {read_only}/lib/node_modules" in said and "npm config set prefix ~/.local" in said


def test_variants_of_a_model_are_listed_as_one() -> None:
    offered = [f"gpt-{number}[{effort}]" for number in (5, 6) for effort in ("low", "high")]
    assert _list_others(offered) == " (of gpt-5, gpt-6, with variants such as [low]; --json lists all)"
    assert _list_others(["ask", "code"]) == " (of ask, code)"
    assert _list_others([f"m{number}" for number in range(14)]).endswith(", m11 and 2 more; --json lists all)")


@pytest.mark.long
def test_each_mcp_server_of_a_model_is_tried_and_those_that_fail_are_told(cli: Cli) -> None:
    dying = "import os, sys; sys.exit(f'FATAL: {os.environ[\"TOKEN\"]} is no token')"
    servers = {
        "git": [sys.executable, "-c", dying],
        "gone": ["no-such-server"],
        "num": [sys.executable, str(MCP_SERVER)],
    }
    lines = ["[agents.main]", 'kind = "model"', 'model = "openai-chat:x"', 'base_url = "http://127.0.0.1:9/v1"']
    for name, argv in servers.items():
        lines += [f"[agents.main.mcp.{name}]", f"command = {json.dumps(argv)}", 'env = { TOKEN = "secret-token" }']
    (cli.home / "semel.toml").write_text("\n".join(lines))
    [found] = cli.json("agents", "check", rc=1)
    assert (found["servers"], found["tools"]) == ({"num": 4}, None)
    for said in (
        "'git' cannot be used: Connection closed; it wrote: FATAL: (hidden) is no token (correct [agents.main.mcp.git]",
        "'gone' cannot be used: command not found: 'no-such-server' (correct [agents.main.mcp.gone])",
    ):
        assert said in found["problem"]
    (cli.home / "semel.toml").write_text("\n".join(lines[:7]))
    told = cli.json("doctor", rc=1)["findings"]
    [finding] = [finding for finding in told if finding["subject"] == "agent main"]
    assert finding["level"] == "broken" and "'git' cannot be used: Connection closed" in finding["text"]
