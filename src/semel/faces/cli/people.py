"""`semel people` and `semel pair`: list who may talk, add and remove accounts, create pairing codes."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from semel.faces.cli.app import Config, DataDir, Json, app, ask_gateway
from semel.faces.cli.printing import escape_text, format_time, print_json, print_remark, print_table, stdout_console
from semel.faces.client import quote_segment
from semel.law.access import REASONS
from semel.text.visible import visible

people = typer.Typer(
    help="List who may talk on the channels and who was refused; add and remove accounts.", no_args_is_help=True
)
app.add_typer(people, name="people")

Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help="CHANNEL:ID, such as matrix:@ada:example.org.")]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="The person's name. Default: their name on the platform. An existing name adds an account to that person.",
    ),
]
Role = Annotated[
    str | None,
    typer.Option("--role", metavar="ROLE", help="owner, member or guest. Default: the person's role, else member."),
]


@people.command("list")
def list_(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """List who may talk: name, role, where the account is known from (config, added, paired), account."""
    people_list = ask_gateway(config, data_dir, lambda client: client.get("/v1/people"))["people"]
    if json:
        print_json(people_list)
        return
    print_table(
        ("NAME", "ROLE", "FROM", "ACCOUNT"),
        (line for person in people_list for line in _account_rows(person)),
        "nobody may talk on any channel yet; make a code that lets somebody in: semel pair CHANNEL",
        wrapped_columns=("ACCOUNT",),
    )


@people.command()
def strangers(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """List who was refused since the gateway started, latest first, at most 50 per channel; never what they wrote."""
    listing = ask_gateway(config, data_dir, lambda client: client.get("/v1/people/strangers"))
    if json:
        print_json(listing)
        return
    was_refused = any(item["reason"] in REASONS for item in listing["refused"])
    print_table(
        ("ACCOUNT", "TIMES", "LAST", "NAME"),
        (
            (escape_text(s["account"]), s["times"], format_time(s["last"]), escape_text(s["name"]))
            for s in listing["strangers"]
        ),
        "no sender who was refused since the gateway started is a stranger now"
        if was_refused
        else "no sender was refused since the gateway started",
        wrapped_columns=("ACCOUNT",),
    )
    if listing["strangers"]:
        print_remark("Let one in, as a member: semel people add ACCOUNT --name NAME")
    for item in listing["refused"]:
        why = REASONS.get(item["reason"], f"HTTP requests with {item['reason']}; see: semel logs")
        print_remark(f"{item['channel']}: {item['times']} refused, {why}")
    for item in listing["codes"]:
        if item["state"] == "open":
            person, until = f"{item['name'] or 'somebody'} ({item['role']})", format_time(item["expires"])
            print_remark(f"{item['channel']}: a code for {person} is valid until {until}")


@people.command()
def add(
    account: Account,
    name: Name = None,
    role: Role = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Let an account in, or change its name or role. All accounts of one name are one person, with one role."""
    body = {"account": account, **_name_and_role(name, role)}
    person = ask_gateway(config, data_dir, lambda client: client.post("/v1/people", body))
    if json:
        print_json(person)
    else:
        others = [other["account"] for other in person["accounts"] if other["account"] != account]
        known = f", who is known as {', '.join(map(visible, others))}, too" if others else ""
        print_remark(f"{account} is {person['name']} ({person['role']}){known}")


@people.command()
def remove(account: Account, config: Config = None, data_dir: DataDir = None) -> None:
    """Remove an account: whoever uses it is a stranger again. An account in semel.toml must be removed there."""
    ask_gateway(config, data_dir, lambda client: client.delete(f"/v1/people/{quote_segment(account)}"))
    print_remark(f"{account} is a stranger's account now: its messages are refused")


@app.command()
def pair(
    channel: Annotated[str, typer.Argument(metavar="CHANNEL", help="The channel that the person will write on.")],
    name: Name = None,
    role: Role = None,
    json: Json = False,
    config: Config = None,
    data_dir: DataDir = None,
) -> None:
    """Make and print a code that lets one person in.

    They send it to the channel's account within ten minutes, in a private chat.
    """
    body = {"channel": channel, **_name_and_role(name, role)}
    pairing = ask_gateway(config, data_dir, lambda client: client.post("/v1/people/codes", body))
    if json:
        print_json(pairing)
        return
    stdout_console().print(pairing["code"], style="bold")
    minutes = max(1, round((pairing["expires"] / 1000 - time.time()) / 60))
    person = pairing["name"] or "the person to let in"
    print_remark(
        f"Within {minutes} minutes, {person} sends this code to the gateway's account on {channel}, in a private chat "
        f"and with nothing else in the message. It works once, and gives the role {pairing['role']}.\n"
        "See who is in: semel people list"
    )


def _name_and_role(name: str | None, role: str | None) -> dict[str, str]:
    return {key: value for key, value in (("name", name), ("role", role)) if value is not None}


def _account_rows(person: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    accounts = person["accounts"] or [{"account": "", "origin": "config"}]
    return [
        (person["name"], person["role"], account["origin"], escape_text(account["account"])) for account in accounts
    ]
