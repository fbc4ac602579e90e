"""How a metric with labels is called (Prometheus)."""

from __future__ import annotations


def labelled(metric: str, **labels: str) -> str:
    """Names of channels and reasons are plain words: nothing needs to be escaped."""
    return metric + "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
