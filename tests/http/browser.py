"""A browser for tests: Chromium through chromedriver, spoken to in the W3C WebDriver protocol."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

T = TypeVar("T")

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # W3C WebDriver, section 12.2
KEYS = {
    "enter": "\ue007", "shift": "\ue008", "down": "\ue015", "up": "\ue013", "escape": "\ue00c", "right": "\ue014",
    "alt": "\ue00a", "control": "\ue009", "tab": "\ue004", "backspace": "\ue003",
}  # fmt: skip
FLAGS = (
    *(
        "--headless=new",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-proxy-server"),
    "--accept-lang=en-US",  # else the page would speak as the machine does
    "--disable-features=BackForwardCache",  # pages that were left would stay alive, and cost more than the one shown
    # Each test has a page on a port of its own: a process for each takes longer to start than the page to load.
    *("--process-per-site", "--disable-site-isolation-trials", "--in-process-gpu"),
)


def missing() -> str | None:
    """Why there is no browser here, or None."""
    for name in ("chromium", "chromedriver"):
        if shutil.which(name) is None:
            return f"{name} is not installed (Debian: apt-get install chromium chromium-driver)"
    return None


def _driver() -> tuple[subprocess.Popen[str], str]:
    """chromedriver and its port. It takes one for IPv4 and wants the same for IPv6, which somebody may have: again."""
    for _ in range(5):
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert driver.stdout is not None
        for line in driver.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                return driver, found[1]
        driver.wait()
        driver.stdout.close()
    raise RuntimeError("chromedriver ended five times as it began")


class Browser:
    """One window. Every wait has a bound; nothing sleeps for longer than a look."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 800, dark: bool = False):
        self._driver, port = _driver()
        self._http = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False)
        self._session = ""
        flags = [*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        flags += ["--no-sandbox"] if os.geteuid() == 0 else []
        flags += ["--force-dark-mode"] if dark else []
        options: dict[str, Any] = {"args": flags, "binary": shutil.which("chromium")}
        if width < 500:
            metrics = {"width": width, "height": height, "pixelRatio": 2.0, "touch": True}
            options["mobileEmulation"] = {"deviceMetrics": metrics}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options}
        wanted["goog:loggingPrefs"] = {"browser": "ALL"}
        made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self._http.close()
            self._driver.terminate()
            self._driver.wait(20)
            assert self._driver.stdout is not None
            self._driver.stdout.close()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._http.request(
            method, self._session + path, json=({} if body is None else body) if method == "POST" else None
        )
        value = answer.json()["value"]
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{value['error']}: {value['message'].splitlines()[0]}")
        return value

    # ------------------------------------------------------------ doing

    def go(self, url: str) -> None:
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str, *args: Any) -> Any:
        """Runs `return <script>` in the page, with `arguments`."""
        return self._ask("POST", "/execute/sync", {"script": f"return {script}", "args": list(args)})

    def _find(self, css: str) -> str:
        return str(self._ask("POST", "/element", {"using": "css selector", "value": css})[ELEMENT])

    def click(self, css: str) -> None:
        self.until(lambda: self.run("!!document.querySelector(arguments[0])", css), css)
        self._ask("POST", f"/element/{self._find(css)}/click")

    def type(self, css: str, text: str) -> None:
        self._ask("POST", f"/element/{self._find(css)}/value", {"text": text})

    def press(self, *keys: str, times: int = 1) -> None:
        """Press keys together, wherever the focus is: names of KEYS, or signs."""
        values = [KEYS.get(key, key) for key in keys]
        actions = [{"type": "keyDown", "value": value} for value in values]
        actions += [{"type": "keyUp", "value": value} for value in reversed(values)]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions * times}]})

    def offline(self, yes: bool) -> None:
        """Cuts the page's network, or mends it (a chromedriver extension)."""
        conditions = {"offline": yes, "latency": 0, "download_throughput": -1, "upload_throughput": -1}
        self._ask("POST", "/chromium/network_conditions", {"network_conditions": conditions})

    @contextlib.contextmanager
    def slow_line(self, latency_ms: int, bytes_per_s: int) -> Iterator[None]:
        """As over a line with this latency and throughput, both ways (a chromedriver extension)."""
        slow = {
            "offline": False,
            "latency": latency_ms,
            "download_throughput": bytes_per_s,
            "upload_throughput": bytes_per_s,
        }
        self._ask("POST", "/chromium/network_conditions", {"network_conditions": slow})
        try:
            yield
        finally:
            self.offline(False)

    def metrics(self) -> dict[str, float]:
        """What the page has cost so far, such as ScriptDuration: seconds of CPU."""
        self.command("Performance.enable", timeDomain="threadTicks")
        found = self.command("Performance.getMetrics")["metrics"]
        return {str(one["name"]): float(one["value"]) for one in found}

    def settle(self) -> None:
        """Waits until the page has painted what it has to."""
        self.run("void (window.painted = 0)")
        step = "requestAnimationFrame(() => { window.painted += 1; if (window.painted < 4) step(); })"
        self.run(f"void (() => {{ const step = () => {step}; step(); }})()")
        self.until(lambda: self.run("window.painted") == 4, "painted")

    @contextlib.contextmanager
    def looks(self, width: int = 0, height: int = 0, dark: bool = False, touch: bool = False) -> Iterator[None]:
        """As a window of this size (CSS pixels; 0: as it is), light or dark, with a mouse or a finger, and still."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.command("Emulation.setEmulatedMedia", features=[scheme, still])
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=0, mobile=touch
        )
        self.command("Emulation.setTouchEmulationEnabled", enabled=touch)
        try:
            yield
        finally:
            self.command("Emulation.setTouchEmulationEnabled", enabled=False)
            self.command("Emulation.clearDeviceMetricsOverride")
            self.command("Emulation.setEmulatedMedia", features=[])

    def allow(self, permission: str, state: str) -> None:
        """Answers a question of the browser before it is asked: "granted", "denied" or "prompt" (W3C Permissions)."""
        self._ask("POST", "/permissions", {"descriptor": {"name": permission}, "state": state})

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """As a window that nobody sees: it is minimised."""
        size = self._ask("GET", "/window/rect")
        self._ask("POST", "/window/minimize")
        try:
            yield
        finally:
            self._ask("POST", "/window/rect", size)

    @contextlib.contextmanager
    def speaks(self, language: str) -> Iterator[None]:
        """As a browser whose owner prefers this language, for pages that are loaded from now on."""
        agent = self.run("navigator.userAgent")
        self.command("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage=language)
        try:
            yield
        finally:
            self.command("Emulation.setUserAgentOverride", userAgent=agent, acceptLanguage="en-US")

    def forget_cache(self) -> None:
        """Empties the browser's cache."""
        self.command("Network.clearBrowserCache")

    def shot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    @contextlib.contextmanager
    def without_scripts(self) -> Iterator[None]:
        """As a browser in which scripts are switched off."""
        self.command("Emulation.setScriptExecutionDisabled", value=True)
        try:
            yield
        finally:
            self.command("Emulation.setScriptExecutionDisabled", value=False)

    def command(self, name: str, **params: Any) -> Any:
        """Sends a command of the Chrome DevTools Protocol (a chromedriver extension)."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": name, "params": params})

    # ------------------------------------------------------------ looking

    def role(self, css: str) -> str:
        """The role of the first match for screen readers (W3C WebDriver, section 12.4.10)."""
        return str(self._ask("GET", f"/element/{self._find(css)}/computedrole"))

    def element_at(self, x: int, y: int) -> str:
        """The tag of the element that lies at a place of the window, also if the page runs no scripts."""
        node = self.command("DOM.getNodeForLocation", x=x, y=y)["backendNodeId"]
        return str(self.command("DOM.describeNode", backendNodeId=node)["node"]["localName"])

    def text(self, css: str) -> str | None:
        """What the first match shows; None where there is none."""
        return self.run("document.querySelector(arguments[0])?.innerText ?? null", css)  # type: ignore[no-any-return]

    def texts(self, css: str) -> list[str]:
        script = (
            "[...document.querySelectorAll(arguments[0])].filter((n) => n.checkVisibility()).map((n) => n.innerText)"
        )
        return [str(text) for text in self.run(script, css)]

    def errors(self) -> list[str]:
        """What the page complained about since the last time this was asked."""
        found = self._ask("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in found if entry["level"] == "SEVERE"]

    def until(self, look: Callable[[], T], what: str = "", seconds: float = 20.0) -> T:
        """The first true value of `look`. Fails with what the page shows."""
        end = time.monotonic() + seconds
        while not (found := look()):
            if time.monotonic() > end:
                raise AssertionError(f"never came: {what}; the page shows: {self.text('body')}")
            time.sleep(0.02)
        return found
