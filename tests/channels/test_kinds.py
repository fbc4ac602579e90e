"""Kinds of channels: Semel's own, and those that packages bring."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from semel import channels
from semel.channels import ChannelError, Kind, kinds, make, make_all
from semel.channels.webhook import WebhookChannel
from semel.gateway.ports import Safety
from semel.gateway.settings import ChannelSettings
from semel.testing import FakeChannel


@dataclass(frozen=True)
class PigeonSettings:
    loft: str
    speed: float = 1.0


KIND = Kind(PigeonSettings, lambda name, settings: FakeChannel(name, Safety.AT_MOST_ONCE, pace=settings.speed))
NOT_A_KIND = object()
WRONG_NAME = Kind(PigeonSettings, lambda name, settings: FakeChannel("other", Safety.AT_MOST_ONCE))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    kinds.cache_clear()
    yield
    kinds.cache_clear()
    sys.modules.pop("pigeons", None)  # ours: another package of that name is tested elsewhere


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a package that has entry points, as pip would leave it."""

    def put(name: str, target: str) -> None:
        info = tmp_path / "pigeons-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeons\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[semel.channels]\n{name} = {target}\n")
        (tmp_path / "pigeons.py").write_text(f"from {__name__} import *\nfrom {__name__} import KIND\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "pigeons", raising=False)

    return put


def section(name: str = "loft", kind: str = "pigeon", **options: Any) -> ChannelSettings:
    return ChannelSettings(name=name, kind=kind, options=options)


def test_a_webhook_is_made_from_its_section() -> None:
    made = make_all({"hook": section("hook", "webhook", url="https://example.com/in", pace=2.0)})
    assert isinstance(made["hook"], WebhookChannel)
    assert (made["hook"].name, made["hook"].caps.pace) == ("hook", 2.0)


def test_two_sections_with_one_account_are_an_error() -> None:
    """Telegram would tell each message to one of them, and end the other one's polls."""
    token = "8000000001:AAtest-token_0123456789-abcdefghijk"
    first, second = (section(name, "telegram", token=token) for name in ("phone", "tablet"))
    with pytest.raises(ChannelError) as caught:
        make_all({"phone": first, "tablet": second})
    told = str(caught.value)
    assert "[channels.tablet]: [channels.phone] has the same account, bot 8000000001 at api.telegram.org" in told
    assert "remove one" in told and "AAtest" not in told
    other = section("tablet", "telegram", token="9" + token)
    assert set(make_all({"phone": first, "tablet": other})) == {"phone", "tablet"}


def test_an_installed_package_brings_a_kind(install: Any) -> None:
    install("pigeon", "pigeons:KIND")
    channel = make(section(loft="north", speed=3.0))
    assert isinstance(channel, FakeChannel)
    assert channel.caps.pace == 3.0


@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        ("pigeon", "pigeons:NOTHING", "the channel kind 'pigeon' of the package pigeons cannot be loaded"),
        ("pigeon", "no_such_module:KIND", "cannot be loaded: No module named 'no_such_module'"),
        ("pigeon", "pigeons:NOT_A_KIND", "pigeons:NOT_A_KIND of the package pigeons should be a Kind"),
        ("webhook", "pigeons:KIND", "brings the channel kind 'webhook', which exists: remove it"),
    ],
)
def test_a_broken_package_is_named(install: Any, name: str, target: str, says: str) -> None:
    install(name, target)
    with pytest.raises(ChannelError) as caught:
        kinds()
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (section(kind="pidgeon", loft="n"), "[channels.loft]: there is no kind 'pidgeon'; there is discord, email, "),
        (section(loft="n", sped=1.0), "got an unexpected keyword argument 'sped'"),
        (section(), "missing 1 required positional argument: 'loft'"),
        (section("hook", "webhook", token="short"), "[channels.hook]: token should have 16 or more characters"),
        (section("web", loft="n"), "[channels.web]: the name is taken by the web itself; choose another"),
        (section("a:b", loft="n"), "a channel's name may contain no colon"),
    ],
)
def test_a_section_that_cannot_work_says_what_to_change(install: Any, settings: Any, says: str) -> None:
    install("pigeon", "pigeons:KIND")
    with pytest.raises(ChannelError) as caught:
        make(settings)
    assert says in str(caught.value)


def test_a_kind_that_makes_something_else_is_refused(install: Any) -> None:
    install("pigeon", "pigeons:WRONG_NAME")
    with pytest.raises(ChannelError, match="made an object that is not this channel"):
        make(section(loft="n"))


def test_the_public_names_are_those_that_are_documented() -> None:
    assert set(channels.__all__) == {"GROUP", "RESERVED", "ChannelError", "Kind", "kinds", "make", "make_all"}


def test_the_modules_of_a_platform_are_loaded_only_where_it_is_configured() -> None:
    program = "import sys, semel.channels; print(*(name for name in sys.modules if name.endswith('.channel')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if name.startswith("semel.channels.")} == set()
