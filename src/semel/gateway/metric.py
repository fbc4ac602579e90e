"""Names of Prometheus metrics with labels."""

from __future__ import annotations


def format_labelled_metric(metric: str, **labels: str) -> str:
    """`metric{name="value",...}`. Values are not escaped: names of channels and reasons are plain words."""
    return metric + "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
