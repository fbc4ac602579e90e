"""Law 11 under a machine: what a message costs the ledger does not grow with what happened before.

A cost is a number of steps of SQLite's virtual machine in all transactions of one message, from hearing it to the
receipt of what left: it is the same on every machine, however busy. It is held against what the same message cost
when the ledger was young.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from proof.machines.counted import Counted
from proof.machines.house import HOMES
from proof.machines.model import Model
from proof.machines.stored import StoredLedger
from semel.acp_stream import Began, Ended
from semel.ledger.sqlite.store import Store

YOUNG = 3
"""Messages of each shape by which a young ledger's cost is known."""
MOST = 1.1
"""Times that cost that a message may cost later; a search in a tree that grew takes no more steps, a scan does."""
KEYS = sorted(HOMES)
TOOLS = (0, 2)


class CountingLedger(StoredLedger):
    """Counts the steps of its transactions, not those of an auditor."""

    def __init__(self, clock: Callable[[], int], store: Store | None = None) -> None:
        super().__init__(clock, store)
        self.steps = 0
        self._writing = False
        assert self.store._committer is not None
        self.store._committer._db.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)

    def _commit(self, body: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        self._writing = True
        try:
            return super()._commit(body, args)
        finally:
            self._writing = False

    def _count(self, told: dict[str, Any]) -> None:
        if self._writing:
            self.steps += told["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


class CostMachine(Counted):
    """One life of a ledger that grows old."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(CountingLedger)
        self.young: dict[tuple[str, int], int] = {}
        self.said = 0

    def teardown(self) -> None:
        self.model.ledger.close()

    @initialize()
    def is_young(self) -> None:
        for key in KEYS:
            self._message(key, 0)  # its session is made, its agent started
        for key in KEYS:
            for tools in TOOLS:
                self.young[key, tools] = max(self._message(key, tools) for _ in range(YOUNG))

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=5), many=st.integers(1, 12))
    def grows_old(self, keys: Sequence[str], many: int) -> None:
        for key in list(keys) * many:
            self._message(key, 0)

    @rule(key=st.sampled_from(KEYS), tools=st.sampled_from(TOOLS))
    def is_asked(self, key: str, tools: int) -> None:
        self._message(key, 0)  # it is told what was said at its home meanwhile, which is work of that
        cost, young = self._message(key, tools), self.young[key, tools]
        assert cost <= MOST * young, (
            f"message {self.said} costs {cost} steps, and one to {key!r} with {tools} tool calls cost {young}"
        )

    def _message(self, key: str, tools: int) -> int:
        """One message from its hearing to the receipts of its answer; what it cost."""
        model, ledger = self.model, self.model.ledger
        assert isinstance(ledger, CountingLedger)
        before = ledger.steps
        self.said += 1
        model.house.now += 20_000
        model.hear("api", f"m{self.said}", f"question {self.said:6}", [key], True)
        model.house.now += 20_000
        model.begin(key)
        run = model.runs[key]
        for n in range(tools):
            call = {"title": "t", "status": "running", "call": f"T{n}", "input": {"n": n}}
            slot = run.fresh()
            model.take(run, Began(slot, "tool", {**call, "text": "output\n" * 3}), now=True)
            model.call(run.process, f"{self.said}.{n}", "c", None, "text", f"sent {self.said:6} {n}", "post")
            model.take(run, Ended(slot, {"status": "done", "exit": 0}), now=True)
        slot = run.fresh()
        answer = {"role": "agent", "text": f"answer {self.said:6}"}
        model.take(run, Began(slot, "message", answer), Ended(slot, {}), now=True)
        model.finish(run, "answered")
        while True:
            model.depart(4)
            if not model.sent:  # all of it has left
                return ledger.steps - before
            for one in model.sent:
                model.settle(one, "receipt")
            model.sent.clear()
