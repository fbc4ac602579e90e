"""`semel status`: the gateway, its agents and channels, and who is waited for, on one screen."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from semel.faces.cli.app import Config, DataDir, Json, app
from semel.faces.cli.printing import format_time, name_command, print_json, print_labelled, style_state
from semel.faces.config import locate_running
from semel.faces.transcript import format_zoned
from semel.text.visible import visible
from semel.text.wellformed import shorten_to_line
from semel.timing.durations import format_duration

if TYPE_CHECKING:
    from semel.faces.health.finding import Finding

MAX_SHOWN_SESSIONS = 10
MAX_SHOWN_SCHEDULES = 10
LABEL_CELLS = 10
MAX_REASON_CHARS = 800
FINDING_STYLES = {"ok": "", "warning": "yellow", "broken": "bold red"}


@app.command()
def status(json: Json = False, config: Config = None, data_dir: DataDir = None) -> None:
    """Show on one screen: gateway, agents, sessions that need someone, channels, outbox, disk, backup and books.

    Without a running gateway, the command shows what the ledger alone can tell.
    """
    from semel.faces.health.installation import examine_reports
    from semel.faces.health.overview import look_over

    overview = asyncio.run(look_over(config, data_dir))
    if json:
        print_json(overview)
        return
    for label, text in _list_lines(overview):
        print_labelled(label, text, LABEL_CELLS)
    for finding in examine_reports(locate_running(config, data_dir)):
        print_labelled(finding.subject, _style_finding(finding), LABEL_CELLS)


def _list_lines(overview: dict[str, Any]) -> Iterator[tuple[str, str | Text]]:
    if overview["running"]:
        yield from _label_lines("gateway", _describe_gateway(overview))
        yield from _label_lines("agents", _list_agents(overview))
        yield from _label_lines("turns", _list_agent_notices(overview))
    else:
        yield "gateway", _describe_stopped(overview)
    moves: list[str | Text] = [Text(visible(f"{missing['text']}."), "yellow") for missing in overview["missing_agents"]]
    sessions = _list_attention(overview["attention"], _list_login_advice(overview)) + _list_put_off(
        overview.get("put_off", ())
    )
    yield from _label_lines("sessions", sessions + moves)
    if overview["running"]:
        yield from _label_lines("channels", _list_channels(overview["channels"]))
        yield from _label_lines("nodes", _list_refused_nodes(overview.get("refused_nodes", ())))
    yield from _label_lines("schedules", _list_overdue(overview.get("overdue", ())))
    remarks = [*_list_delayed(overview), *_list_missing_channels(overview), *_describe_rejected(overview)]
    yield from _label_lines("outbox", [_describe_outbox(overview["parts"]), *remarks])
    yield from _list_storage(overview)


def _label_lines(label: str, lines: list[str | Text]) -> Iterator[tuple[str, str | Text]]:
    """Put the label before the first line only."""
    for number, line in enumerate(lines):
        yield ("" if number else label), line


def _describe_gateway(overview: dict[str, Any]) -> list[str | Text]:
    up = format_duration(int(overview["uptime"]))
    process = f", process {overview['pid']}" if overview["pid"] is not None else ""
    lines: list[str | Text] = [f"Semel {overview['version']} at {overview['url']}{process}, up {up}"]
    if waiting := overview.get("waiting"):
        active = next((gateway["name"] for gateway in overview["gateways"] if gateway["is_active"]), "another gateway")
        if wait := overview.get("wait"):
            lines.append(Text(visible(f"{wait}; {active} answers"), "yellow"))
        else:
            lines.append(f"{waiting} waits to take over from {active}, which answers")
    if overview.get("problem"):
        lines.append(Text(visible(f"not ready: {overview['problem']}"), "bold red"))
    if overview["configuration"]:
        lines.append(Text(visible(name_command(overview["configuration"])), "yellow"))
    return lines


def _describe_stopped(overview: dict[str, Any]) -> Text:
    """Say that no gateway runs, whether the last one was killed, and how to start one or why none would start.

    Or say that one is starting or stopping, or that this gateway of a cluster waits.
    """
    if overview.get("no_answer"):
        return Text(visible(name_command(overview["no_answer"])), "bold red")
    if overview.get("wait"):
        return Text(visible(overview["wait"]), "yellow")
    gateways = overview.get("gateways", ())
    active = next((gateway["name"] for gateway in gateways if gateway["is_active"]), "another gateway")
    if any(gateway["name"] == overview.get("name") and not gateway["is_active"] for gateway in gateways):
        return Text(visible(f"{overview['name']} waits to take over from {active}"))
    if overview["holder"] is not None:
        text = f"process {overview['holder']} holds the ledger: a gateway that starts or stops, or a restore or a copy"
        return Text(text, "yellow")
    killed = ": the last one was killed, and the next one resumes or ends what ran" if overview["killed"] else ""
    problem = overview["problem"]
    step = name_command(problem or f"start it with: {overview.get('start') or 'semel up'}")
    return Text(visible(f"not running{killed}; {step}"), "bold red" if problem else "yellow")


def _list_agents(overview: dict[str, Any]) -> list[str | Text]:
    """Name each agent with its state on one line, so that no count can be read as that of the next agent."""
    lines: list[str | Text] = []
    for name in overview["configured"]:
        processes = [live for live in overview["agents"] if live["agent"] == name]
        check = overview.get("checks", {}).get(name, {"level": "ok"})
        if processes:
            lines.append(f"{name}: {len(processes)} live, {sum(live['busy'] for live in processes)} busy")
        elif check["level"] == "ok":
            lines.append(f"{name}: not in use")
        else:
            remedy = f"; to do: {check['remedy']}" if check.get("remedy") else ""
            text = f"{name}: {check['text']}{remedy}"
            lines.append(Text(visible(name_command(text)), "yellow"))
    return lines


def _list_login_advice(overview: dict[str, Any]) -> list[str]:
    """Return what the lines of the agents advise for each that is not logged in: what follows the reason."""
    from semel.faces.health.finding import LOGGED_OUT

    if not overview["running"]:
        return []
    live = {process["agent"] for process in overview["agents"]}
    checks = overview.get("checks", {})
    texts = [checks[name]["text"] for name in overview["configured"] if name in checks and name not in live]
    return [advice for text in texts if LOGGED_OUT in text and (advice := text.partition(": ")[2])]


def _list_agent_notices(overview: dict[str, Any]) -> list[str | Text]:
    """Name the running turns whose agent says something of itself, such as that it repeats its request, or nothing."""
    lines: list[str | Text] = []
    for notice in overview.get("agent_notices", ())[:MAX_SHOWN_SESSIONS]:
        at = f" at {format_time(notice['said_at'])}" if "said_at" in notice else ""
        runs = f"{notice['session']} ({notice['turn']}, since {format_time(notice['at'])})"
        if "silent" in notice:
            check = shlex.join(("semel", "agents", "check", notice["silent"], "--prompt", "Say hello."))
            text = f"nothing came from the agent yet; is its key refused? try: {check}"
        else:
            text = f"the agent said{at}: {shorten_to_line(notice['says'], 160)}"
        lines.append(Text(visible(name_command(f"{runs}: {text}")), "yellow"))
    return lines


def _list_put_off(put_off: Sequence[dict[str, Any]]) -> list[str | Text]:
    """Name the sessions whose turn failed and is tried again by itself."""
    lines: list[str | Text] = []
    for session in put_off[:MAX_SHOWN_SESSIONS]:
        error = shorten_to_line(session.get("error") or "no reason is known", 160).rstrip(".")
        again = f"is tried again at {format_time(session['at'])} (attempt {session['attempt']})"
        lines.append(
            Text(visible(f"  {session['session']} ({session['turn']}) failed, and {again}: {error}"), "yellow")
        )
    return lines


def _list_attention(attention: list[dict[str, Any]], shown_advice: Sequence[str]) -> list[str | Text]:
    """Name the sessions that need someone, and each request. `shown_advice`: what the lines of the agents advise."""
    if not attention:
        return ["none needs anyone"]
    count = len({session["session"] for session in attention})
    lines: list[str | Text] = [f"{count} need{'s' if count == 1 else ''} someone"]
    for session in attention[:MAX_SHOWN_SESSIONS]:
        lines.append(
            Text(visible(name_command(f"  {session['session']}  {_describe_need(session, shown_advice)}")), "yellow")
        )
    if len(attention) > MAX_SHOWN_SESSIONS:
        lines.append(f"  and {len(attention) - MAX_SHOWN_SESSIONS} more (semel status --json)")
    return lines


def _describe_need(session: dict[str, Any], shown_advice: Sequence[str]) -> str:
    """Say what a session waits for, since when, and what to do about it. `shown_advice`: is not repeated."""
    key, since = shlex.quote(session["session"]), format_time(session["at"])
    if session["why"] == "limit":
        limit = session["limit"]
        whose = " ".join(filter(None, (limit["scope"], limit["subject"])))
        until = format_zoned(session["until"], session.get("tz"))
        return (
            f"waits until {until} (since {since}): the limit of {limit['measure']} "
            f"({whose}) is used up; raise it in [limits] and restart, or wait; see: semel limits"
        )
    turn = session.get("turn")
    if session["why"] not in ("failed", "silent", "approval", "question"):  # a newer gateway says so
        return f"needs someone: {session['why']} (since {since}); see: semel show {key}"
    if session["why"] == "silent":
        report = f": {shorten_to_line(session['error'], 120).rstrip('.')}" if session.get("error") else ""
        return f"its last turn ended without a word ({turn}, {since}){report}; try again: semel say {key} /retry"
    if session["why"] == "failed":
        error = session.get("error", "no reason is known")
        for advice in shown_advice:
            error = error.replace(advice, "see agents above")
        error = _format_reason(error)
        return f"its last turn failed ({turn}, {since}): {error}; try again: semel say {key} /retry"
    if session["why"] == "question":
        return f"asked something ({turn}, {since}); answer it: semel chat {key}"
    request = f": {shorten_to_line(session['asks'], 120)}" if session.get("asks") else ""
    numbers = f'semel say {key} "/approve {session["approve"]}" or "/deny {session["deny"]}", or '
    say = numbers if session.get("approve") is not None else ""
    return f"asks for a permission ({turn}, {since}){request}; answer it: {say}semel chat {key}"


def _list_overdue(overdue: Sequence[dict[str, Any]]) -> list[str | Text]:
    """Name the schedules that did not fire because no gateway ran, and say what its start will do."""
    if not overdue:
        return []
    lines: list[str | Text] = [f"{len(overdue)} overdue"]
    lines += [Text(visible(f"  {firing['text']}"), "yellow") for firing in overdue[:MAX_SHOWN_SCHEDULES]]
    if len(overdue) > MAX_SHOWN_SCHEDULES:
        lines.append(f"  and {len(overdue) - MAX_SHOWN_SCHEDULES} more ({name_command('semel schedules list')})")
    return lines


def _format_reason(text: str) -> str:
    """Put a reason on one line. Of a very long one, the middle is left out, because the end may say what to do."""
    line, half = " ".join(text.split()), MAX_REASON_CHARS // 2
    return line if len(line) <= MAX_REASON_CHARS else f"{line[:half]} … {line[-half:]}"


def _list_channels(channels: list[dict[str, Any]]) -> list[str | Text]:
    from semel.faces.health.channels import advise_pairing, describe_refused

    lines: list[str | Text] = []
    for channel in channels:
        since = visible(name_command(f" since {format_time(channel['since'])}{_describe_error(channel)}"))
        lines.append(Text.assemble(visible(f"{channel['name']} "), style_state(channel["state"]), since))
        if (refused := describe_refused(channel)) is not None:
            lines.append(Text(visible(f"  {refused}"), "yellow"))
        if channel.get("closed"):
            lines.append(
                Text(visible(name_command(f"  nobody may talk there yet: {advise_pairing(channel)}")), "yellow")
            )
    return lines or ["none is configured"]


def _list_refused_nodes(nodes: Sequence[dict[str, Any]]) -> list[str | Text]:
    from semel.faces.health.channels import describe_nodes

    return [Text(visible(text), "yellow") for text in describe_nodes(nodes)]


def _describe_error(channel: dict[str, Any]) -> str:
    """Say why a channel is not connected, and what happens or is to be done next; "" if it is connected."""
    if channel["state"] not in ("offline", "denied"):
        return ""
    from semel.faces.health.channels import advise_denied, advise_offline

    step = advise_denied(channel) if channel["state"] == "denied" else advise_offline(channel)
    error = _format_reason(channel.get("error") or "no reason is known").rstrip(".")
    return f": {error}; {step}"


def _describe_outbox(parts: dict[str, int]) -> str:
    waiting = ", ".join(f"{number} {state}" for state, number in parts.items() if number)
    hint = name_command("; decide: semel outbox list --state held") if parts.get("held") else ""
    return f"{waiting}{hint}" if waiting else "nothing waits"


def _list_delayed(overview: dict[str, Any]) -> Iterator[Text]:
    """Name the destinations whose messages wait because the last attempt to send one failed, and why."""
    for part in overview.get("delayed", ()):
        retry = f"; next try at {format_time(part['due'])}" if part.get("due") else ""
        if overview.get("unsettled"):
            retry = "; the ledger was restored, so it may have arrived: the next start looks, or holds it for you"
        error = _format_reason(part["error"]).rstrip(".")
        waits = f"  {part['to']}  p{part['part']} waits since {format_time(part['at'])}: {error}{retry}"
        yield Text(visible(name_command(waits)), "yellow")


def _list_missing_channels(overview: dict[str, Any]) -> Iterator[Text]:
    for missing in overview.get("missing_channels", ()):
        step = f"add [channels.{missing['channel']}] to the configuration again, and restart the gateway"
        yield Text(visible(f"{missing['text']}; {step}"), "yellow")


def _describe_rejected(overview: dict[str, Any]) -> Iterator[Text]:
    if rejected := overview.get("rejected"):
        text = f"{rejected} rejected in the last day; see why, then resend or drop: semel outbox list --state rejected"
        yield Text(visible(name_command(text)), "yellow")


def _list_storage(overview: dict[str, Any]) -> Iterator[tuple[str, str | Text]]:
    from semel.faces.health.installation import examine_backup, examine_disk

    books, now = overview["books"], round(time.time() * 1000)
    yield "disk", _style_finding(examine_disk(overview["disk"]))
    if overview.get("database"):  # its backups are PostgreSQL's
        yield "database", Text(visible(overview["database"]))
        if storage := overview.get("object_storage"):
            problem = storage["problem"]
            yield "files", Text(visible(problem), "bold red") if problem else Text(visible(f"in {storage['url']}"))
        yield from _label_lines("cluster", _list_members(overview))
    else:
        yield "backup", _style_finding(examine_backup(overview["backup"], overview.get("restore"), now, now))
    if books is None:
        yield "books", name_command("not checked yet; check them now: semel doctor")
    elif books["broken"]:
        broken = f"broken laws ({len(books['broken'])} of {books['laws']}): {', '.join(books['broken'])}"
        step = "see the rows: semel doctor --laws; keep a copy of the data directory and report this"
        yield "books", Text(visible(name_command(f"{broken} ({format_time(books['at'])}); {step}")), "bold red")
    else:
        yield "books", f"{books['laws']} laws held{_count_entries(books['entries'])} ({format_time(books['at'])})"


def _count_entries(count: int) -> str:
    """Say over how many entries the laws held; "" if there is none yet."""
    return f" over {count:,} {'entry' if count == 1 else 'entries'}" if count else ""


def _list_members(overview: dict[str, Any]) -> list[str | Text]:
    """Describe the gateways of a cluster that live, and those that are gone and that sessions wait for."""
    import msgspec

    from semel.faces.health.cluster import describe_silence, is_silent
    from semel.ledger.storage.cluster import ClusterGateway

    lines: list[str | Text] = [_describe_member(gateway) for gateway in overview.get("gateways", ())]
    gateways = msgspec.convert(overview.get("gateways", []), list[ClusterGateway])
    for gateway in filter(is_silent, () if overview.get("no_answer") else gateways):
        lines.append(Text(visible(f"  {gateway.name} {describe_silence(gateway, gateways)}"), "bold red"))
    for missing in overview.get("missing_gateways", ()):
        lines.append(Text(visible(f"  {missing['text']}"), "yellow"))
    return lines


def _describe_member(gateway: dict[str, Any]) -> str:
    """Say which gateway of a cluster it is, where it is, whether it is the active one, and how much it does."""
    state = "is active" if gateway["is_active"] else "serves, too," if gateway["serves"] else "waits to take over"
    where = f" at {gateway['address']}" if gateway["address"] else f" on {gateway['host']}"
    agents = f", {gateway['agents']} of {gateway['room']} agents run" if gateway["serves"] else ""
    since = format_time(gateway["joined"])
    return f"{gateway['name']} {state}{where}, Semel {gateway['version']}, since {since}{agents}"


def _style_finding(finding: Finding) -> Text:
    text = name_command("; ".join(filter(None, (finding.text, finding.remedy))))
    return Text(visible(text), FINDING_STYLES[finding.level])
