"""Random SIGKILLs of the gateway while it sends, a third of the answers lost: then the platform's own log decides."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from semel.gateway.ports import Safety
from semel.testing.conformance import ledgers
from semel.testing.conformance.front import Network, network
from semel.testing.conformance.process import GatewayProcess, Point, until
from semel.testing.conformance.rig import Rig, demand
from semel.testing.conformance.words import Words

CHOSEN: tuple[tuple[Point, int], ...] = (("departing", 4), ("answered", 3))
"""Deaths that are not left to chance: `sending` durable and nothing left; answered and no receipt recorded."""


@dataclass(frozen=True)
class Tally:
    """What came of one storm. `twice`, `lost` and `disordered` must be 0; `arrived`: held, and people see it."""

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

    HEAD = (
        "| channel | class | messages | kills | attempts | answers lost | shown twice | lost | out of order | held "
        "| of these arrived |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )

    def __str__(self) -> str:
        """A row of the table."""
        cells = [self.channel, self.safety, self.messages, self.kills, self.attempts, self.dropped]
        cells += [self.twice, self.lost, self.disordered, self.held, self.arrived]
        return "| " + " | ".join(map(str, cells)) + " |"


async def storm(
    rig: Rig, home: Path, *, messages: int = 200, kills: int = 8, drops: float = 0.3, seed: int = 7,
    patience: float = 600.0,
) -> Tally:  # fmt: skip
    """Order at each address is kept. Idempotent and reconcilable: once each. At most once: never twice, and whatever
    people may not have seen is held, where a person is told of it."""
    async with rig, network(rig) as net, GatewayProcess(home / "gateway", rig) as gateway:
        gateway.configure(net.ports)
        words = Words("s")
        said = words.some(messages)
        addresses = list(rig.addresses())
        wanted = {address: said[number :: len(addresses)] for number, address in enumerate(addresses)}
        ledgers.fill(gateway.ledger, wanted)
        net.send.drops, net.send.dice = drops, random.Random(seed)
        await _lives(gateway, net, messages, kills, random.Random(seed))
        net.send.on_said = lambda: None
        await gateway.start()
        await gateway.settled(patience)
        await gateway.stop()
        ledgers.balanced(gateway.ledger)
        shown = {address: list(words.among(await rig.shown(address))) for address in wanted}
        tally = _tally(rig, gateway, net, wanted, shown)
    _judge(rig, gateway, net, tally, wanted, shown)
    return tally


async def _lives(gateway: GatewayProcess, net: Network, messages: int, kills: int, dice: random.Random) -> None:
    """The gateway starts and is killed, so many times, each time while something leaves."""
    for point in CHOSEN[: max(0, kills)]:
        if await gateway.start(die=point):
            await gateway.died()
    for life in range(gateway.kills, kills):
        left = messages - net.send.said
        _kill_after(gateway, net, dice.randint(1, max(1, left // (kills - life + 1))), dice)
        if await gateway.start():
            await _over(gateway)
        if gateway.alive:
            return  # all of it left before the kill could strike


def _kill_after(gateway: GatewayProcess, net: Network, count: int, dice: random.Random) -> None:
    """SIGKILL some milliseconds after the so-manieth attempt from now on passed the proxy."""
    end = net.send.said + count

    def said() -> None:
        if net.send.said == end:
            asyncio.get_running_loop().call_later(dice.uniform(0.0, 0.03), gateway.kill)

    net.send.on_said = said


async def _over(gateway: GatewayProcess) -> None:
    """Until it is dead, or has nothing left to send."""

    async def ended() -> bool:
        return not gateway.alive or await gateway.idle()

    await until(ended, "the gateway neither died nor finished", 300.0)
    if not gateway.alive:
        await gateway.died()


def _tally(
    rig: Rig, gateway: GatewayProcess, net: Network, wanted: dict[str, list[str]], shown: dict[str, list[str]]
) -> Tally:
    parts = ledgers.outcome(gateway.ledger)
    held = {(part.address, part.text) for part in parts if part.state == "held"}
    seen = {(address, text) for address, texts in shown.items() for text in texts}
    missing = {(address, text) for address, texts in wanted.items() for text in texts} - seen
    return Tally(
        channel=rig.kind,
        safety=rig.safety.value,
        messages=sum(map(len, wanted.values())),
        kills=gateway.kills,
        attempts=net.send.said,
        dropped=net.send.dropped,
        twice=sum(count - 1 for texts in shown.values() for count in Counter(texts).values()),
        lost=len(missing - held),
        disordered=sum(_disorder(wanted[address], texts) for address, texts in shown.items()),
        held=len(held),
        arrived=len(held & seen),
    )


def _disorder(wanted: Sequence[str], texts: Sequence[str]) -> int:
    """How many texts stand behind one that was said after them."""
    places = [wanted.index(text) for text in texts if text in wanted]
    return sum(later < earlier for earlier, later in pairwise(places))


def _judge(
    rig: Rig, gateway: GatewayProcess, net: Network, tally: Tally, wanted: dict[str, list[str]],
    shown: dict[str, list[str]],
) -> None:  # fmt: skip
    told = f"{Tally.HEAD}\n{tally}"
    demand(tally.kills > 0 and tally.dropped > 0, f"nothing went wrong, so that nothing is shown by it:\n{told}")
    repeated = [text for texts in shown.values() for text, count in Counter(texts).items() if count > 1]
    demand(tally.twice == 0, f"people see some messages twice, such as {repeated[:5]}:\n{told}")
    demand(tally.lost == 0, f"some messages are neither seen nor held:\n{told}")
    demand(tally.disordered == 0, f"people see messages in another order than they were said:\n{told}")
    states = Counter(part.state for part in ledgers.outcome(gateway.ledger))
    ends = {"sent", "held"} if rig.safety is Safety.AT_MOST_ONCE else {"sent"}
    demand(set(states) <= ends, f"parts ended as {dict(states)}, and only {sorted(ends)} are ends here:\n{told}")
    held = {part.address for part in ledgers.outcome(gateway.ledger) if part.state == "held"}
    for number, address in enumerate(wanted):
        if address in held:
            demand(ledgers.notices(gateway.ledger, number), f"messages to {address} are held, and nobody was told")
