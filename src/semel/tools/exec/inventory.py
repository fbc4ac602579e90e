"""List the runs that the spools hold, for people, and drop those that nobody wants to be reported any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from semel.text.json_types import text_at, value_at
from semel.tools.exec.spool import FINISHED, LOST, Spool, SpooledRun, remove_run

RunState = Literal["running", "sending", "waiting", "lost"]


@dataclass(frozen=True)
class RunRow:
    """One run in a spool.

    - `state`: "running", or "sending" while its `semel exec` waits for the gateway; without one, "waiting" if the
      report of its end is written, else "lost" (its reporter was killed; the next one says so to the session).
    - `at`, `ended`: when it began and ended, in ms since the epoch; `ended` is None if that is not known.
    - `to`: where it reports: a URL, or the data directory of a gateway on this machine.
    """

    run: str
    node: str
    state: RunState
    at: int
    ended: int | None
    session: str
    to: str
    command: list[str]

    @property
    def is_left(self) -> bool:
        """Whether no process sends its reports at present."""
        return self.state in ("waiting", "lost")


def list_runs(spools: Sequence[Spool]) -> list[RunRow]:
    """Return the runs in these spools, in the order they began. Unreadable ones go into `spool.damaged`.

    Raises OSError, including UntrustedFile.
    """
    rows = [_describe_run(run, is_held) for spool in spools for run, is_held in spool.look_over()]
    return sorted(rows, key=lambda row: row.at)


def drop_runs(spools: Sequence[Spool], ids: Sequence[str]) -> list[str]:
    """Remove runs with their reports, which are then never sent. Returns the ids of those that were not dropped.

    These are not in the spools, or a living process reports them. Raises OSError, including UntrustedFile.
    """
    dropped = set()
    for spool in spools:
        for run in spool.orphans():
            if run.id in ids:
                remove_run(run.folder)
                dropped.add(run.id)
            run.close()
    return [id for id in ids if id not in dropped]


def _describe_run(run: SpooledRun, is_held: bool) -> RunRow:
    state: RunState = ("sending" if is_held else "waiting") if run.is_over else ("running" if is_held else "lost")
    end = next((report.body for report in run.reports if report.kind in (FINISHED, LOST)), None)
    return RunRow(
        run=run.id,
        node=str(run.info["node"]),
        state=state,
        at=round(float(run.info["at"]) * 1000),
        ended=value_at(end, "data", "ended"),
        session=str(run.info["session"]),
        to=text_at(run.info, "to", "url") or text_at(run.info, "to", "data_dir") or "",
        command=[str(word) for word in run.info["command"]],
    )
