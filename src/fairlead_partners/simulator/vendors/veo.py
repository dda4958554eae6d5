"""Veo on Vertex AI ({location}-aiplatform.googleapis.com): a long-running operation, asked after by POST."""

import uuid
from collections.abc import Mapping

from fairlead_partners.simulator import checks, google
from fairlead_partners.simulator.media import clip
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

_MODEL = "/v1/projects/{project}/locations/{location}/publishers/google/models/{model}"
_SEED_MAX = 4_294_967_295
_FAULTS = frozenset({"refused", "refused-output", "failed", "stuck"})
_RESPONSE_TYPE = "type.googleapis.com/cloud.ai.large_models.vision.GenerateVideoResponse"
_FILTERED_INPUT = (
    "Veo could not generate videos because the input image or prompt violates Vertex AI's usage guidelines. "
    "If you think this was an error, send feedback. Support codes: 58061214"
)
_FILTERED_OUTPUT = (
    "The generated videos were filtered out because they violate Vertex AI's usage guidelines. "
    "You will not be charged for blocked videos. Support codes: 15236754"
)


def _submit(call: Call) -> Reply:
    body = call.json()
    _check(body)
    place = call.parameters
    name = (
        f"projects/{place['project']}/locations/{place['location']}/publishers/google/models/{place['model']}"
        f"/operations/{uuid.uuid4()}"
    )
    call.submit(name, body)
    return json_reply(200, {"name": name})


def _check(body: Mapping[str, object]) -> None:
    instances = checks.items(body, "instances", 1, required=True)
    if not isinstance(instances[0], Mapping):
        raise Problem("invalid", "instances[0] must be an object.", field="instances")
    instance = instances[0]
    if not instance.get("prompt") and not instance.get("image"):
        raise Problem("invalid", "Text prompt or image is required.", field="instances[0].prompt")
    checks.text(instance, "prompt", 10_000)
    for name in ("image", "lastFrame", "video"):
        picture = instance.get(name)
        if picture is None:
            continue
        if not isinstance(picture, Mapping) or not (picture.get("bytesBase64Encoded") or picture.get("gcsUri")):
            message = f"`{name}` must have one of `gcsUri` or `bytesBase64Encoded`."
            raise Problem("invalid", message, field=f"instances[0].{name}")
        checks.present(picture, "mimeType")
    checks.one_of(body, "parameters.aspectRatio", {"16:9", "9:16"})
    checks.integer(body, "parameters.durationSeconds", 4, 8)
    checks.one_of(body, "parameters.resolution", {"720p", "1080p", "4k"})
    checks.integer(body, "parameters.sampleCount", 1, 4)
    checks.integer(body, "parameters.seed", 0, _SEED_MAX)
    checks.one_of(body, "parameters.personGeneration", {"dont_allow", "allow_adult", "allowAll", "allow_all"})
    checks.one_of(body, "parameters.resizeMode", {"pad", "crop"})
    checks.one_of(body, "parameters.compressionQuality", {"optimized", "lossless"})
    checks.one_of(body, "parameters.generateAudio", {True, False})


def _fetch(call: Call) -> Reply:
    body = call.json()
    task = call.task(checks.text(body, "operationName", 1000, required=True))
    if task.stage != "ended":
        return json_reply(200, {"name": task.id})
    return json_reply(200, {"name": task.id, "done": True, **_outcome(task)})


def _outcome(task: Task) -> dict[str, object]:
    count = checks.integer(task.request, "parameters.sampleCount", 1, 4, 1)
    if task.faults.get("refused") == "error":
        return {"error": {"code": 3, "message": f"{google.BLOCKED_PROMPT} Support codes: 58061214"}}
    for fault, reason in (("refused", _FILTERED_INPUT), ("refused-output", _FILTERED_OUTPUT)):
        if task.has(fault):
            filtered = {"raiMediaFilteredCount": count, "raiMediaFilteredReasons": [reason]}
            return {"response": {"@type": _RESPONSE_TYPE, **filtered}}
    if task.has("failed"):
        return {"error": {"code": 13, "message": "Internal error encountered. Please try again later."}}
    storage = checks.text(task.request, "parameters.storageUri").rstrip("/")
    if storage:
        videos = [{"gcsUri": f"{storage}/sample_{number}.mp4", "mimeType": "video/mp4"} for number in range(count)]
    else:
        videos = [{"bytesBase64Encoded": clip().base64(), "mimeType": "video/mp4"}] * count
    return {"response": {"@type": _RESPONSE_TYPE, "raiMediaFilteredCount": 0, "videos": videos}}


VENDOR = Vendor(
    name="veo",
    routes=(
        Route("POST", _MODEL + ":predictLongRunning", _submit),
        Route("POST", _MODEL + ":fetchPredictOperation", _fetch, creates=False),
    ),
    authorize=google.authorize,
    problem=google.problem_reply,
    supports=_FAULTS,
)
