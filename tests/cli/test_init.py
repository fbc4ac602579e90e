"""`semel init`: a few tested lines, from a dialogue on a terminal or from options alone."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cli_house import Cli, end
from rich.text import Text
from terminal import Terminal, semel

from semel.faces.cli import init as init_module
from semel.faces.config.load import load_config
from semel.testing.scripted_agent import command
from semel.testing.telegram import TOKEN

LOGIN_AGENT = Path(__file__).parent.parent / "agents" / "login_agent.py"
MENU = "Number or name [1]: "  # the last blank shows that it reads
ASKS_TOKEN = "token (The bot's token from BotFather, like 123456:AA..): "


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A home in which no agent is installed; programs can be put into `bin`."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.chdir(home)
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    return Cli(home, tmp_path / "data")


@pytest.fixture(scope="module")
def telegram() -> Iterator[str]:
    """The URL of a double of Telegram."""
    arguments = [sys.executable, "-m", "semel.testing.telegram", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as double:
        assert double.stdout is not None
        yield double.stdout.readline().split()[0]
        double.kill()


@pytest.fixture
def slack() -> Iterator[list[str]]:
    """The URL, the bot's token and the app's token of a double of Slack."""
    arguments = [sys.executable, "-m", "semel.testing.slack", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as double:
        assert double.stdout is not None
        yield double.stdout.readline().split()
        double.kill()


def install(cli: Cli, name: str, *argv: str) -> None:
    """Put a program into PATH: a real one, that speaks ACP, if there is a command for it."""
    program = cli.home / "bin" / name
    program.write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n' if argv else "#!/bin/sh\n")
    program.chmod(0o755)


def dialogue(cli: Cli, *args: str) -> AbstractContextManager[Terminal]:
    return semel("init", *args, env={**cli.env, "PATH": os.environ["PATH"]}, cwd=cli.home)


def config(cli: Cli) -> Path:
    return cli.home / "semel.toml"


# ---------------------------------------------------------------- on a terminal


def test_a_dialogue_writes_an_agent_a_channel_and_its_owner_and_tries_them(cli: Cli, telegram: str) -> None:
    install(cli, "codex-acp", *command())
    install(cli, "claude")
    with dialogue(cli, "--set", f"api={telegram}") as terminal:
        menu = " ".join(terminal.expect("Number or name [1]:").split())
        assert " 1 codex codex-acp is installed" in menu and "None was found" not in menu
        assert " 2 claude claude is installed; its adapter is not: npm install -g @agentclientprotocol/" in menu
        terminal.type("codex")
        terminal.expect("Where else do you want to reach it?")
        terminal.answer("Number or name [1]:", "telegram")
        terminal.answer(ASKS_TOKEN, f"123456:{'x' * 35}")
        terminal.expect("telegram: Telegram does not accept this bot's token")
        terminal.answer_unseen("Enter the token again? (n: choose another chat, or none) [Y/n]:", TOKEN)
        terminal.expect("is not shown: answer this question with y or n")
        terminal.answer_unseen("Enter the token again? (n: choose another chat, or none) [Y/n]:", "y")
        terminal.answer(ASKS_TOKEN, TOKEN)
        terminal.expect("telegram accepts the account.")
        kept = Text.from_ansi(terminal.expect("by which it knows you [ada]:")).plain.replace("\n", "")
        assert "the token will be kept in" in kept and f"{cli.home}/telegram.token" in kept
        terminal.type("")
        terminal.answer("Your own account on telegram, such as 123456789", "7")
        terminal.answer("Write this to semel.toml? [Y/n]:")
        terminal.expect("codex: ok")
        terminal.expect("semel up\n")
        assert terminal.wait() == 0
    assert TOKEN not in terminal.said
    assert config(cli).read_text() == (
        "# Semel's configuration. `semel init --print` shows every setting.\n\n"
        '[agents.codex]\nkind = "acp"\ncommand = ["codex-acp"]\n\n'
        f'[channels.telegram]\nkind = "telegram"\napi = "{telegram}"\ntoken = "file:telegram.token"\n\n'
        '[people.ada]\nrole = "owner"\naccounts = ["telegram:7"]\n'
    )
    token = cli.home / "telegram.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert load_config(config(cli)).gateway.channels["telegram"].options["token"] == TOKEN


def test_a_slack_app_is_made_first_and_both_its_tokens_are_tried(cli: Cli, slack: list[str]) -> None:
    api, bot_token, app_token = slack
    with dialogue(cli, "--agent", "demo", "--channel", "slack", "--set", f"api={api}") as terminal:
        terminal.expect("Make the app first: https://api.slack.com/apps, From a manifest;")
        terminal.answer(MENU, "socket mode")
        terminal.answer("(The Bot User OAuth Token (xoxb-...) that the installation gave): ", bot_token)
        terminal.answer("events come over Socket Mode): ", f"xapp-{'x' * 20}")
        terminal.expect("slack: Slack does not accept app_token (invalid_auth)")
        terminal.answer_unseen("Enter the app_token again? (n: choose another chat, or none) [Y/n]:", "y")
        terminal.answer("events come over Socket Mode): ", app_token)
        terminal.expect("slack accepts the account.")
        terminal.answer("by which it knows you [ada]:")
        terminal.answer("Your own account on slack, such as U0123ABCDEF", "U7")
        terminal.answer("Write this to semel.toml? [Y/n]:")
        assert terminal.wait() == 0
    assert bot_token not in terminal.said and app_token not in terminal.said
    written = load_config(config(cli)).gateway.channels["slack"].options
    assert (written["bot_token"], written["app_token"]) == (bot_token, app_token)


def test_ctrl_c_at_any_question_writes_nothing(cli: Cli, telegram: str) -> None:
    before = sorted(cli.home.rglob("*"))
    for questions in ([MENU], [MENU, MENU, ASKS_TOKEN]):
        with dialogue(cli, "--set", f"api={telegram}") as terminal:
            for question, answer in zip(questions[:-1], ["demo", "telegram"], strict=False):
                terminal.answer(question, answer)
            terminal.expect(questions[-1])
            assert terminal.interrupt_until_over() == 1
            assert "None was found on this machine." in terminal.said
            assert "aborted" in terminal.said and "Traceback" not in terminal.said
    assert sorted(cli.home.rglob("*")) == before


def test_an_account_at_a_platform_that_cannot_be_reached_may_be_kept_all_the_same(cli: Cli) -> None:
    with dialogue(cli, "--agent", "demo", "--channel", "telegram", "--set", "api=http://127.0.0.1:1") as terminal:
        terminal.answer(ASKS_TOKEN, TOKEN)
        terminal.answer_unseen("Keep these settings all the same? [y/N]:", "y")
        terminal.answer("by which it knows you [ada]:")
        terminal.answer("Your own account on telegram, such as 123456789", "7")
        terminal.answer("Write this to semel.toml? [Y/n]:")
        assert terminal.wait() == 0
    assert load_config(config(cli)).gateway.channels["telegram"].options["token"] == TOKEN


def test_an_existing_file_is_replaced_only_if_a_person_says_so(cli: Cli) -> None:
    config(cli).write_text("# mine\n")
    with dialogue(cli, "--agent", "demo", "--channel", "none") as terminal:
        terminal.answer("semel.toml exists. Replace it? [y/N]:")
        assert terminal.wait() == 1
    assert config(cli).read_text() == "# mine\n"
    with dialogue(cli, "--agent", "demo", "--channel", "none") as terminal:
        terminal.answer("Replace it? [y/N]:", "y")
        terminal.answer("Write this to semel.toml? [Y/n]:", "n")
        assert terminal.wait() == 1
    assert config(cli).read_text() == "# mine\n"
    with dialogue(cli, "--agent", "demo", "--channel", "none") as terminal:
        terminal.answer("Replace it? [y/N]:", "y")
        terminal.answer("Write this to semel.toml? [Y/n]:")
        assert terminal.wait() == 0
    assert tomllib.loads(config(cli).read_text()) == {"agents": {"demo": {"kind": "demo"}}}


def test_an_agent_without_its_adapter_can_be_installed_at_once(cli: Cli) -> None:
    install(cli, "claude")
    install(cli, "npm")
    adapter = cli.home / "bin" / "claude-agent-acp"
    (cli.home / "bin" / "npm").write_text(
        f"#!/bin/sh\nprintf '%s\\n' '#!/bin/sh' {shlex.quote('exec ' + shlex.join(command()))} > {adapter}\n"
        f"/bin/chmod +x {adapter}\n"
    )
    with dialogue(cli) as terminal:
        terminal.answer("Number or name", "1")
        terminal.answer("Install claude now, with `npm install -g @agentclientprotocol/", "")
        terminal.answer("Number or name", "1")
        terminal.answer("Write this")
        terminal.expect("claude: ok")
        assert terminal.wait() == 0
    assert "[agents.claude]" in config(cli).read_text()


# ---------------------------------------------------------------- without a terminal


def test_without_a_terminal_nothing_is_asked_and_what_is_missing_is_named(cli: Cli) -> None:
    for args, said in (
        ((), "name the agent with --agent NAME, or take the defaults with --yes"),
        (("--agent", "model"), "--model PROVIDER:NAME"),
        (("--agent", "model", "--model", "gpt"), "should be PROVIDER:NAME"),
        (("--agent", "model", "--model", "openai:gpt-5"), "--key env:NAME or --key file:PATH, or set OPENAI_API_KEY"),
        (("--agent", "model", "--model", "openai:gpt-5", "--key", "sk-1"), "--key would show a secret to others"),
        (("--agent", "model", "--base-url", "localhost:1/v1", "--model", "m"), "should begin with http:// or https://"),
        (
            ("--agent", "model", "--base-url", "http://localhost:1/v1", "--model", "m", "--key", "env:NO_SUCH_KEY"),
            "NO_SUCH_KEY is not set",
        ),
        (("--agent", "model", "--set", "key=env:K"), "A model's API key is --key"),
        (("--agent", "model", "--base-url", "http://localhost:1/v1"), "--model NAME, as that server calls it"),
        (("--agent", "nobody"), "no known agent is named 'nobody'"),
        (("--agent", "demo", "--model", "openai:gpt-5"), "--model, --base-url and --key belong to --agent model"),
        (("--yes", "--name", "ada"), "belong to a channel: name it with --channel KIND"),
        (("--yes", "--channel", "telgram"), 'did you mean "telegram"?'),
        (("--yes", "--channel", "telegram"), "telegram needs --set token=...: The bot's token from BotFather"),
        (("--yes", "--channel", "telegram", "--set", f"token={TOKEN}"), "--set token would show a secret to others"),
        (("--yes", "--channel", "telegram", "--set", "token"), "write KEY=VALUE"),
    ):
        assert said in cli("init", *args, rc=2).stderr, args
    assert "npm install -g @agentclientprotocol/codex-acp@" in cli("init", "--agent", "codex", rc=1).stderr
    assert not config(cli).exists()


def test_the_defaults_are_the_first_agent_that_is_installed_and_no_channel(cli: Cli) -> None:
    done = cli("init", "--yes")
    assert "demo: ok" in done.stdout and done.stdout.endswith("semel up\n")
    config(cli).unlink()
    install(cli, "opencode", *command())
    assert "opencode: ok" in cli("init", "--yes").stdout
    assert tomllib.loads(config(cli).read_text())["agents"] == {
        "opencode": {"kind": "acp", "command": ["opencode", "acp"]}
    }
    assert "was left as it is" in cli("init", "--yes", rc=1).stderr
    for program in ("codex-acp", "claude"):
        install(cli, program, *command())
    told = cli("init", "other.toml", "--agent", "opencode").stdout.splitlines()
    others = told[told.index("Also found on this machine. To add one:") + 1 :]
    assert [line.rpartition("semel agents ")[2] for line in others] == [
        "add codex --config other.toml",
        "add claude --install --config other.toml (needs an adapter)",
    ]


def test_while_a_gateway_runs_the_next_step_is_to_restart_it(cli: Cli) -> None:
    process = cli.up()
    try:
        done = cli("init", "--yes")
        assert done.stdout.splitlines()[-1].startswith("Next: restart the gateway, which reads settings")
        assert f"process {process.pid} is the gateway" in done.stderr
    finally:
        end(process)


def test_an_agent_that_does_not_work_yet_is_told_with_the_command_to_try_it_again(cli: Cli) -> None:
    install(cli, "codex-acp", "/bin/false")
    done = cli("init", "elsewhere.toml", "--agent", "codex", rc=1)
    assert "codex: cannot be used" in done.stdout
    assert done.stdout.endswith("semel agents check codex --config elsewhere.toml\n")
    assert "[agents.codex]" in (cli.home / "elsewhere.toml").read_text()


def test_after_an_agent_that_is_not_logged_in_the_next_command_is_its_login(cli: Cli) -> None:
    install(cli, "codex-acp", sys.executable, str(LOGIN_AGENT), "key")
    done = cli("init", "--agent", "codex", rc=1)
    assert "is not logged in" in done.stdout
    assert "semel agents login codex, then " in done.stdout and done.stdout.endswith("semel up\n")


def test_a_channel_of_options_is_checked_and_a_refused_account_is_not_written(
    cli: Cli, telegram: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ("init", "--yes", "--channel", "telegram", "--set", "token=env:BOT", "--set", f"api={telegram}")
    assert "BOT is not set" in cli(*args, rc=1).stderr
    monkeypatch.setenv("BOT", "123456:" + "x" * 35)
    assert "telegram: Telegram does not accept this bot's token" in cli(*args, rc=1).stderr
    assert not config(cli).exists()
    monkeypatch.setenv("BOT", TOKEN)
    assert "telegram accepts the account" in cli(*args, "--name", "eve").stderr
    written = tomllib.loads(config(cli).read_text())
    assert written["channels"]["telegram"]["token"] == "env:BOT"
    assert written["people"] == {"eve": {"role": "owner"}}


def test_if_nobody_may_talk_on_the_channel_yet_the_command_that_pairs_the_owner_is_named(
    cli: Cli, telegram: str
) -> None:
    (cli.home / "token").write_text(TOKEN)
    chosen = (
        "init",
        "--agent",
        "demo",
        "--channel",
        "telegram",
        "--set",
        f"api={telegram}",
        "--set",
        "token=file:token",
    )
    said = cli(*chosen, "--name", "ada").stdout
    assert "Then, while it runs: " in said
    assert "semel pair telegram --name ada (nobody may talk on that channel before)" in said
    process = cli.up()
    pairing = cli.json("pair", "telegram", "--name", "ada")
    end(process)
    assert (pairing["name"], pairing["role"]) == ("ada", "owner")
    said = cli(*chosen, "--account", "7", "semel2.toml").stdout
    assert "semel pair" not in said, "an owner whose account is known needs no code"


def test_a_model_whose_packages_are_missing_is_no_default_and_the_menu_names_the_command(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    demo, model = init_module._list_other_choices()
    assert (demo.name, model.name) == ("demo", "model")
    assert "needs packages first" in model.remark and "'pydantic-ai-slim[" in model.remark
    done = cli("init", "--agent", "model", rc=1)
    assert "Install them, then try again: " in done.stderr and "'pydantic-ai-slim[" in done.stderr


def test_a_model_is_tried_with_one_request_and_its_key_stays_out_of_the_file(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pydantic_ai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # nobody listens there
    done = cli("init", "--agent", "model", "--model", "openai-chat:gpt-5", rc=1)
    assert "could not be reached" in done.stdout or "Cannot connect" in done.stdout
    assert tomllib.loads(config(cli).read_text())["agents"]["main"] == {
        "kind": "model", "model": "openai-chat:gpt-5", "key": "env:OPENAI_API_KEY",
    }  # fmt: skip


@pytest.fixture
def model_server() -> Iterator[ThreadingHTTPServer]:
    """A server that speaks OpenAI's API, like Ollama; it keeps the headers of its requests, and wants its key."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ModelHandler) as server:
        server.headers = []  # type: ignore[attr-defined]
        server.key = ""  # type: ignore[attr-defined]
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class ModelHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        models = [{"id": "llama3:8b"}, {"id": "Qwen/Qwen3-8B"}]
        self._answer({"object": "list", "data": models} if self.path == "/v1/models" else None)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said: dict[str, object] = {"role": "assistant", "content": asked["model"]}
        if asked["model"] == "eager":
            function = {"name": asked["tools"][0]["function"]["name"], "arguments": "{}"}
            said = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        self._answer({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})

    def _answer(self, body: object) -> None:
        self.server.headers.append(dict(self.headers))  # type: ignore[attr-defined]
        key: str = self.server.key  # type: ignore[attr-defined]
        refused = key and self.headers.get("authorization") != f"Bearer {key}"
        content = json.dumps(body).encode()
        self.send_response(401 if refused else 200 if body is not None else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_a_server_of_ones_own_is_tried_at_once_and_its_models_are_offered(
    cli: Cli, model_server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pydantic_ai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    url = f"http://127.0.0.1:{model_server.server_port}"
    with dialogue(cli, "--channel", "none") as terminal:
        terminal.answer(MENU, "model")
        terminal.expect("At which server is the model?")
        terminal.answer(MENU, "Ollama")
        terminal.answer("[http://127.0.0.1:11434/v1]:", "http://127.0.0.1:9/v1")
        terminal.expect("http://127.0.0.1:9/v1 could not be reached: nothing listens there")
        terminal.answer("Use this address all the same? [y/N]:")
        terminal.answer("[http://127.0.0.1:11434/v1]:", url)
        terminal.expect("1  llama3:8b")
        terminal.answer(MENU, "qwen/qwen3-8b")
        terminal.answer("Write this to semel.toml? [Y/n]:")
        terminal.expect("main: ok")
        terminal.expect("sends no key to")
        assert terminal.wait() == 0
    assert tomllib.loads(config(cli).read_text())["agents"]["main"] == {
        "kind": "model", "model": "openai-chat:Qwen/Qwen3-8B", "base_url": f"{url}/v1",
    }  # fmt: skip
    assert "sk-secret" not in str(model_server.headers)  # type: ignore[attr-defined]


def test_a_refused_key_is_asked_for_again_and_the_address_is_kept(cli: Cli, model_server: ThreadingHTTPServer) -> None:
    pytest.importorskip("pydantic_ai")
    model_server.key = "sk-good"  # type: ignore[attr-defined]
    url = f"http://127.0.0.1:{model_server.server_port}"
    with dialogue(cli, "--channel", "none") as terminal:
        terminal.answer(MENU, "model")
        terminal.answer(MENU, "server")
        terminal.answer("[http://127.0.0.1:11434/v1]:", url.removeprefix("http://"))
        terminal.answer_unseen("refers to one):", "")
        terminal.answer_unseen("Use this server without a key all the same? [y/N]:", "")
        terminal.answer_unseen("refers to one):", "sk-typo")
        terminal.expect("refused the key (401)")
        terminal.answer_unseen("Use this key all the same? [y/N]:", "")
        terminal.answer_unseen("refers to one):", "sk-good")
        terminal.expect("1  llama3:8b")
        terminal.answer(MENU, "llama3:8b")
        terminal.answer("Write this to semel.toml? [Y/n]:")
        terminal.expect("main: ok")
        assert terminal.wait() == 0


def test_a_server_of_ones_own_is_named_by_options(cli: Cli, model_server: ThreadingHTTPServer) -> None:
    pytest.importorskip("pydantic_ai")
    url = f"http://127.0.0.1:{model_server.server_port}/v1"
    done = cli("init", "--agent", "model", "--base-url", url, "--model", "llama3:8b")
    assert "main: ok" in done.stdout and "'llama3:8b' after" in done.stdout
    assert f"sends no key to {url}" in cli("config", "check").stdout
    checked = cli("agents", "check").stdout
    assert f"sends no key to {url}" in checked and "not tried: only a prompt shows" in checked


def test_a_model_that_calls_the_trials_tool_has_answered(cli: Cli, model_server: ThreadingHTTPServer) -> None:
    pytest.importorskip("pydantic_ai")
    url = f"http://127.0.0.1:{model_server.server_port}/v1"
    done = cli("init", "--agent", "model", "--base-url", url, "--model", "eager")
    assert "main: ok" in done.stdout and "'(a call of get_time)' after" in done.stdout


def test_after_a_failed_trial_of_a_model_the_next_command_asks_it_again(cli: Cli) -> None:
    pytest.importorskip("pydantic_ai")
    done = cli("init", "--agent", "model", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", rc=1)
    assert "nothing listens there" in done.stdout
    assert 'agents check main --prompt "Say hello."' in done.stdout


def test_the_reference_of_all_settings_is_printed_and_loads(cli: Cli) -> None:
    printed = cli("init", "--print").stdout
    assert not config(cli).exists()
    config(cli).write_text(printed)
    assert "[gateway]" in printed
    assert "no gateway is running" in cli("sessions", rc=1).stderr  # the file was read, and is in order
    assert json.loads(cli("agents", "list", "--json").stdout) == []
