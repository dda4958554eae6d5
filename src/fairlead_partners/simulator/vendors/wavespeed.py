"""WaveSpeed (api.wavespeed.ai/api/v3): the path names the model; answers are wrapped in code, message and data."""

from collections.abc import Mapping

from msgspec.structs import replace

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, stamp, status_of, words_of
from fairlead_partners.simulator.media import clip, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply
from fairlead_partners.simulator.work import App, Choice, Range

INPUTS = ("prompt", "image", "images", "video", "videos", "audio", "text")
SENSITIVE = "Content flagged as potentially sensitive. Please try different prompts or images."

_FLUX = App("image", outputs=Range("num_images", 1, 4, 1))
_KLING = App(
    "video", seconds=Range("duration", 5, 10, 5), sound=("sound", True), needs=("prompt",), extras=("voice_list",)
)
_WAN_SIZES = ("1280*720", "720*1280", "1920*1080", "1080*1920")
MODELS: Mapping[str, App] = {
    "wavespeed-ai/flux-kontext-pro": replace(_FLUX, needs=("image",), pictures=("image",)),
    "wavespeed-ai/flux-kontext-pro/text-to-image": replace(_FLUX, needs=("prompt",)),
    "wavespeed-ai/flashvsr": App("video", needs=("video",), clips=("video",)),
    "wavespeed-ai/seedvr2/image": App("image", needs=("image",), pictures=("image",)),
    "wavespeed-ai/ultimate-image-upscaler": App("image", needs=("image",), pictures=("image",)),
    "google/nano-banana-pro/text-to-image": App("image", needs=("prompt",)),
    "bytedance/seedream-v4.5": App("image", needs=("prompt",)),
    "bytedance/seedream-v4.5/edit": App("image", needs=("images",), pictures=("images",)),
    "kwaivgi/kling-v2.6-pro/text-to-video": _KLING,
    "kwaivgi/kling-v2.6-pro/image-to-video": replace(_KLING, needs=("image",), pictures=("image",)),
    "alibaba/wan-2.6/text-to-video": App(
        "video", seconds=Range("duration", 5, 15, 5), quality=Choice("size", _WAN_SIZES, "1280*720"), needs=("prompt",)
    ),
}
"""The models that are known here; any other is answered 404, as one that does not exist."""

_STATUSES = {"queued": "created", "running": "processing", "ended": "completed", "cancelled": "failed"}


def _problem(problem: Problem) -> Reply:
    message = words_of(
        problem,
        {
            "unauthorized": "Unauthorized: invalid API key",
            "rate_limited": "Too many requests, please try again later",
            "refused": SENSITIVE,
            "server_error": "Internal server error",
        },
    )
    return error_reply(problem, {"code": status_of(problem), "message": message})


def _submit(call: Call) -> Reply:
    body, model = call.json(), call.parameters["model"]
    known = MODELS.get(model)
    if known is None:
        raise Problem("not_found", "model not found")
    checks.present({"input": [body[name] for name in INPUTS if body.get(name)]}, "input")
    checks.text(body, "prompt", 10_000)
    checks.integer(body, "seed", -1, 2_147_483_647)
    checks.one_of(body, "enable_sync_mode", {True, False})
    work = known.work(body)
    call.made.append(work.document(model))
    task = call.submit(identifier().replace("-", ""), body, model=model, work=work, seed=call.seed())
    call.notify(task, call.query.get("webhook"), lambda: _document(call, task))
    if body.get("enable_sync_mode") and not task.has("stuck"):
        task.born -= task.clock.task_seconds
    return json_reply(200, _wrap(_document(call, task)))


def _wrap(document: dict[str, object]) -> dict[str, object]:
    return {"code": 200, "message": "success", "data": document}


def _result(call: Call) -> Reply:
    return json_reply(200, _wrap(_document(call, call.task(call.parameters["id"]))))


def _document(call: Call, task: Task) -> dict[str, object]:
    ended = task.stage == "ended"
    document: dict[str, object] = {
        "id": task.id,
        "model": task.facts["model"],
        "outputs": [],
        "urls": {"get": call.url(f"/api/v3/predictions/{task.id}/result")},
        "has_nsfw_contents": [],
        "status": _STATUSES[task.stage],
        "created_at": stamp(task.created),
        "error": "",
        "executionTime": 0,
        "timings": {"inference": 0},
    }
    match rejection(task):
        case "refused" | "refused-output":
            return document | {"status": "failed", "code": 1200, "error": SENSITIVE}
        case "failed":
            return document | {"status": "failed", "code": 1405, "error": "The task execution failed."}
        case None:
            pass
    if not ended:
        return document
    milliseconds = round((task.updated - task.created) * 1000)
    work, seed = task.facts["work"], task.facts["seed"]
    made = [clip() if work.kind == "video" else picture("jpeg", seed=seed + number) for number in range(work.outputs)]
    urls = [call.link(media, f"output-{number}.{media.extension}", task) for number, media in enumerate(made)]
    shown = {"outputs": urls, "has_nsfw_contents": [False] * len(urls), "executionTime": milliseconds}
    return document | shown | {"timings": {"inference": milliseconds}}


VENDOR = Vendor(
    name="wavespeed",
    routes=(
        Route("GET", "/api/v3/predictions/{id}/result", _result),
        Route("GET", "/api/v3/predictions/{id}", _result),
        Route("POST", "/api/v3/{model:path}", _submit),
    ),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link", "duplicate-webhook"}),
)
