"""Metrics, dashboard and alert rules: one set of names, and the real Prometheus tool where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from system_house import DEMO, House, channel, opened, script, until

from semel.gateway.metrics import METRICS

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
NAME = re.compile(r"\bsemel_[a-z_]+")
OF_DATABASES = ("semel_database_retries_total", "semel_database_lost_connections_total", "semel_cluster_gateways")
BOOKS = ("semel_books_broken", "semel_books_checked_timestamp_seconds")
ERROR = {"error": {"code": -32603, "message": "no such model"}}
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (prometheus)")


def dashboard_queries() -> list[str]:
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def promtool(*args: str, given: str = "") -> str:
    done = subprocess.run(["promtool", *args], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def scrape_after_an_attempt(house: House) -> str:
    """The metrics, once something was sent; "" before."""
    metrics = httpx2.get(house.url + "/metrics").text
    return metrics if "semel_attempts_total" in metrics else ""


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The metrics of a gateway in which each of them has a value."""
    hook = channel("hook", "http://127.0.0.1:9/", session="demo:hook:a")
    with opened(House(tmp_path_factory.mktemp("watched"), DEMO + hook)) as house:
        house.say("demo:web:a", script("fine"))
        house.say("demo:web:b", script(ERROR))
        for session in ("demo:web:a", "demo:web:b"):
            house.idle(session)
        house.hook("hook", {"text": script("fine")}, "m1")
        yield until(lambda: scrape_after_an_attempt(house), "an attempt to send")


def test_the_dashboard_shows_every_metric_and_nothing_else() -> None:
    assert {name for query in dashboard_queries() for name in NAME.findall(query)} == set(METRICS)


def test_the_alert_rules_use_only_metrics_and_labels_that_exist() -> None:
    rules = (DEPLOY / "alerts.yml").read_text()
    assert set(NAME.findall(rules)) <= set(METRICS)
    labels = {label for metric in METRICS.values() for label in metric.labels} | {"instance", "job"}
    assert set(re.findall(r"\$labels\.(\w+)", rules)) <= labels


def test_every_alert_is_documented() -> None:
    alerts = set(re.findall(r"alert: (\w+)", (DEPLOY / "alerts.yml").read_text()))
    page = (DEPLOY.parent / "docs" / "monitoring.md").read_text()
    assert set(re.findall(r"`(Semel\w+)`", page)) == alerts


def test_a_gateway_reports_every_metric_with_its_labels_help_and_type(scraped: str) -> None:
    seen = {}
    for name, labels in re.findall(r"^(semel_\w+)(?:\{(.*?)\})? ", scraped, re.M):
        seen[name] = tuple(re.findall(r'(\w+)="', labels))
    absent = set(METRICS) - set(seen)
    expected = {"semel_refused_total", *OF_DATABASES}
    assert expected <= absent <= {*expected, *BOOKS}, "nothing was refused or checked yet"
    assert seen == {name: METRICS[name].labels for name in seen}
    assert set(re.findall(r"^# HELP (\w+) \w", scraped, re.M)) == set(seen)
    assert 'semel_turns_total{agent="demo",outcome="failed"} 1' in scraped
    assert "semel_ready 1" in scraped
    assert int(re.findall(r"^semel_ledger_bytes (\d+)", scraped, re.M)[0]) > 10_000


@needs_promtool
def test_prometheus_finds_nothing_to_complain_of_in_the_metrics(scraped: str) -> None:
    promtool("check", "metrics", given=scraped)


@needs_promtool
def test_prometheus_reads_the_alert_rules_and_every_query_of_the_dashboard(tmp_path: Path) -> None:
    promtool("check", "rules", str(DEPLOY / "alerts.yml"))
    queries = [query.replace("$__rate_interval", "5m").replace("$instance", ".*") for query in dashboard_queries()]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", str(tmp_path / "queries.yml"))


FAULTS = {
    "SemelDown": ('up{job="semel"}', "0x90"),
    "SemelNotReady": ("semel_ready", "0x90"),
    "SemelDiskLow": ("semel_disk_free_bytes", "5e8x90"),
    "SemelLedgerFailures": ("semel_ledger_failures_total", "0+1x90"),
    "SemelAgentFails": ('semel_agent_errors_total{agent="main",error="start"}', "0+1x90"),
    "SemelTurnsFail": ('semel_turns_total{agent="main",outcome="failed"}', "0+1x90"),
    "SemelChannelOffline": ('semel_channel_online{channel="telegram"}', "0x90"),
    "SemelPartsStuck": ("semel_parts_queued", "1x90"),
    "SemelPartsHeld": ("semel_parts_held", "1x90"),
    "SemelPartsRejected": ('semel_parts_rejected_total{channel="telegram"}', "0+1x90"),
    "SemelLawBroken": ("semel_books_broken", "1x90"),
    "SemelNoOtherGateway": ('semel_cluster_gateways{state="waiting"}', "0x90"),
}
"""What Prometheus sees while something is wrong: alert -> series and its values, one a minute."""
HEALTHY = {name: "0x90" if name.startswith(("semel_parts_", "semel_books_")) else "1e12x90" for name in METRICS}


def make_test(series: dict[str, str], expected: list[str]) -> dict[str, object]:
    """A test in the format of `promtool test rules`: with these series, these alerts fire after 80 minutes."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
    query = {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": "80m", "exp_samples": samples}
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": inputs, "promql_expr_test": [query]}


@needs_promtool
def test_each_alert_fires_for_its_fault_alone_and_none_on_a_healthy_gateway(tmp_path: Path) -> None:
    assert set(FAULTS) == set(re.findall(r"alert: (\w+)", (DEPLOY / "alerts.yml").read_text()))
    # Some queries add or divide metrics: each fault is one series of a gateway that is healthy otherwise.
    tests = [make_test({**HEALTHY, series: values}, [alert]) for alert, (series, values) in FAULTS.items()]
    document = {
        "rule_files": [str(DEPLOY / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [make_test(HEALTHY, []), *tests],
    }
    (tmp_path / "tests.yml").write_text(json.dumps(document))
    promtool("test", "rules", str(tmp_path / "tests.yml"))
