"""OpenTelemetry traces, as one listener to observations; needs the extra `fairlead[telemetry]`.

Spans are made when a run has ended, from the times it recorded: a server without traces pays nothing for them.
"""

from typing import Any

from fairlead.observing.observations import Observation, RunEnded

_NS = 1_000_000_000


class TracesUnavailableError(Exception):
    """Traces were asked for, but the extra `fairlead[telemetry]` is not installed."""


class Traces:
    """Turns each run into a span with the partner's part inside it, under the caller's own trace when it sent one."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 -- an optional extra
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._tracer = provider.get_tracer("fairlead")
        self._propagator = TraceContextTextMapPropagator()

    def observe(self, observation: Observation) -> None:
        """Make the spans of a run that ended; other observations are not traced."""
        if isinstance(observation, RunEnded):
            self._span(observation)

    def close(self) -> None:
        """Send what has not been sent yet."""
        self._provider.shutdown()

    def _span(self, run: RunEnded) -> None:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context  # noqa: PLC0415 -- an optional extra

        parent = self._propagator.extract({"traceparent": run.traceparent} if run.traceparent else {})
        end = run.started_at_ns + int(run.seconds * _NS)
        span = self._tracer.start_span(
            f"run {run.model_id}",
            context=parent,
            start_time=run.started_at_ns,
            attributes={
                "fairlead.request_id": run.run_id,
                "fairlead.workspace": run.workspace,
                "fairlead.model": run.model_id,
                "fairlead.provider": run.provider,
                "fairlead.result": run.result,
                "fairlead.charge_dollars": run.charge / 1e8,
            },
        )
        if run.result != "success":
            span.set_status(Status(StatusCode.ERROR, run.result))
        inner = self._tracer.start_span(
            f"partner {run.provider}",
            context=set_span_in_context(span),
            start_time=end - int(run.partner_seconds * _NS),
        )
        inner.end(end)
        span.end(end)


def otlp_traces(endpoint: str) -> Traces:
    """Traces sent to an OTLP endpoint over HTTP; TracesUnavailableError when the extra is missing."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 -- an optional extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 -- an optional extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 -- an optional extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 -- an optional extra
    except ImportError as error:
        raise TracesUnavailableError("install fairlead[telemetry] to send traces") from error
    provider = TracerProvider(resource=Resource.create({"service.name": "fairlead"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return Traces(provider)
