"""The sample package is as good as installed, and what the storms came to is told at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from real_servers import inspircd, mail_server, ngircd, prosody, synapse  # noqa: F401
from rig_pigeon import PLUGIN

import semel.channels
from semel.testing.conformance import Tally


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(PLUGIN)
    semel.channels.kinds.cache_clear()
    yield
    semel.channels.kinds.cache_clear()


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[Tally], None]:
    """What a storm came to: a row of the table."""
    return lambda tally: request.node.user_properties.append(("storm", str(tally)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get("passed", [])
    rows = [value for report in reports for name, value in getattr(report, "user_properties", ()) if name == "storm"]
    if rows:
        terminalreporter.section("storms")
        terminalreporter.write_line("\n".join([Tally.HEAD, *rows]))
