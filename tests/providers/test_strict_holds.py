"""No strict body gets more than was held for it: what the simulator says it made, priced by the card, never passes it.

The two sides know nothing of each other. The hold is read from the provider's own fields by the strict pointers of a
card; the simulator reads the body as leniently as vendors do, and says what it made; that is said as native bodies,
which the native pointers of the same card price.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from catalog_samples import shipped_catalog, shipped_providers
from fairlead.clock import Clock
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.catalog.strict_forms import RUN_ID
from fairlead.domain.ledger.quantities import Pricing
from fairlead.domain.ledger.rates import RateCard, card_in_force, quote
from fairlead.domain.ledger.strict_rates import beyond_card, quote_strict
from fairlead_partners.simulator.app import build

_PHASES: Final = (Phase.explicit, Phase.reuse, Phase.generate)
"""Nothing is made smaller: the message shows the body, and every try is a call of the simulator."""
_LINK: Final = "https://example.com/a.png"
_RUN: Final = "0190d3c8-1111-4222-8333-944445555666"
_KEYS: Final = {"fal": "Key simulated", "higgsfield": "Key id:secret"}
_DEAREST: Final[dict[str, dict[str, Any]]] = {
    "bfl/flux-2-pro at fal": {"image_size": {"width": 2048, "height": 2000}, "image_urls": [_LINK] * 9},
    "bfl/flux-2-pro at runware": {
        "width": 2048, "height": 2000, "inputs": {"referenceImages": [_LINK] * 9}, "numberResults": 1,
    },
    "bfl/flux-kontext-pro at wavespeed": {"image": _LINK},
    "bfl/flux-pro-1.1 at runware": {"numberResults": 20},
    "recraft/recraftv3 at fal": {"style": "vector_illustration"},
    "ideogram/ideogram-v3 at fal": {"rendering_speed": "QUALITY", "num_images": 8},
    "openai/gpt-image-2 at fal": {"image_urls": [_LINK], "num_images": 10},
    "openai/gpt-image-2 at runware": {"width": 2048, "height": 2048, "numberResults": 10},
    "kling/kling-v3 at fal": {"duration": "15"},
    "kling/kling-v3 at higgsfield": {"multi_prompt": [{"prompt": "a", "duration": 5}, {"duration": 10}]},
    "kling/kling-v2-6 at wavespeed": {"duration": 10},
    "wan/wan2.6-t2v at fal": {"duration": "15"},
    "wan/wan2.6-t2v at wavespeed": {"duration": 15, "size": "1920*1080"},
    "byteplus/dreamina-seedance-2-0-260128 at fal": {"resolution": "4k", "video_urls": [_LINK]},
    "byteplus/seedream-4-5-251128 at wavespeed": {"images": [_LINK]},
    "vertexai/gemini-3-pro-image at fal": {"num_images": 4, "resolution": "4K"},
}  # fmt: skip
"""For each leg that takes strict bodies, the most expensive one it may be sent."""

_ODD_VALUES: Final = (
    None, True, False, "true", "false", "", " ", "auto", "on", "off", [], {}, [_LINK], [""], 0, -1, 0.5, 1e300, 2.0,
    *range(1, 22), 1024, 1536, 2048, 4096, "1", "2", "4", "5", " 9", "10", "1_0", "15", "+8", "٤", "1e1", "07",
    "1K", "2K", "4K", "4k", "720p", "1080p", "1080P", "480p", "low", "LOW", "medium", "high", "TURBO", "turbo",
    "QUALITY", "BALANCED", "square_hd", "landscape_16_9", "1280*720", "1920*1080", "vector_illustration",
    "realistic_image", "any", "image", _LINK,
)  # fmt: skip
_ODD: Final = st.sampled_from(_ODD_VALUES)
_GOOD: Final[dict[str, list[Any]]] = {
    "num_images": [1, 2, 4, "3", 8],
    "numberResults": [1, 2, 10, 20],
    "resolution": ["1K", "2K", "4K", "480p", "720p", "1080p", "4k"],
    "rendering_speed": ["TURBO", "BALANCED", "QUALITY"],
    "quality": ["low", "medium", "high", "auto"],
    "style": ["any", "realistic_image", "vector_illustration", "vector_illustration/engraving"],
    "duration": [3, 5, "5", 10, "10", 15, "auto"],
    "generate_audio": [True, False],
    "sound": [True, False, "on", "off"],
    "image_size": ["square", "auto"],
    "size": ["1280*720", "1920*1080"],
    "width": [512, 1024, 1536, 2048],
    "height": [512, 1024, 1536, 2000],
    "seed": [1, 7, 0],
    "output_format": ["png", "jpeg"],
    "outputFormat": ["PNG", "JPG"],
    "image": [_LINK],
    "image_url": [_LINK],
    "start_image_url": [_LINK],
    "mask_url": [_LINK],
    "sync_mode": [False],
    "enable_sync_mode": [False],
    "enable_base64_output": [False],
    "enable_web_search": [False],
}
"""What a caller who knows the vendor would write."""
_STRANGERS: Final = (
    "model", "lora", "webhookURL", "deliveryMethod", "num_images", "numberResults", "enable_web_search", "voice_ids",
    "Resolution", "NUM_IMAGES", "image_urls", "video_urls", "multi_prompt", "sync_mode", "taskType", "content", "n",
)  # fmt: skip
"""Fields that a leg may not know, and that make some vendor do more."""


@dataclass(frozen=True, slots=True)
class Case:
    """A leg that takes strict bodies."""

    model: Model
    leg: Leg

    def __str__(self) -> str:
        return f"{self.model.id} at {self.leg.provider}"

    @property
    def card(self) -> RateCard:
        """The card in force."""
        card = card_in_force(self.leg.rate_cards, Clock().today())
        assert card is not None
        return card

    @property
    def base(self) -> dict[str, Any]:
        """What every body of it needs: its fixed fields and a prompt, as the leg names it."""
        fixed = {
            name: value.replace(RUN_ID, _RUN) if isinstance(value, str) else value
            for name, value in self.leg.fixed.items()
        }
        prompt = "positivePrompt" if self.leg.provider == "runware" else "prompt"
        return {**fixed, prompt: "a lighthouse"}


def _cases() -> Iterator[Case]:
    for model in shipped_catalog().models.values():
        for leg in model.legs[1:]:
            if shipped_providers()[leg.provider].is_alternate:
                yield Case(model, leg)


CASES: Final = list(_cases())


class Simulator:
    """A simulator in this process, whose work takes no time."""

    def __init__(self, runner: asyncio.Runner) -> None:
        """Build it."""
        self._runner = runner
        transport = httpx.ASGITransport(app=build(task_seconds=0.0))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://simulator")

    def send(self, case: Case, path: str, body: Any) -> tuple[int, list[dict[str, Any]]]:
        """Send a body to the vendor of a leg; the status, and what it says it made."""
        headers = {"Authorization": _KEYS.get(case.leg.provider, "Bearer simulated")}
        return self._runner.run(self._send(f"/{case.leg.provider}{path}", body, headers))

    async def _send(self, path: str, body: Any, headers: dict[str, str]) -> tuple[int, list[dict[str, Any]]]:
        await self._client.delete("/_simulator/calls")
        answer = await self._client.post(path, json=body, headers=headers)
        (received,) = (await self._client.get("/_simulator/calls")).json()["calls"]
        return answer.status_code, received["made"]


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """Return a simulator, and the loop it runs on."""
    with asyncio.Runner() as runner:
        yield Simulator(runner)


def send_strictly(simulator: Simulator, case: Case, body: Mapping[str, Any], operation: str) -> list[dict[str, Any]]:
    """Send a strict body as the exchange sends it, and return what the vendor says it made of it."""
    provider, leg = shipped_providers()[case.leg.provider], case.leg
    call = provider.calls[leg.calls[operation]]
    path = call.path.replace("{model}", leg.names[operation])
    return simulator.send(case, path, [body] if call.is_in_array else body)[1]


def held_for(case: Case, body: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the operation a strict body means and what is held for it; None for one that is refused."""
    form = case.leg.strict
    assert form is not None
    if form.violations(body, case.leg.fixed):
        return None
    operation = form.operation(body).name
    asked = Pricing(body, operation=operation, size=1000, is_strict=True)
    return None if beyond_card(case.card, asked) else (operation, quote_strict(case.card, asked).amount)


def worth_of(case: Case, made: Mapping[str, Any]) -> int:
    """Price what was made by the native pointers of the card, one native body for each output."""
    assert made["extras"] == [], "something was made that no card prices"
    body, operation = _NATIVE[case.model.id](made)
    asked = Pricing(body, operation=case.model.billed_operation(body, case.model.operation(body)) or operation)
    return quote(case.card, asked).amount * int(made["outputs"])


def _operation_of(made: Mapping[str, Any]) -> str:
    return "edit" if made["pictures"] else "generate"


def _flux(made: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    names = ["input_image", *(f"input_image_{number}" for number in range(2, 10))]
    given = dict.fromkeys(names[: made["pictures"]], _LINK)
    return {"width": made["width"], "height": made["height"], **given}, _operation_of(made)


def _recraft(made: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    return {"style": made["quality"].partition("/")[0], "n": 1}, _operation_of(made)


def _ideogram(made: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    return {"rendering_speed": made["quality"].replace("BALANCED", "DEFAULT"), "num_images": 1}, _operation_of(made)


def _gpt(made: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    given = {"image": _LINK} if made["pictures"] else {}
    return {"n": 1, "quality": made["quality"], "size": f"{made['width']}x{made['height']}", **given}, ""


def _kling(made: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    return {"duration": str(made["seconds"]), "sound": "on" if made["sound"] else "off"}, ""


def _wan(made: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    size = {"720p": "1280*720", "1080p": "1920*1080"}.get(made["quality"], made["quality"])
    return {"parameters": {"duration": made["seconds"], "size": size}}, ""


def _seedance(made: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    content = [{"type": "video_url", "video_url": {"url": _LINK}}] if made["clips"] else []
    return {"duration": made["seconds"], "resolution": made["quality"], "content": content}, ""


def _gemini(made: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    return {"generationConfig": {"imageConfig": {"imageSize": made["quality"]}}}, _operation_of(made)


def _flat(made: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    return {}, _operation_of(made)


_NATIVE: Final[Mapping[str, Callable[[Mapping[str, Any]], tuple[dict[str, Any], str]]]] = {
    "bfl/flux-2-pro": _flux,
    "bfl/flux-kontext-pro": _flat,
    "bfl/flux-pro-1.1": _flat,
    "recraft/recraftv3": _recraft,
    "ideogram/ideogram-v3": _ideogram,
    "openai/gpt-image-2": _gpt,
    "kling/kling-v3": _kling,
    "kling/kling-v2-6": _kling,
    "wan/wan2.6-t2v": _wan,
    "byteplus/dreamina-seedance-2-0-260128": _seedance,
    "byteplus/seedream-4-5-251128": _flat,
    "vertexai/gemini-3-pro-image": _gemini,
}
"""What was made of each model, said as the native body that asks for one of it, and its operation."""


def _names(case: Case) -> list[str]:
    assert case.leg.strict is not None
    return sorted({one.at[0] for one in case.leg.strict.fields} | set(case.leg.fixed))


def _value(case: Case, name: str) -> st.SearchStrategy[Any]:
    """Draw what stands in a field: an odd scalar, or an object or an array of what it may have inside."""
    assert case.leg.strict is not None
    inside = [one.at[1:] for one in case.leg.strict.fields if one.at[0] == name and len(one.at) > 1]
    if not inside:
        return _scalar(name)
    if inside[0][0] == "*":
        items = (
            _LINKS
            if len(inside[0]) == 1
            else st.fixed_dictionaries({}, optional={at[1]: _scalar(at[1]) for at in inside})
        )
        return st.lists(items, max_size=10)
    parts: dict[str, st.SearchStrategy[Any]] = {}
    for at in inside:
        nested = {other[1]: _scalar(other[1]) for other in inside if other[0] == at[0] and other[1:]}
        if not nested:
            parts[at[0]] = _scalar(at[0])
        else:
            parts[at[0]] = _LISTS if "*" in nested else st.fixed_dictionaries({}, optional=nested)
    return st.fixed_dictionaries({}, optional=parts) | _scalar(name)


def _scalar(name: str) -> st.SearchStrategy[Any]:
    """Draw what a scalar field has: mostly what a caller would write there, now and then something odd."""
    good = st.sampled_from(_GOOD.get(name, ["a"]))
    return st.integers(0, 5).flatmap(lambda dice: good if dice else _ODD)


_LINKS: Final = st.sampled_from([_LINK, _LINK, _LINK, "", None, 1])
_LISTS: Final = st.lists(_LINKS, max_size=18)


@st.composite
def _bodies(draw: st.DrawFn, case: Case) -> dict[str, Any]:
    """Draw a body in the provider's own form: what it needs, some of its fields, and now and then a foreign one."""
    names = draw(st.lists(st.sampled_from(_names(case)), min_size=1, max_size=8, unique=True))
    body = case.base | {name: draw(_value(case, name)) for name in names if name not in case.leg.fixed}
    if draw(st.integers(0, 9)) == 0:
        body |= draw(st.dictionaries(st.sampled_from(_STRANGERS), _ODD, max_size=2))
    return body


def test_every_leg_that_takes_strict_bodies_is_tried() -> None:
    """A leg that is added to the catalog is tried here, or this fails."""
    assert {str(case) for case in CASES} == set(_DEAREST)
    assert {case.model.id for case in CASES} == set(_NATIVE)


@pytest.mark.req("S-01", "R-29")
@pytest.mark.parametrize("case", CASES, ids=str)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30, phases=_PHASES)
def test_work_of_a_strict_body_is_never_worth_more_than_its_hold(
    simulator: Simulator, case: Case, data: st.DataObject
) -> None:
    """Whatever a body says, the vendor makes no more of it, at the prices of the card, than was held for."""
    body = data.draw(_bodies(case))
    held = held_for(case, body)
    if held is None:
        event("refused")
        return
    made = send_strictly(simulator, case, body, held[0])
    event("made" if made else "rejected by the vendor")
    assert sum(worth_of(case, one) for one in made) <= held[1], (body, made)


@pytest.mark.req("S-01")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_dearest_body_is_made_and_held_for_in_full(simulator: Simulator, case: Case) -> None:
    """The most expensive body of each leg is taken, costs something, and is held for."""
    body = case.base | _DEAREST[str(case)]
    held = held_for(case, body)
    assert held is not None
    made = send_strictly(simulator, case, body, held[0])
    assert 0 < sum(worth_of(case, one) for one in made) <= held[1]


@pytest.mark.req("S-01")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_simulator_refuses_a_model_that_no_leg_names(simulator: Simulator, case: Case) -> None:
    """A vendor makes nothing under a name it does not know."""
    provider, leg = shipped_providers()[case.leg.provider], case.leg
    call = provider.calls[next(iter(leg.calls.values()))]
    body = case.base | ({"model": "other:1@1"} if call.is_in_array else {})
    path = call.path.replace("{model}", "fal-ai/other-1")
    status, made = simulator.send(case, path, [body] if call.is_in_array else body)
    assert (status in (400, 404), made) == (True, [])
