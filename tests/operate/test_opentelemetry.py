"""Traces, as a receiver of OTLP over HTTP gets them from a real gateway."""

from __future__ import annotations

import contextlib
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from system_house import DEMO, House, answer, channel, opened, receiver, script, send, until

SECRET_TEXT = "the launch code is 0000"


class Collector:
    """Takes spans at `url`, and keeps them by name in `spans`; `bodies` are the requests."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.resources: list[dict[str, Any]] = []
        self.spans: list[Any] = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self.path, self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(attributes(resource.resource))
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes(holder: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in holder.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    with contextlib.closing(collector):
        yield collector


def traced(home: Path, config: str, collector: Collector) -> House:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    return House(home, config, env=env)


def test_a_message_is_one_trace_from_its_acceptance_to_its_receipts(tmp_path: Path, collector: Collector) -> None:
    with receiver() as platform, contextlib.ExitStack() as stack:
        config = DEMO + channel("hook", platform.url, session="demo:hook:a")
        house = stack.enter_context(opened(traced(tmp_path, config, collector)))
        house.hook("hook", {"text": script(send(SECRET_TEXT), "and bye")}, "m1")
        house.settled()
        until(lambda: len(collector.named("part")) == 2 and collector.named("event"), "all spans")
    [event], [turn] = collector.named("event"), collector.named("turn")
    [start], [prompt], [tool] = (collector.named(name) for name in ("agent start", "agent prompt", "tool call"))
    parts = collector.named("part")
    assert {span.trace_id for span in collector.spans} == {event.trace_id}
    assert (event.parent_span_id, turn.parent_span_id) == (b"", event.span_id)
    assert {span.parent_span_id for span in (start, prompt, tool, *parts)} == {turn.span_id}
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in collector.spans)
    assert event.start_time_unix_nano <= turn.start_time_unix_nano <= prompt.start_time_unix_nano
    assert tool.end_time_unix_nano <= prompt.end_time_unix_nano <= turn.end_time_unix_nano

    said = {"semel.session": "demo:hook:a", "semel.turn": 1}
    assert attributes(event) == said | {"semel.event": 1, "semel.source": "channel:hook", "semel.kind": "message"}
    assert attributes(turn) == said | {"semel.agent": "demo", "semel.attempt": 1, "semel.outcome": "done"}
    assert attributes(tool) == said | {"semel.tool": "send_message", "semel.claim": 1, "semel.outcome": "said"}
    first = attributes(parts[0])
    assert first.pop("semel.receipt")
    assert first == said | {
        "semel.part": 1, "semel.claim": 1, "semel.channel": "hook", "semel.outcome": "receipt",
    }  # fmt: skip
    assert {resource["service.name"] for resource in collector.resources} == {"semel"}
    assert not any(SECRET_TEXT.encode() in body or b"and bye" in body for body in collector.bodies), "no text leaves"


def test_a_part_that_is_sent_after_a_restart_belongs_to_the_same_trace(tmp_path: Path, collector: Collector) -> None:
    with receiver() as platform:
        platform.always = answer(503)
        house = traced(tmp_path, DEMO + channel("hook", platform.url, session="demo:hook:a"), collector)
        with opened(house):
            house.hook("hook", {"text": script("late")}, "m1")
            until(lambda: collector.named("part") and collector.named("event"), "an attempt that failed")
            house.kill()
            platform.always = answer(200)
            house.up()
            until(
                lambda: any(attributes(p)["semel.outcome"] == "receipt" for p in collector.named("part")), "it was sent"
            )
    [event], [turn] = collector.named("event"), collector.named("turn")
    assert {span.trace_id for span in collector.spans} == {event.trace_id}
    assert {part.parent_span_id for part in collector.named("part")} == {turn.span_id}
    failed = collector.named("part")[0]
    assert failed.status.code == failed.status.STATUS_CODE_ERROR


def test_a_turn_that_took_several_messages_is_linked_to_each(tmp_path: Path, collector: Collector) -> None:
    with opened(traced(tmp_path, DEMO, collector)) as house:
        go = tmp_path / "go"
        house.say("demo:web:a", script({"wait": str(go)}, "one"))
        until(lambda: (house.session("demo:web:a") or {}).get("turn"), "a turn runs")
        for text in ("two", "three"):
            house.say("demo:web:a", script(text))
        go.touch()
        until(lambda: len(collector.named("event")) == 3, "all are answered")
    events = {attributes(span)["semel.event"]: span for span in collector.named("event")}
    assert len({span.trace_id for span in events.values()}) == 3
    second = collector.named("turn")[1]
    assert second.trace_id == events[2].trace_id
    assert [link.span_id for link in second.links] == [events[3].span_id]


def test_a_collector_that_is_away_delays_nothing(tmp_path: Path) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with opened(House(tmp_path, DEMO, env=env)) as house:
        house.say("demo:web:a", script("hello"))
        house.idle("demo:web:a")
        assert house.texts("demo:web:a") == ["hello"]


def test_without_its_variables_opentelemetry_is_not_even_loaded(tmp_path: Path) -> None:
    code = "import sys, semel.faces.run; print([m for m in sys.modules if m.startswith('opentelemetry')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_traces_without_the_extra_say_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "opentelemetry").mkdir()
    (tmp_path / "opentelemetry" / "__init__.py").write_text("raise ImportError\n")
    house = House(
        tmp_path, DEMO, env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(tmp_path)}
    )
    process = house.start()
    assert process.wait(60) == 2
    assert "pip install 'opentelemetry" in house.log and "Traceback" not in house.log
