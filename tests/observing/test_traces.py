"""Traces: a span for a run, with the partner's part inside it, delivered over OTLP."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fairlead.observing.observations import Observation, ServerReady
from fairlead.observing.traces import Traces, otlp_traces
from observing.test_metrics import ENDED

TRACE = "0af7651916cd43dd8448eb211c80319c"


def spans_of(observation: Observation) -> tuple[ReadableSpan, ...]:
    """The spans an observation makes, in the order they ended."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Traces(provider)
    traces.observe(observation)
    traces.close()
    return exporter.get_finished_spans()


def test_run_leaves_a_span_without_secrets() -> None:
    """The run's span holds the partner's, with the times that were measured and nothing secret."""
    partner, run = spans_of(ENDED)
    assert (run.name, partner.name) == ("run acme/x", "partner acme")
    assert partner.parent is not None
    assert run.context is not None
    assert partner.parent.span_id == run.context.span_id
    assert (run.start_time, run.end_time, partner.start_time) == (0, 1_500_000_000, 250_000_000)
    assert run.attributes is not None
    assert run.attributes["fairlead.charge_dollars"] == 0.5


def test_run_continues_the_trace_of_its_caller() -> None:
    """A run is a part of the trace its caller named; a failure is an error in it."""
    failed = msgspec.structs.replace(ENDED, result="provider_error", traceparent=f"00-{TRACE}-b7ad6b7169203331-01")
    _, run = spans_of(failed)
    assert run.context is not None
    assert f"{run.context.trace_id:032x}" == TRACE
    assert (run.status.is_ok, run.status.description) == (False, "provider_error")


def test_only_runs_have_spans() -> None:
    """Only runs have spans."""
    assert spans_of(ServerReady("http://x")) == ()


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A real OTLP endpoint, and the bodies it received."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_every_span_is_delivered_before_the_server_stops(collector: tuple[str, list[bytes]]) -> None:
    """What was observed has been sent by the time the server has stopped."""
    url, received = collector
    traces = otlp_traces(url)
    traces.observe(ENDED)
    traces.close()
    assert b"run acme/x" in b"".join(received)
