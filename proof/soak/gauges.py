"""Memory, descriptors, processes and CPU over time, and whether they stay flat."""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proof.soak.plan import LIVE
from proof.soak.world import World

EVERY = 2.0
"""Seconds between two looks."""
WARM_LIVES = 3
"""Lives of the gateway that are warm-up."""
WARM, WARM_SECONDS = 0.4, 20.0
"""The share of the stretch without kills that is warm-up, and how long that is at least."""
MOST_DRIFT = 0.05
"""Of memory, from the first to the last third of what is not warm-up."""
LOOSE_DRIFT, LOOSE = 0.15, 12
"""Of descriptors and processes, whose number hangs on how many agents live: a share, or so many of them."""
FEWEST = 6
"""Looks from which a drift can be told at all."""


@dataclass(frozen=True)
class Look:
    """One look at the gateway. `life`: which start of it, from 0; `age`: seconds since that; `rss` in MB; `cpu`: what
    that life used so far, in seconds."""

    life: int
    age: float
    rss: float
    descriptors: int
    processes: int
    agents: int  # of the processes
    cpu: float
    ledger: int  # bytes of the ledger and its log


@dataclass
class Gauges:
    """`looks`, by the life in which they were made; `eves`: the last one before each kill, at like ages."""

    world: World
    looks: list[Look] = field(default_factory=list)
    eves: list[Look] = field(default_factory=list)
    busy: float = 0.0  # the share of the machine's CPUs that was used, by anybody, since the beginning
    _first: tuple[float, float] = field(default_factory=lambda: machine())

    def look(self) -> Look:
        """Raises OSError where the gateway is dead."""
        found = self.world.processes()
        made = Look(
            life=self.world.kills,
            age=time.monotonic() - self.world.since,
            rss=self.world.rss(),
            descriptors=self.world.descriptors(),
            processes=len(found),
            agents=sum(one.what == "agent" for one in found),
            cpu=self.world.cpu(),
            ledger=size(self.world.ledger),
        )
        self.looks.append(made)
        used, all_ = (now - then for now, then in zip(machine(), self._first, strict=True))
        self.busy = used / all_ if all_ else 0.0
        return made

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            with contextlib.suppress(OSError):
                self.look()
            await asyncio.sleep(EVERY)

    def eve(self) -> None:
        """The gateway is about to be killed."""
        self.eves.append(self.look())

    @property
    def calm(self) -> list[Look]:
        """The last life, without its warm-up."""
        last = [one for one in self.looks if one.life == self.looks[-1].life]
        warm = max(WARM_SECONDS, WARM * last[-1].age)
        return [one for one in last if one.age > warm]


def machine() -> tuple[float, float]:
    """(used, all) ticks of all CPUs since the machine started (proc(5), /proc/stat)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def size(ledger: Path) -> int:
    found = 0
    for path in (ledger, Path(f"{ledger}-wal")):
        with contextlib.suppress(OSError):
            found += path.stat().st_size
    return found


def drift(values: Sequence[float]) -> float:
    """By which share the median of the last third is above that of the first; 0.0 where there are too few."""
    if len(values) < FEWEST:
        return 0.0
    third = len(values) // 3
    before, after = statistics.median(values[:third]), statistics.median(values[-third:])
    return (after - before) / before if before else 0.0


def flatness(gauges: Gauges) -> tuple[dict[str, float], list[str]]:
    """(how much each rises, by name; what rises too much). A new life begins without descriptors and processes of the
    last one: of the lives memory is compared; and never are there more agents than may live at once."""
    drifts, broken = {}, []
    for where, whats, looks in (
        ("over the lives", ("rss",), gauges.eves[WARM_LIVES:]),
        ("in one life", ("rss", "descriptors", "processes"), gauges.calm),
    ):
        for what in whats:
            values = [float(getattr(one, what)) for one in looks]
            drifts[f"{what} {where}"] = up = drift(values)
            if up > MOST_DRIFT and (what == "rss" or (up > LOOSE_DRIFT and max(values) - min(values) > LOOSE)):
                told = ", ".join(f"{one:.0f}" for one in values)
                broken.append(f"{what} {where} is not flat: {up:+.1%} from the first third to the last: {told}")
    if (most := max((one.agents for one in gauges.looks), default=0)) > LIVE:
        broken.append(f"there were {most} agents at once, and {LIVE} may live")
    return drifts, broken


def load() -> str:
    """The load of the machine, of which others may have their share: 1, 5 and 15 minutes."""
    return " ".join(f"{one:.1f}" for one in os.getloadavg())
