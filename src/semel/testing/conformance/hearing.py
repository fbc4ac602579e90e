"""What is held against `run`: nothing that people write is lost or heard twice, whatever dies or breaks."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from semel.testing.conformance import ledgers
from semel.testing.conformance.front import Network, network
from semel.testing.conformance.process import GatewayProcess, Point, until
from semel.testing.conformance.rig import ConformanceError, Rig, demand
from semel.testing.conformance.words import Words

POINTS: tuple[tuple[Point, int], ...] = (("received", 1), ("committed", 1), ("received", 1))
REPEATS = 3


@contextlib.asynccontextmanager
async def _house(rig: Rig, home: Path) -> AsyncIterator[tuple[GatewayProcess, Network]]:
    async with rig, network(rig) as net, GatewayProcess(home / "gateway", rig) as gateway:
        gateway.configure(net.ports)
        await _begin(gateway)
        yield gateway, net
        await gateway.stop()
        ledgers.balanced(gateway.ledger)


async def _begin(gateway: GatewayProcess) -> None:
    """The first run: it begins at the present."""
    await gateway.start()
    await gateway.online()


async def _heard(gateway: GatewayProcess, words: Words, written: Sequence[str], *, ordered: bool = True) -> None:
    """Until all of it is heard, once each and in the order of writing. Raises ConformanceError."""

    async def all() -> bool:
        return set(written) <= set(words.among(await gateway.heard()))

    try:
        await until(all, "what was written was not heard")
    except ConformanceError as fault:
        heard = words.among(await gateway.heard())
        lost = [text for text in written if text not in heard]
        raise ConformanceError(
            f"{fault}: lost {len(lost)} of {len(written)}, such as {lost[:5]}; {await gateway.channel()}"
        ) from None
    heard = words.among(await gateway.heard())
    twice = sorted({text for text in heard if heard.count(text) > 1})
    demand(not twice, f"heard twice: {twice[:5]}; a message needs the same key whenever the platform tells of it")
    in_order = list(heard) == list(written)
    demand(in_order or not ordered, f"heard in another order than written: {heard[:8]} instead of {list(written)[:8]}")


async def a_gateway_killed_between_receiving_and_committing_loses_nothing_and_hears_nothing_twice(
    rig: Rig, home: Path
) -> None:
    """SIGKILL when the channel has a message and nothing is committed, and when it is and the platform was not told."""
    async with _house(rig, home) as (gateway, _):
        words = Words("h")
        await gateway.stop()
        written: list[str] = []
        unanswered: list[str] = []
        for point in POINTS:
            if await gateway.start(die=point):
                written.append(words.new())
                await _write(rig, gateway, written[-1], unanswered)
                await gateway.died()
        demand(gateway.kills == len(POINTS), f"{gateway.kills} of {len(POINTS)} kills struck")
        await gateway.start()
        await gateway.online()
        for text in list(unanswered):
            await rig.write(text, gateway.url)
        await _heard(gateway, words, written, ordered=not rig.hooked)


async def _write(rig: Rig, gateway: GatewayProcess, text: str, unanswered: list[str]) -> None:
    """Where people's words are POSTed to the gateway, its death leaves them unanswered: they are POSTed again later."""
    try:
        await rig.write(text, gateway.url)
    except Exception:
        if not rig.hooked:
            raise
        unanswered.append(text)


async def what_the_platform_tells_three_times_is_heard_once(rig: Rig, home: Path) -> None:
    """Each event comes again, three times, to gateways that know of it from the ledger alone."""
    async with _house(rig, home) as (gateway, _):
        words = Words("h")
        await gateway.stop()
        start = ledgers.cursor(gateway.ledger)
        await gateway.start()
        await gateway.online()
        written = words.some(5)
        for text in written:
            await rig.write(text, gateway.url)
        await _heard(gateway, words, written)
        for _ in range(REPEATS):
            await gateway.stop()
            ready = False if rig.hooked else await rig.again("")
            await gateway.start(cursor=None if ready or rig.hooked else [start])
            await gateway.online()
            if rig.hooked:
                await rig.again(gateway.url)
            await until(lambda: _repeats(gateway, len(written)), "the platform's repeats did not come to the inbox")
            await _heard(gateway, words, written)


async def _repeats(gateway: GatewayProcess, wanted: int) -> bool:
    return int((await gateway.channel())["counts"]["duplicate"]) >= wanted


async def an_outage_leaves_no_gap_though_more_was_missed_than_a_page_holds(rig: Rig, home: Path) -> None:
    """The platform is away, people write more than a page, it comes back; then the same with kills in the middle."""
    async with _house(rig, home) as (gateway, net):
        words = Words("h")
        written = [words.new()]
        await rig.write(written[0], gateway.url)
        await _heard(gateway, words, written)
        await net.down()
        missed = words.some(rig.page + 7)
        for text in missed:
            await rig.write(text, "")
        await net.up()
        written += missed
        await _heard(gateway, words, written)
        await gateway.online()
        gateway.kill()
        await gateway.died()
        late = words.some(rig.page + 7)
        for text in late:
            await rig.write(text, "")
        for point in POINTS[:2]:
            if await gateway.start(die=point):
                await gateway.died()
        await gateway.start()
        written += late
        await _heard(gateway, words, written)
        written.append(words.new())
        await gateway.online()
        await rig.write(written[-1], gateway.url)
        await _heard(gateway, words, written)
