"""Checks of `run`: whatever dies or breaks, no message that a person writes is lost or heard twice."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from semel.testing.conformance import ledgers
from semel.testing.conformance.network import ProxiedNetwork, open_network
from semel.testing.conformance.process import CursorStuck, DeathPoint, GatewayProcess, report_progress, wait_until
from semel.testing.conformance.rig import ConformanceError, NumberedTexts, Rig, demand

DEATH_POINTS: tuple[tuple[DeathPoint, int], ...] = (("received", 1), ("committed", 1), ("received", 1))
REPEAT_COUNT = 3
LOST_HINT = (
    "What was put is kept, so the cursor had passed it before it was put: give both to one call, "
    "`await inbox.put(messages, cursor)`, and save the present on the first run with `await inbox.put([], cursor)`"
)
"""What a channel most often did wrong if the messages of an outage are lost."""


@contextlib.asynccontextmanager
async def _start_gateway(rig: Rig, home: Path) -> AsyncIterator[tuple[GatewayProcess, ProxiedNetwork]]:
    async with rig, open_network(rig) as net, GatewayProcess(home / "gateway", rig) as gateway:
        gateway.configure(net.ports)
        await _begin_hearing(gateway)
        yield gateway, net
        await gateway.stop()
        ledgers.check_books(gateway.ledger)


async def _begin_hearing(gateway: GatewayProcess) -> None:
    """Start a gateway for the first time and wait until it is online: it hears what is written from now on."""
    await gateway.start()
    await gateway.wait_until_online()


async def _expect_heard_once(
    gateway: GatewayProcess, words: NumberedTexts, written: Sequence[str], *, ordered: bool = True
) -> None:
    """Wait until each of the `written` texts is heard. Raises ConformanceError if one is lost or heard twice.

    `words`: the texts of this check, to tell them from others. `ordered`: also raise if they are heard out of order.
    """

    async def all() -> bool:
        if set(written) <= set(words.among(await gateway.heard_texts())):
            return True
        gateway.check_progress(await gateway.channel_state())
        return False

    try:
        await wait_until(all, "what was written was not heard")
    except CursorStuck:
        raise
    except ConformanceError as error:
        heard_texts = words.among(await gateway.heard_texts())
        lost = [text for text in written if text not in heard_texts]
        raise ConformanceError(
            f"{error}: lost {len(lost)} of {len(written)}, such as {lost[:5]}; {await gateway.channel_state()}. "
            f"{LOST_HINT}"
        ) from None
    await _check_heard_once(gateway, words)
    heard_texts = words.among(await gateway.heard_texts())
    in_order = list(heard_texts) == list(written)
    demand(
        in_order or not ordered,
        f"heard in another order than written: {heard_texts[:8]} instead of {list(written)[:8]}",
    )


async def _check_heard_once(gateway: GatewayProcess, words: NumberedTexts) -> None:
    """Raise ConformanceError if one of the `words` was heard twice, which means that it came under two keys."""
    keys: dict[str, str] = {}
    for entry in await gateway.heard_entries():
        for text in words.among([entry["text"]]):
            key = repr(entry.get("key"))
            demand(
                text not in keys,
                f"one message was heard twice, because it came under two keys: {text!r} under {keys.get(text)} and "
                f"under {key}. The key must be the platform's own id of the message, which is the same whenever the "
                "platform delivers it; nothing random, no time and no counter of the channel may be in it",
            )
            keys[text] = key


async def a_gateway_killed_between_receiving_and_committing_loses_nothing_and_hears_nothing_twice(
    rig: Rig, home: Path
) -> None:
    """Check that each message is heard once although the gateway is killed before or right after it commits one."""
    async with _start_gateway(rig, home) as (gateway, _):
        words = NumberedTexts("h")
        await gateway.stop()
        written: list[str] = []
        unanswered: list[str] = []
        for point in DEATH_POINTS:
            if await gateway.start(die=point):
                written.append(words.new())
                await _write_message(rig, gateway, written[-1], unanswered)
                await gateway.wait_for_death()
        demand(gateway.kills == len(DEATH_POINTS), f"{gateway.kills} of {len(DEATH_POINTS)} kills struck")
        await gateway.start()
        await gateway.wait_until_online()
        for text in list(unanswered):
            await rig.write(text, gateway.url)
        await _expect_heard_once(gateway, words, written, ordered=not rig.hooked)


async def _write_message(rig: Rig, gateway: GatewayProcess, text: str, unanswered: list[str]) -> None:
    """Write the text as the rig's person. If a hook's POST fails because the gateway dies, add it to `unanswered`."""
    try:
        await rig.write(text, gateway.url)
    except Exception:
        if not rig.hooked:
            raise
        unanswered.append(text)


async def what_the_platform_tells_three_times_is_heard_once(rig: Rig, home: Path) -> None:
    """Check that each event is heard once although it is delivered three more times, each time after a restart."""
    async with _start_gateway(rig, home) as (gateway, _):
        words = NumberedTexts("h")
        await gateway.stop()
        start = ledgers.read_cursor(gateway.ledger)
        await gateway.start()
        await gateway.wait_until_online()
        written = words.some(5)
        for text in written:
            await rig.write(text, gateway.url)
        await _expect_heard_once(gateway, words, written)
        for _ in range(REPEAT_COUNT):
            await gateway.stop()
            ready = False if rig.hooked else await rig.again("")
            await gateway.start(cursor=None if ready or rig.hooked else [start])
            await gateway.wait_until_online()
            if rig.hooked:
                await rig.again(gateway.url)
            await _wait_for_repeats(gateway, words, len(written))
            await _expect_heard_once(gateway, words, written)


async def _wait_for_repeats(gateway: GatewayProcess, words: NumberedTexts, expected: int) -> None:
    """Wait until the gateway has recognised as many repeats. Raises ConformanceError if it takes one for new."""

    async def all_came() -> bool:
        await _check_heard_once(gateway, words)
        return int((await gateway.channel_state())["counts"]["duplicate"]) >= expected

    await wait_until(all_came, "the platform's repeats did not come to the inbox")


async def an_outage_leaves_no_gap_though_more_was_missed_than_a_page_holds(rig: Rig, home: Path) -> None:
    """Check that all missed messages are heard once each, even if one page of history cannot hold them.

    People write some during an outage of the network, and some while the gateway is down. The gateway is killed twice
    while it reads the latter.
    """
    async with _start_gateway(rig, home) as (gateway, net):
        words = NumberedTexts("h")
        written = [words.new()]
        await rig.write(written[0], gateway.url)
        await _expect_heard_once(gateway, words, written)
        await net.down()
        missed = words.some(rig.page + 7)
        report_progress(f"the network is down; {len(missed)} messages are written meanwhile")
        for text in missed:
            await rig.write(text, "")
        await net.up()
        report_progress("the network is up; the channel has to find them")
        written += missed
        await _expect_heard_once(gateway, words, written)
        await gateway.wait_until_online()
        gateway.kill()
        await gateway.wait_for_death()
        late = words.some(rig.page + 7)
        report_progress(f"the gateway is killed; {len(late)} messages are written meanwhile")
        for text in late:
            await rig.write(text, "")
        for point in DEATH_POINTS[:2]:
            report_progress(f"the gateway starts, and is killed once it has {point[0]} one of them")
            if await gateway.start(die=point):
                await gateway.wait_for_death()
        report_progress("the gateway starts; the channel has to find the others")
        await gateway.start()
        written += late
        await _expect_heard_once(gateway, words, written)
        written.append(words.new())
        await gateway.wait_until_online()
        await rig.write(written[-1], gateway.url)
        await _expect_heard_once(gateway, words, written)
