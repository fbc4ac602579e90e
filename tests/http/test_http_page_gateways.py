"""The page's dialog of the gateways of a cluster: who lives, who is silent, and which sessions wait."""

from __future__ import annotations

from typing import Any

import browser
import pytest
from browser import Browser
from live_house import LiveHouse, shows, visit

from semel.ledger.transcript import views

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

STARTED = 1_760_000_000_000  # in ms


def gateway(name: str, silent_s: float = 1.0, **fields: Any) -> dict[str, Any]:
    return {
        "name": name, "address": f"https://{name}.example.org", "host": name, "version": "0.2.0",
        "is_active": False, "joined": STARTED, "seen": STARTED, "serves": True, "agents": 1, "room": 4,
        "silent_s": silent_s, **fields,
    }  # fmt: skip


def tell_gateways(
    live: LiveHouse, monkeypatch: pytest.MonkeyPatch, *gateways: dict[str, Any], **gone: list[str]
) -> None:
    missing = [
        {"gateway": name, "sessions": len(keys) + 2, "newest": keys, "text": "..."} for name, keys in gone.items()
    ]

    async def answer() -> dict[str, Any]:
        return {"gateways": list(gateways), "missing_gateways": missing}

    monkeypatch.setattr(live.gateway, "gateways", answer)


def test_the_gateways_of_a_cluster_are_listed_and_a_silent_one_says_what_follows(
    page: Browser, live: LiveHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = gateway("alpha", is_active=True, agents=3)
    waiting = gateway("gamma", serves=False, address=None)
    tell_gateways(live, monkeypatch, active, gateway("beta"), waiting)
    visit(page, live)
    page.until(lambda: page.run("!document.querySelector('#gateways-button').hidden"), "the dialog's button")
    page.click("#gateways-button")
    shows(page, "#gateways-living .name", "alpha", "beta", "gamma")
    shows(page, "#gateways-living .account", "https://alpha.example.org", "https://beta.example.org", "gamma")
    does = page.texts("#gateways-living p:first-child small")
    assert does == ["active · 3 of 4 agents run", "serves, too · 1 of 4 agents run", "waits to take over"]
    assert page.run(
        "document.querySelector('#gateways-told').hidden && document.querySelector('#gateways-gone').hidden"
    )
    tell_gateways(live, monkeypatch, active | {"silent_s": 7.0}, gateway("beta"), waiting, delta=["s", "other"])
    page.until(lambda: page.texts("#gateways-living .why"), "it is silent")
    (why,) = page.texts("#gateways-living .why")
    assert why.endswith("it hangs, or is cut off. Unless it goes on, one of beta, gamma takes over in 3 s.")
    told = (page.text("#gateways-told") or "").split("\n")
    assert told[0].startswith("alpha is silent since") and told[1] == "4 sessions wait for delta, which is gone"
    assert page.texts("#gateways-missing p.links") == ["s\nother\nand 2 more"]
    page.click("#gateways-missing a")
    page.until(lambda: page.run("location.hash") == "#/s/s", "the session")
    assert not page.run("!!document.querySelector('#gateways')")


def test_a_page_without_a_cluster_has_no_such_dialog_and_asks_once(page: Browser, live: LiveHouse) -> None:
    visit(page, live)
    page.run("document.dispatchEvent(new Event('visibilitychange'))")
    asked = "performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/v1/gateways')).length"
    page.until(lambda: page.run(asked), "it asks")
    assert page.run(asked) == 1 and page.run("document.querySelector('#gateways-button').hidden")


def test_a_session_whose_gateway_is_gone_or_silent_says_so_above_the_box(
    page: Browser, live: LiveHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = views._session_json
    monkeypatch.setattr(views, "_session_json", lambda *row: {**whole(*row), "gateway": "delta"})
    live.begin("s")
    tell_gateways(live, monkeypatch, gateway("alpha"), delta=["s"])
    visit(page, live)
    shows(page, "#busy", "delta is gone: start it · working")
    tell_gateways(live, monkeypatch, gateway("alpha"), gateway("delta", silent_s=7.0))
    page.run("document.dispatchEvent(new Event('visibilitychange'))")
    page.until(lambda: (page.text("#busy") or "").startswith("delta is silent since"), "it is silent")
    tell_gateways(live, monkeypatch, gateway("alpha"), gateway("delta"))
    page.run("document.dispatchEvent(new Event('visibilitychange'))")
    shows(page, "#busy", "working")
