"""Where the gateway of a data directory answers, and the token that opens it: files that only the owner can read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

GATEWAY_FILE = "gateway.json"  # {"url", "pid"}, in the data directory while the gateway runs


class NoGateway(Exception):
    """No gateway answers for this data directory. Start one with `semel up`."""

    def __init__(self, data_dir: Path):
        super().__init__(f"no gateway is running on {data_dir}. Start one with: semel up")
        self.data_dir = data_dir


@dataclass(frozen=True)
class Address:
    url: str
    token: str

    @classmethod
    def of(cls, data_dir: Path) -> Address:
        """Where the gateway of a data directory listens. Raises NoGateway where none is, or none any more."""
        try:
            told = json.loads((data_dir / GATEWAY_FILE).read_text(encoding="utf-8"))
            token = (data_dir / "owner.token").read_text(encoding="utf-8").strip()
            return cls(str(told["url"]).rstrip("/"), token)
        except (OSError, ValueError, KeyError, TypeError):
            raise NoGateway(data_dir) from None
