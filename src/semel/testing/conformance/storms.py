"""Kill a sending gateway at random and lose a third of the answers, then compare what people see with the ledger."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from semel.gateway.ports import Safety
from semel.ledger.delivery import placeholders
from semel.testing.conformance import ledgers
from semel.testing.conformance.network import ProxiedNetwork, open_network
from semel.testing.conformance.process import DeathPoint, GatewayProcess, wait_until
from semel.testing.conformance.rig import NumberedTexts, Rig, demand

PLANNED_DEATHS: tuple[tuple[DeathPoint, int], ...] = (("departing", 4), ("answered", 3))
"""Deaths that are not left to chance: when `sending` is durable, and when an answer came but is not yet recorded."""

_NOT_SENT_QUESTION = "Does send raise NotSent for an answer that settles nothing?"
QUESTIONS_IF_TWICE = {
    Safety.AT_MOST_ONCE: _NOT_SENT_QUESTION,
    Safety.IDEMPOTENT: f"Does send pass `op.key` on unchanged? Is `key_life` true? {_NOT_SENT_QUESTION}",
    Safety.RECONCILABLE: "Does send pass `op.key` on unchanged, and does find look for the same? Is `settle` long "
    f"enough? Does find read all pages? {_NOT_SENT_QUESTION}",
}
"""What to ask if people see messages twice: the mistakes that are likely in a channel of this class."""


@dataclass(frozen=True)
class Tally:
    """The counts of one storm. `twice`, `lost` and `disordered` must be 0.

    `attempts`: attempts to send. `dropped`: answers that were lost. `arrived`: held parts that people do see. `stray`:
    placeholders that no text has filled.
    """

    channel: str
    safety: str
    messages: int
    kills: int
    attempts: int
    dropped: int
    twice: int
    lost: int
    disordered: int
    held: int
    arrived: int
    stray: int

    HEAD = (
        "| channel | class | messages | kills | attempts | answers lost | shown twice | lost | out of order | held "
        "| of these arrived | stray … |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    )

    def __str__(self) -> str:
        """Return the counts as a row of the table that HEAD begins."""
        cells = [self.channel, self.safety, self.messages, self.kills, self.attempts, self.dropped]
        cells += [self.twice, self.lost, self.disordered, self.held, self.arrived, self.stray]
        return "| " + " | ".join(map(str, cells)) + " |"


async def storm(
    rig: Rig, home: Path, *, messages: int = 200, kills: int = 8, drops: float = 0.3, seed: int = 7,
    patience: float = 600.0,
) -> Tally:  # fmt: skip
    """Check that no message is lost, shown twice or out of order although gateways are killed and answers are lost.

    Idempotent and reconcilable channels must show each message once. An at-most-once channel must show none twice, and
    hold, with a notice, each message that people may not have seen. `kills`: how often the gateway is killed. `drops`:
    the share of answers that are lost. `seed`: of the random numbers. `patience`: seconds for the last gateway to
    finish. Raises ConformanceError.
    """
    async with rig, open_network(rig) as net, GatewayProcess(home / "gateway", rig) as gateway:
        gateway.configure(net.ports)
        words = NumberedTexts("s")
        all_texts = words.some(messages)
        addresses = list(rig.addresses())
        texts_by_address = {address: all_texts[number :: len(addresses)] for number, address in enumerate(addresses)}
        ledgers.write_messages(gateway.ledger, texts_by_address)
        net.send.drops, net.send.dice = drops, random.Random(seed)
        await _run_lives(gateway, net, messages, kills, random.Random(seed))
        net.send.on_said = lambda: None
        await gateway.start()
        await gateway.wait_until_idle(patience)
        await wait_until(rig.has_posted_all, "the platform still has something to post", patience)
        await gateway.stop()
        ledgers.check_books(gateway.ledger)
        all_shown = {address: await rig.shown(address) for address in texts_by_address}
        shown_by_address = {address: list(words.among(texts)) for address, texts in all_shown.items()}
        stray = sum(text == placeholders.TEXT for texts in all_shown.values() for text in texts)
        tally = _count(rig, gateway, net, texts_by_address, shown_by_address, stray)
    _check_tally(rig, gateway, net, tally, texts_by_address, shown_by_address)
    return tally


async def _run_lives(
    gateway: GatewayProcess, net: ProxiedNetwork, messages: int, kills: int, dice: random.Random
) -> None:
    """Start the gateway and kill it while it sends, `kills` times or until all messages have left."""
    for point in PLANNED_DEATHS[: max(0, kills)]:
        if await gateway.start(die=point):
            await gateway.wait_for_death()
    for life in range(gateway.kills, kills):
        remaining = messages - net.send.said
        _plan_kill(gateway, net, dice.randint(1, max(1, remaining // (kills - life + 1))), dice)
        if await gateway.start():
            await _wait_until_over(gateway)
        if gateway.alive:
            return  # all messages left before the kill could strike


def _plan_kill(gateway: GatewayProcess, net: ProxiedNetwork, count: int, dice: random.Random) -> None:
    """Plan to kill the gateway up to 30 ms after `count` more attempts have passed the proxy."""
    end = net.send.said + count

    def said() -> None:
        if net.send.said == end:
            asyncio.get_running_loop().call_later(dice.uniform(0.0, 0.03), gateway.kill)

    net.send.on_said = said


async def _wait_until_over(gateway: GatewayProcess) -> None:
    """Wait until the gateway is dead or has nothing left to send."""

    async def ended() -> bool:
        return not gateway.alive or await gateway.is_idle()

    await wait_until(ended, "the gateway neither died nor finished", 300.0)
    if not gateway.alive:
        await gateway.wait_for_death()


def _count(
    rig: Rig,
    gateway: GatewayProcess,
    net: ProxiedNetwork,
    texts_by_address: dict[str, list[str]],
    shown_by_address: dict[str, list[str]],
    stray: int,
) -> Tally:
    parts = ledgers.read_parts(gateway.ledger)
    held = {(part.address, part.text) for part in parts if part.state == "held"}
    seen = {(address, text) for address, texts in shown_by_address.items() for text in texts}
    missing = {(address, text) for address, texts in texts_by_address.items() for text in texts} - seen
    return Tally(
        channel=rig.kind,
        safety=rig.safety.value,
        messages=sum(map(len, texts_by_address.values())),
        kills=gateway.kills,
        attempts=net.send.said,
        dropped=net.send.dropped,
        twice=sum(count - 1 for texts in shown_by_address.values() for count in Counter(texts).values()),
        lost=len(missing - held),
        disordered=sum(
            _count_disordered(texts_by_address[address], texts) for address, texts in shown_by_address.items()
        ),
        held=len(held),
        arrived=len(held & seen),
        stray=stray,
    )


def _count_disordered(expected: Sequence[str], shown: Sequence[str]) -> int:
    """Return how many texts are shown directly after one that was said later."""
    places = [expected.index(text) for text in shown if text in expected]
    return sum(later < earlier for earlier, later in pairwise(places))


def _check_tally(
    rig: Rig, gateway: GatewayProcess, net: ProxiedNetwork, tally: Tally, texts_by_address: dict[str, list[str]],
    shown_by_address: dict[str, list[str]],
) -> None:  # fmt: skip
    table = f"{Tally.HEAD}\n{tally}"
    demand(tally.kills > 0 and tally.dropped > 0, f"nothing went wrong, so that nothing is shown by it:\n{table}")
    repeated = [text for texts in shown_by_address.values() for text, count in Counter(texts).items() if count > 1]
    demand(
        tally.twice == 0,
        f"people see some messages twice, such as {repeated[:5]}. {QUESTIONS_IF_TWICE[rig.safety]}:\n{table}",
    )
    demand(tally.lost == 0, f"some messages are neither seen nor held:\n{table}")
    demand(tally.disordered == 0, f"people see messages in another order than they were said:\n{table}")
    states = Counter(part.state for part in ledgers.read_parts(gateway.ledger))
    ends = {"sent", "held"} if rig.safety is Safety.AT_MOST_ONCE else {"sent"}
    demand(set(states) <= ends, f"parts ended as {dict(states)}, and only {sorted(ends)} are ends here:\n{table}")
    held = {part.address for part in ledgers.read_parts(gateway.ledger) if part.state == "held"}
    for number, address in enumerate(texts_by_address):
        if address in held:
            demand(ledgers.read_notices(gateway.ledger, number), f"messages to {address} are held, and nobody was told")
