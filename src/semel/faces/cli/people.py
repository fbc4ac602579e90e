"""`semel people` and `semel pair`: list who may talk, add and remove accounts, create pairing codes."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from semel.faces.cli.app import Config, DataDir, Json, app, ask
from semel.faces.cli.out import as_json, console, remark, rows, shown, when
from semel.law.access import REASONS

people = typer.Typer(
    help="Who may talk on the channels: list them and who was refused, add, remove.", no_args_is_help=True
)
app.add_typer(people, name="people")

Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help="CHANNEL:ID, such as matrix:@ada:example.org.")]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Who it is. Default: as they call themselves.")
]
Role = Annotated[
    str | None,
    typer.Option("--role", metavar="ROLE", help="owner, member or guest. Default: that of the name, else member."),
]


@people.command("list")
def list_(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """List who may talk, with their accounts."""
    found = ask(config, data_dir, lambda client: client.people())
    if json:
        as_json(found)
        return
    rows(
        ("NAME", "ROLE", "FROM", "ACCOUNT"),
        (line for person in found for line in _lines(person)),
        "nobody is known on any channel; a code that lets somebody in: semel pair CHANNEL",
        whole=("ACCOUNT",),
    )


@people.command()
def strangers(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """List who was refused since the gateway started, the latest first; never what they wrote."""
    found = ask(config, data_dir, lambda client: client.strangers())
    if json:
        as_json(found)
        return
    rows(
        ("ACCOUNT", "TIMES", "LAST", "NAME"),
        ((shown(s["account"]), s["times"], when(s["last"]), shown(s["name"])) for s in found["strangers"]),
        "nobody was refused since the gateway started",
        whole=("ACCOUNT",),
    )
    if found["strangers"]:
        remark("Let one in: semel people add ACCOUNT --name NAME")
    for one in found["refused"]:
        remark(f"{one['channel']}: {one['times']} refused, {REASONS.get(one['reason'], one['reason'])}")
    for one in found["codes"]:
        if one["state"] == "open":
            who, until = f"{one['name'] or 'somebody'} ({one['role']})", when(one["expires"])
            remark(f"{one['channel']}: a code for {who} waits to be sent, until {until}")


@people.command()
def add(
    account: Account,
    name: Name = None,
    role: Role = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Let an account in. All accounts of one name are one person, with one role."""
    told = {"account": account, **_given(name, role)}
    found = ask(config, data_dir, lambda client: client.add_account(told))
    if json:
        as_json(found)
    else:
        remark(f"{account} is {found['name']} ({found['role']})")


@people.command()
def remove(account: Account, config: Config = None, data_dir: DataDir = None) -> None:
    """Let an account in no more; one that semel.toml lists is removed there."""
    ask(config, data_dir, lambda client: client.remove_account(account))
    remark(f"{account} is nobody's account now: what comes from it is refused")


@app.command()
def pair(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel they will write on.")],
    name: Name = None,
    role: Role = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Make a code that lets one person in: they send it to the channel's account, within ten minutes."""
    made = ask(config, data_dir, lambda client: client.pair({"channel": channel, **_given(name, role)}))
    if json:
        as_json(made)
        return
    console().print(made["code"], style="bold")
    minutes = max(1, round((made["expires"] / 1000 - time.time()) / 60))
    who = made["name"] or "whoever is to be let in"
    remark(
        f"Within {minutes} minutes, {who} sends it to this gateway's account on {channel}, as a message of its own, "
        f"in a conversation with nobody else, and is {made['role']} then. It works once.\n"
        "See who is in: semel people list"
    )


def _given(name: str | None, role: str | None) -> dict[str, str]:
    return {key: value for key, value in (("name", name), ("role", role)) if value is not None}


def _lines(person: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    accounts = person["accounts"] or [{"account": "", "origin": "config"}]
    return [(person["name"], person["role"], one["origin"], shown(one["account"])) for one in accounts]
