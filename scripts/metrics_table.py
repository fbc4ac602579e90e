"""Write the table of docs/monitoring.md from the declarations of the metrics: `make settings`."""

from __future__ import annotations

import re
from pathlib import Path

from semel.gateway.metrics import METRICS, metric_type

PAGE = Path(__file__).parent.parent / "docs" / "monitoring.md"
TABLE = re.compile(r"^\| metric \|.*\n(?:\|.*\n)+", re.M)


def write_table(page: str) -> str:
    """Return the page with its table of metrics written anew."""
    lines = ["| metric | type | what it measures |", "|---|---|---|"]
    for name, metric in METRICS.items():
        labels = f"{{{','.join(metric.labels)}}}" if metric.labels else ""
        lines.append(f"| `{name}{labels}` | {metric_type(name)} | {metric.help} |")
    return TABLE.sub(lambda _: "\n".join(lines) + "\n", page)


if __name__ == "__main__":
    PAGE.write_text(write_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
