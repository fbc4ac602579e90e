"""An agent that is not logged in: Semel uses a key that is there, and else says in words what a person can do."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from agents_house import House, turn, until

from semel.agents.acp.login import LoginAdvice, LoginMethod, LoginStatus, describe_login, read_login_methods
from semel.agents.codex_home import restore_login_file
from semel.gateway.ports import AgentError, Answered

AGENT = str(Path(__file__).with_name("login_agent.py"))
KEY = {"OPENAI_API_KEY": "sk-test"}


def command(kind: str) -> list[str]:
    return [sys.executable, AGENT, kind]


async def why(house: House, kind: str, **env: str) -> str:
    """Why an agent of this kind cannot be opened."""
    with pytest.raises(AgentError) as refusal:
        await house.open(house.agent(command(kind), env=env))
    assert refusal.value.logged_out == ("is not logged in (" in str(refusal.value))
    return str(refusal.value)


@pytest.mark.parametrize("kind", ["key", "words"])
async def test_an_agent_is_logged_in_with_the_key_of_its_environment(house: House, kind: str) -> None:
    talk = await house.open(house.agent(command(kind), env=KEY))
    assert talk.memory == "s1"


async def test_codex_keeps_no_key_that_semel_logs_it_in_with(house: House, tmp_path: Path) -> None:
    """codex-acp 2.6.0 writes it down, and would use it from then on, whatever its environment has."""
    program = tmp_path / "codex-acp" / "login_agent.py"
    program.parent.mkdir()
    shutil.copy(AGENT, program)
    kept = tmp_path / "auth.json"
    agent = [sys.executable, str(program), "key"]
    for key in ("sk-wrong", "sk-right"):
        talk = await house.open(house.agent(agent, env={"OPENAI_API_KEY": key, "CODEX_HOME": str(tmp_path)}))
        assert talk.login_status.description == f"A key ({key})" and not talk.login_advice.keeps_key
        assert not kept.exists()
    env = {"OPENAI_API_KEY": "sk-right", "CODEX_HOME": str(tmp_path)}
    kept.write_text(json.dumps({"OPENAI_API_KEY": "sk-of-another-start"}))
    with restore_login_file(agent, env):
        kept.write_text(json.dumps({"OPENAI_API_KEY": "sk-right"}))
    assert not kept.exists(), "another agent was logged in at the same time"
    kept.write_text("{}")
    with restore_login_file(agent, env):
        kept.write_text(json.dumps({"OPENAI_API_KEY": "sk-right"}))
    assert kept.read_text() == "{}"
    kept.write_text(json.dumps({"OPENAI_API_KEY": "sk-of-a-person"}))
    talk = await house.open(house.agent(agent, env={"OPENAI_API_KEY": "sk-other", "CODEX_HOME": str(tmp_path)}))
    assert talk.login_advice.keeps_key and "sk-of-a-person" in kept.read_text()


async def test_without_a_key_a_person_is_told_which_variable_to_set_and_where(house: House) -> None:
    said = await why(house, "key")
    assert "is not logged in (Authentication required)" in said
    assert "set OPENAI_API_KEY or CODEX_API_KEY where `semel up` runs" in said
    assert said.endswith("It offers: API Key; ChatGPT: Use ChatGPT to authenticate"), "without the agent's blanks"
    assert 'env = { OPENAI_API_KEY = "env:OPENAI_API_KEY" }' in said and "[agents.test]" in said
    assert "run `semel agents login test` in a terminal" in said
    assert "ChatGPT: Use ChatGPT to authenticate" in said


async def test_a_key_that_is_refused_is_said_to_be(house: House) -> None:
    assert "the key was not accepted, with OPENAI_API_KEY" in await why(house, "wrong", **KEY)


async def test_an_agent_that_only_reports_that_nobody_is_logged_in_is_understood(house: House) -> None:
    """claude-agent-acp 0.101.0: an internal error, and a status before it."""
    said = await why(house, "status")
    assert "is not logged in (Internal error): run `semel agents login test` in a terminal" in said


async def test_a_prompt_that_is_refused_for_want_of_a_login_says_what_to_do(house: House) -> None:
    """claude-agent-acp 0.101.0 opens a session without a login."""
    talk = await house.open(house.agent(command("prompt")))
    end = (await turn(talk, "hello")).end
    assert isinstance(end, Answered) and end.error is not None
    assert end.error.startswith(
        "Authentication required. The agent is not logged in, or its login was refused: run `semel agents login test`"
    )


async def test_a_prompt_that_is_refused_although_a_key_is_set_says_that_the_key_was_refused(house: House) -> None:
    """claude-agent-acp 0.101.0 answers a wrong key and a missing login alike."""
    talk = await house.open(house.agent(command("prompt-key"), env=KEY))
    end = (await turn(talk, "hello")).end
    assert isinstance(end, Answered) and end.error is not None
    assert end.error.startswith("Authentication required. OPENAI_API_KEY is set, so this key was probably refused")
    assert "not logged in" not in end.error


async def test_the_json_of_a_models_api_is_told_in_words_with_what_to_do(house: House) -> None:
    """Gemini CLI 0.61.0 hands it on as the message, and the HTTP status as the code."""
    talk = await house.open(house.agent(command("prompt-401"), env=KEY))
    end = (await turn(talk, "hello")).end
    assert isinstance(end, Answered) and end.error is not None
    assert end.error.startswith("401 UNAUTHENTICATED: The key is unknown. OPENAI_API_KEY is set, so this key was")


@pytest.mark.parametrize(
    ("kind", "variable", "keeps_key", "words"),
    [
        (
            "account",
            "X_KEY",
            True,
            "Its login with a label was refused: run `semel agents login x` in a terminal. X_KEY",
        ),
        ("gateway", "X_KEY", True, "a label refused the key of the agent's own configuration: correct it there"),
        ("api_key", "X_KEY", True, "run `semel agents login x --method k` in a terminal in which X_KEY has the right"),
        ("api_key", None, True, "run `semel agents login x --method k` in a terminal in which its variable has"),
        ("", "X_KEY", True, "run `semel agents login x --method k` in a terminal in which X_KEY has the right one"),
        ("api_key", "X_KEY", False, "X_KEY is set, so this key was probably refused"),
        ("", None, True, "The agent is not logged in, or its login was refused: log in"),
    ],
)
def test_a_refused_login_names_the_remedy_that_fits_it_first(
    kind: str, variable: str | None, keeps_key: bool, words: str
) -> None:
    """codex-acp 2.6.0 keeps the key of a person's login; claude-agent-acp 0.101.0 reads the variable anew."""
    advice = LoginAdvice("x", "log in", variable, keeps_key, "k")
    told = advice.explain_refusal(LoginStatus(kind, "a label"))
    assert words in told and told.startswith((words, "The key that it keeps")), told


async def test_a_mode_that_claude_refuses_as_root_is_told_with_what_to_do(house: House) -> None:
    with pytest.raises(AgentError, match=r"no mode .bypassPermissions.*as another user .*no other value\)$"):
        await house.open(house.agent(command("modes"), mode="bypassPermissions"))
    said = await why(house, "root")
    assert (
        "exited with code 1" in said
        and 'IS_SANDBOX = "1"' in said
        and 'change the env line of its section to env = { ENABLE_TOOL_SEARCH = "false", IS_SANDBOX = "1" }' in said
        and said.endswith("or unset IS_SANDBOX where `semel up` runs")
        and "not logged in" not in said
    )


def test_a_key_that_a_known_agent_reads_is_named_even_if_its_logins_name_none() -> None:
    login = LoginMethod("claude-ai-login", "Claude", command=("claude-agent-acp", "login"))
    said = describe_login("claude", [login], ["ANTHROPIC_API_KEY"])
    assert said.startswith("set ANTHROPIC_API_KEY where") and "run `semel agents login claude` in a terminal" in said


async def test_an_agent_without_login_methods_is_pointed_to_the_terminal(house: House) -> None:
    assert "run `semel agents login test` in a terminal" in await why(house, "plain")


async def test_a_crash_is_told_by_the_line_with_the_error(house: House) -> None:
    said = await why(house, "node")
    assert "Error: Cannot find module 'pi'" in said and "requireStack" not in said


def test_the_login_methods_of_measured_agents_are_read() -> None:
    """As claude-agent-acp 0.101.0, copilot 1.0.102, opencode 1.18.33 and the specification have them."""
    result = {
        "authMethods": [
            {"id": "claude-ai-login", "name": "Claude", "type": "terminal", "args": ["--cli", "auth", "login"],
             "env": [{"name": "A", "value": "b"}], "_meta": {"terminal-auth": {"command": "/x/node", "args": ["y"]}}},
            {"id": "copilot-login", "name": "Log in", "description": "Run `copilot login`",
             "_meta": {"terminal-auth": {"command": "/x/copilot", "args": ["login"], "label": "Copilot"}}},
            {"id": "gemini-api-key", "name": "Key", "_meta": {"api-key": {"provider": "google"}}},
            {"id": "v", "name": "V", "type": "env_var", "vars": [{"name": "MY_KEY"}, {"name": 7}, "x"]},
            {"name": "no id"}, "x", {"id": "odd", "args": 5, "type": "terminal", "_meta": 3},
        ]
    }  # fmt: skip
    methods = {method.id: method for method in read_login_methods(result, ["claude-agent-acp"])}
    assert methods["claude-ai-login"].command == ("claude-agent-acp", "--cli", "auth", "login")
    assert methods["claude-ai-login"].env == {"A": "b"}
    assert methods["copilot-login"].command == ("/x/copilot", "login")
    assert methods["gemini-api-key"].find_variable({"GOOGLE_API_KEY": "k"}) == "GOOGLE_API_KEY"
    assert methods["v"].variables == ("MY_KEY",)
    assert methods["odd"].command == ("claude-agent-acp",)
    assert set(methods) == {"claude-ai-login", "copilot-login", "gemini-api-key", "v", "odd"}


def test_a_key_alone_needs_no_terminal() -> None:
    assert "terminal" not in describe_login("x", [LoginMethod("k", "Key", variables=("MY_KEY",))])


async def test_an_agent_that_would_decide_by_itself_is_put_into_a_mode_in_which_it_asks(house: House) -> None:
    """claude-agent-acp 0.101.0 starts in `auto`."""
    talk = await house.open(house.agent(command("modes")))
    assert talk.modes is not None and talk.modes["currentModeId"] == "default"
    for permissions in ("allow", "deny"):  # the gateway answers its requests, so it has to ask
        answered = await house.open(house.agent(command("modes"), permissions=permissions))
        assert answered.modes is not None and answered.modes["currentModeId"] == "default"


async def test_a_configured_mode_is_set_and_one_that_is_not_offered_is_an_error(house: House) -> None:
    for mode in ("plan", "PLAN"):
        talk = await house.open(house.agent(command("modes"), mode=mode))
        assert talk.modes is not None and talk.modes["currentModeId"] == "plan"
    with pytest.raises(AgentError, match=r"no mode 'fly'. There are: auto, default, plan\. Correct `mode`"):
        await house.open(house.agent(command("modes"), mode="fly"))


async def test_a_model_is_set_by_the_way_that_the_agent_knows(house: House) -> None:
    """pi-acp 0.0.34 lists its models in both ways of ACP, and answers only the newer request."""
    talk = await house.open(house.agent(command("option"), model="large"))
    request = await until(lambda: talk.process.stderr.tail(1), "the request that the agent took")
    assert json.loads(request)[0] == "session/set_config_option"
    assert talk.models is not None and talk.models["currentModelId"] == "large"
