"""Log an agent in, in this terminal: choose one of its login methods, and run it."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import typer

from semel.faces.cli.init_questions import Choice, ask_choice
from semel.faces.cli.printing import print_error, print_remark
from semel.text.visible import visible

if TYPE_CHECKING:
    from semel.agents.acp import AcpAgent
    from semel.agents.acp.login import LoginMethod

LOGIN_TIMEOUT_S = 600.0


def log_in(agent: AcpAgent, method_id: str | None) -> bool:
    """Log an agent in with the login method of this id, or with the one that the person chooses.

    Return whether it worked. Exits with 2 if the agent has no such method, and if nobody can be asked.
    """
    methods = asyncio.run(_read_methods(agent))
    if not methods:
        print_error(f"agent {agent.name!r} offers no login. Log in with its own program, as the same user")
        return False
    chosen = _choose_method(agent, methods, method_id)
    if chosen.command:
        print_remark(f"running {shlex.join(chosen.command)}")
        env = agent.environment() | dict(chosen.env)
        return subprocess.run(chosen.command, cwd=agent.cwd, env=env, check=False).returncode == 0
    if remark := _describe_wait(chosen, methods):
        print_remark(remark)
    if problems := asyncio.run(_authenticate(agent, chosen)):
        print_error(*problems)
    return not problems


async def _read_methods(agent: AcpAgent) -> tuple[LoginMethod, ...]:
    from semel.gateway.ports import AgentError

    try:
        async with agent.initialized(_show_url) as (_, initialized):
            return initialized.logins
    except AgentError as error:
        print_error(str(error))
        raise typer.Exit(1) from None


def _choose_method(agent: AcpAgent, methods: tuple[LoginMethod, ...], method_id: str | None) -> LoginMethod:
    by_id = {method.id: method for method in methods}
    if method_id is None and len(methods) == 1:
        return methods[0]
    if method_id is None and sys.stdin.isatty():
        choices = [Choice(method.id, ": ".join(filter(None, (method.name, method.description)))) for method in methods]
        method_id = ask_choice(f"How do you want to log {agent.name} in?", choices)
    if method_id not in by_id:
        print_error(f"choose one with --method: {', '.join(f'{method.id} ({method.name})' for method in methods)}")
        raise typer.Exit(2)
    return by_id[method_id]


def _describe_wait(chosen: LoginMethod, methods: tuple[LoginMethod, ...]) -> str:
    """Say what is waited for, and what to try if nothing happens; "" for a key, which needs no person."""
    if chosen.variables:
        return ""
    others = [method.id for method in methods if method is not chosen and not method.variables]
    other = f". If nothing happens: Ctrl-C, then --method {' or '.join(others)}" if others else ""
    return f"waiting for the agent's login, for {LOGIN_TIMEOUT_S / 60:g} minutes at most; it may open a browser{other}"


async def _authenticate(agent: AcpAgent, method: LoginMethod) -> list[str]:
    """Let the agent log in by itself; return what went wrong and what to do, or []."""
    from semel.agents.acp.session import RpcError
    from semel.gateway.ports import AgentError

    try:
        async with agent.initialized(_show_url) as (conversation, _):
            await conversation.request("authenticate", {"methodId": method.id}, LOGIN_TIMEOUT_S)
    except (AgentError, RpcError) as error:
        problems = [f"agent {agent.name!r} refused the login: {error}"]
        if method.variables and method.find_variable(agent.environment()) is None:
            variables = " or ".join(method.variables)
            problems.append(f"Set {variables} in this shell, or in `env` of [agents.{agent.name}], then try again.")
        return problems
    return []


def _show_url(message: str, url: str) -> None:
    """Show what the agent asks a person to do in a browser, which may be on another machine."""
    print_remark(f"the agent says: {message}" if message else "the agent asks you to open this page:")
    print(visible(url), file=sys.stderr)  # whole, however long, so that it can be copied
