"""The control of a double in another process."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any


class TelegramControl:
    """Calls the double's methods by name: `control.call("write", chat=7, text="hello")`. It blocks."""

    def __init__(self, url: str) -> None:
        """`url`: where the double listens, such as "http://127.0.0.1:8081"."""
        self.url = url.rstrip("/")

    def __repr__(self) -> str:
        return f"<TelegramControl {self.url}>"

    def call(self, name: str, /, **arguments: Any) -> Any:
        """What the double's method returns. Bytes are sent as they are. Raises ValueError for a wrong call."""
        plain = {
            key: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
            for key, value in arguments.items()
        }
        request = urllib.request.Request(f"{self.url}/control/{name}", json.dumps(plain).encode(), method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=20) as answer:
                return json.load(answer)["result"]
        except urllib.error.HTTPError as bad:
            with bad:
                raise ValueError(json.load(bad)["error"]) from None
