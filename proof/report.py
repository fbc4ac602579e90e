"""What a part of the proof found, and how it is printed."""

from __future__ import annotations

from dataclasses import dataclass, field

Count = int | float | str


@dataclass
class Proof:
    """One part's outcome. `violations`: one line each, what broke and the command that replays it.

    `missing`: why the part could not be run here (a compiler is not installed ...); what was not run proves nothing.
    `work`: the count of what was done; where it is 0, nothing was.
    """

    part: str
    counts: dict[str, Count] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    missing: str | None = None
    work: str = ""

    @property
    def holds(self) -> bool:
        return not self.violations and not self.not_run

    @property
    def not_run(self) -> str | None:
        """Why nothing was proven."""
        idle = self.work and not self.counts.get(self.work) and not self.violations
        return self.missing or (f"0 {self.work}: nothing was proven" if idle else None)


def told(proof: Proof, seconds: float) -> str:
    """The lines that a person reads."""
    if proof.not_run:
        return f"{proof.part:<10} NOT RUN: {proof.not_run}"
    counts = ", ".join(f"{_figure(value)} {name}" for name, value in proof.counts.items())
    lines = [f"{proof.part:<10} {counts}; {len(proof.violations)} violations; {seconds:.0f} s"]
    return "\n".join(lines + [f"  ! {one}" for one in proof.violations[:20]])


def _figure(value: Count) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else value
