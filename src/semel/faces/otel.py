"""Send the gateway's spans to an OpenTelemetry collector, by OTLP over HTTP. Importing it needs the extra `otel`.

OpenTelemetry's own environment variables set it up: `OTEL_EXPORTER_OTLP_ENDPOINT` and those for headers, timeouts,
sampling and resources.

Trace and span ids are digests of the ledger's name and of rows in it. So spans of one event belong to one trace even if
another process recorded them, after a restart.
"""

from __future__ import annotations

import hashlib
import logging
import threading

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision

from semel import __version__
from semel.gateway.tracing import Span

CLOSE_TIMEOUT_S = 2.0  # how long the last spans may take at the end; a stop must not wait for a collector


class _RowIds(RandomIdGenerator):
    """Gives the next span the ids of its row. Not thread-safe: only the event loop's thread starts spans."""

    def __init__(self) -> None:
        self.trace = 0
        self.span: int | None = None  # None: a random one

    def generate_trace_id(self) -> int:
        return self.trace

    def generate_span_id(self) -> int:
        return super().generate_span_id() if self.span is None else self.span


class SpanExport:
    """Exports spans in a thread of its own. An instance is the gateway's `RecordSpan`; `close` it at the end."""

    def __init__(self, ledger: str) -> None:
        """`ledger`: the ledger's name."""
        # A lost batch is one line in the log; a retry is none.
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)
        self._ledger = ledger
        self._ids = _RowIds()
        # What the environment names (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES) comes first.
        from_environment = Resource.create()
        resource = Resource({"service.version": __version__}).merge(from_environment)
        if str(from_environment.attributes.get("service.name", "")).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "semel"}))
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._exporter = OTLPSpanExporter()
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("semel", __version__)

    def __repr__(self) -> str:
        return f"<SpanExport of {self._ledger}>"

    def __call__(self, span: Span) -> None:
        """Queue one span for export."""
        self._ids.trace = self._digest_row(f"e{span.event}", 16)
        self._ids.span = self._digest_row(span.row, 8) if span.row else None
        context = Context()
        if span.parent:
            parent = trace.NonRecordingSpan(self._context_of(span.parent, span.event))
            context = trace.set_span_in_context(parent, context)
        links = [trace.Link(self._context_of(f"e{event}", event)) for event in span.links]
        exported = self._tracer.start_span(
            span.name, context, attributes=span.attributes, links=links, start_time=span.started
        )
        if span.has_failed:
            exported.set_status(trace.StatusCode.ERROR)
        exported.end(span.ended)

    def close(self) -> None:
        """Export what is queued, and end the thread. Blocks, but waits for a collector that is away only briefly."""
        give_up = threading.Timer(CLOSE_TIMEOUT_S, self._exporter.shutdown)  # ends its retries
        give_up.start()
        self._provider.shutdown()
        give_up.cancel()

    def _context_of(self, row: str, event: int) -> trace.SpanContext:
        """Return the context of a row's span. It is sampled if the sampler takes the root span of its trace."""
        trace_id = self._digest_row(f"e{event}", 16)
        decision = self._provider.sampler.should_sample(None, trace_id, "event").decision
        is_sampled = decision is Decision.RECORD_AND_SAMPLE
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if is_sampled else trace.TraceFlags.DEFAULT)
        return trace.SpanContext(trace_id, self._digest_row(row, 8), is_remote=False, trace_flags=flags)

    def _digest_row(self, row: str, size: int) -> int:
        name = f"{self._ledger} {row}".encode()
        return int.from_bytes(hashlib.blake2b(name, digest_size=size, person=b"semel trace").digest())
