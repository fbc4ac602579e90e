"""The metrics of a gateway, each declared once: its name, labels and help text.

`GET /metrics`, the table in docs/monitoring.md, and the tests of the dashboard and the alert rules come from `METRICS`.
A name that ends in `_total` is a counter, which starts at 0 with the gateway; every other metric is a gauge.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from semel import __version__
from semel.ledger.storage.cluster import ClusterGateway
from semel.ledger.storage.store import LedgerStore


class Metric(NamedTuple):
    """A metric. `help`: what it measures, in one phrase. `labels`: the names of its labels."""

    help: str
    labels: tuple[str, ...] = ()


METRICS = {
    "semel_build_info": Metric("1; the label is the version of Semel", ("version",)),
    "semel_uptime_seconds": Metric("Seconds since the start"),
    "semel_ready": Metric("1 while the gateway accepts messages: its ledger takes writes, and it is not stopping"),
    "semel_turns_running": Metric("Turns that run"),
    "semel_turns_total": Metric("Turns that ended, by outcome: done, failed, cancelled", ("agent", "outcome")),
    "semel_agents_live": Metric("Agent processes that are alive"),
    "semel_agent_errors_total": Metric(
        "Attempts of turns that an agent failed, also if a retry succeeded. error: start (the agent could not be "
        "started), lost (it died or fell silent), answer (it answered with an error)",
        ("agent", "error"),
    ),
    "semel_watchers": Metric("Open streams"),
    "semel_jobs_open": Metric("Background jobs that are not over"),
    "semel_channel_online": Metric(
        "1 while the channel is connected, else 0; of a webhook, while attempts to send are answered", ("channel",)
    ),
    "semel_channel_events_total": Metric(
        "Incoming events, by outcome: accepted, duplicate, conflict, quarantined", ("channel", "outcome")
    ),
    "semel_refused_total": Metric("Refused input, by reason; it leaves no row", ("channel", "reason")),
    "semel_strangers_total": Metric("Tool calls with an unknown token, which leave no row"),
    "semel_parts_queued": Metric("Parts that wait to be sent"),
    "semel_parts_sending": Metric("Parts that are being sent"),
    "semel_parts_unknown": Metric("Parts that were sent without an answer, and are not settled yet"),
    "semel_parts_held": Metric("Parts that wait for a person's decision"),
    "semel_parts_rejected_total": Metric("Parts that the platform rejected", ("channel",)),
    "semel_parts_failed_total": Metric("Parts that were sent and failed later", ("channel",)),
    "semel_attempts_total": Metric(
        "Attempts to send (receipt, not sent, refused, silence) and look-ups (found, absent, cannot tell, hold), by "
        "outcome",
        ("channel", "outcome"),
    ),
    "semel_books_broken": Metric("Laws that the last check of the books found broken; absent before the first check"),
    "semel_books_checked_timestamp_seconds": Metric(
        "When the last check of the books began, in seconds since 1970; absent before the first check"
    ),
    "semel_ledger_bytes": Metric("Size of the ledger, in bytes: its file with the write-ahead log, or its database"),
    "semel_ledger_commits_total": Metric("Durable commits to the ledger"),
    "semel_ledger_failures_total": Metric("Commits that the disk refused; nothing in them was accepted"),
    "semel_database_retries_total": Metric("Transactions that met another one and ran again; only in a database"),
    "semel_database_lost_connections_total": Metric(
        "Commits whose answer was lost, so that the server was asked what became of them; only in a database"
    ),
    "semel_cluster_gateways": Metric(
        "Gateways that share the ledger: active, serving, waiting; only in a cluster", ("state",)
    ),
    "semel_disk_free_bytes": Metric("Free bytes on the data directory's disk, for the gateway's user"),
    "semel_disk_bytes": Metric("Size of the data directory's disk, in bytes"),
}


def metric_name(key: str) -> str:
    """Return the name part of a key such as `name{label="value"}`."""
    return key.partition("{")[0]


def metric_type(name: str) -> str:
    return "counter" if name.endswith("_total") else "gauge"


def measure_storage(store: LedgerStore, data_dir: Path) -> dict[str, float]:
    """Return the metrics of the ledger and its disk. This asks the file system, so call it in a thread."""
    statistics, disk = store.statistics(), shutil.disk_usage(data_dir)
    return {
        f'semel_build_info{{version="{__version__}"}}': 1.0,
        "semel_ledger_bytes": float(store.measure().ledger),
        "semel_ledger_commits_total": float(statistics["commits"]),
        "semel_ledger_failures_total": float(statistics["failures"]),
        **{
            f"semel_database_{name}_total": float(statistics[name])
            for name in ("retries", "lost_connections")
            if store.file is None
        },
        "semel_disk_free_bytes": float(disk.free),
        "semel_disk_bytes": float(disk.total),
    }


def count_gateways(gateways: Iterable[ClusterGateway]) -> dict[str, float]:
    """Return the metrics of the gateways of a cluster that live."""
    counts = Counter(
        "active" if gateway.is_active else "serving" if gateway.serves else "waiting" for gateway in gateways
    )
    states = ("active", "serving", "waiting")
    return {f'semel_cluster_gateways{{state="{state}"}}': float(counts[state]) for state in states}
