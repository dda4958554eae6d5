"""Meshy (api.meshy.ai): text to 3D in two steps, and what can be done with a model afterwards."""

from collections.abc import Mapping

from fairlead_partners.simulator import checks, keys
from fairlead_partners.simulator.answers import error_reply, identifier, rejection, words_of
from fairlead_partners.simulator.media import Media, model, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Problem, Reply, Route, Vendor, json_reply

KEEP_MILLISECONDS = 3 * 24 * 3600 * 1000

_STATUSES = {"queued": "PENDING", "running": "IN_PROGRESS", "ended": "SUCCEEDED", "cancelled": "CANCELED"}
_CREDITS = {"text-to-3d-preview": 20, "text-to-3d-refine": 10, "remesh": 5, "rig": 5, "animate": 3}


def _problem(problem: Problem) -> Reply:
    words = words_of(
        problem,
        {
            "unauthorized": "Invalid API key",
            "rate_limited": "RateLimitExceeded",
            "refused": "The prompt contains content that violates our content policy.",
            "server_error": "Internal Server Error",
        },
    )
    return error_reply(problem, {"message": f"Invalid values: {words}" if problem.kind == "invalid" else words})


def _text_to_3d(call: Call) -> Reply:
    body = call.json()
    mode = checks.one_of(body, "mode", {"preview", "refine"}, "")
    if not mode:
        raise Problem("invalid", "Mode is a required field", field="mode", code="missing")
    if mode == "preview":
        checks.text(body, "prompt", 600, required=True)
        checks.one_of(body, "art_style", {"realistic", "sculpture"})
        checks.one_of(body, "topology", {"quad", "triangle"})
        checks.integer(body, "target_polycount", 100, 300_000)
        checks.one_of(body, "symmetry_mode", {"off", "auto", "on"})
        checks.one_of(body, "pose_mode", {"a-pose", "t-pose", ""})
        checks.one_of(body, "should_remesh", {True, False})
    else:
        checks.text(body, "preview_task_id", 100, required=True)
        checks.text(body, "texture_prompt", 600)
        checks.one_of(body, "enable_pbr", {True, False})
    checks.text(body, "ai_model", 40)
    return _create(call, body, f"text-to-3d-{mode}")


def _remesh(call: Call) -> Reply:
    body = call.json()
    _one_source(body, "input_task_id", "model_url")
    checks.items(body, "target_formats", 7)
    checks.one_of(body, "topology", {"quad", "triangle"})
    checks.integer(body, "target_polycount", 100, 300_000)
    return _create(call, body, "remesh")


def _rig(call: Call) -> Reply:
    body = call.json()
    _one_source(body, "input_task_id", "model_url")
    checks.number(body, "height_meters", 0.01, 100)
    return _create(call, body, "rig")


def _animate(call: Call) -> Reply:
    body = call.json()
    checks.text(body, "rig_task_id", 100, required=True)
    checks.present(body, "action_id")
    checks.integer(body, "action_id", 0, 100_000)
    return _create(call, body, "animate")


def _one_source(body: Mapping[str, object], *names: str) -> None:
    if not any(checks.text(body, name, 40_000_000) for name in names):
        raise Problem("invalid", f"One of {' or '.join(names)} is required", field=names[0], code="missing")


def _create(call: Call, body: Mapping[str, object], kind: str) -> Reply:
    task = call.submit(identifier(), body, kind=kind, path=call.path)
    return json_reply(202, {"result": task.id})


def _get(call: Call) -> Reply:
    task = _find_task(call)
    return json_reply(200, _document(call, task))


def _find_task(call: Call) -> Task:
    task = call.task(call.parameters["id"])
    if not call.path.startswith(task.facts["path"] + "/"):
        raise Problem("not_found", "Task not found")
    return task


def _document(call: Call, task: Task) -> dict[str, object]:
    created, ended, kind = round(task.created * 1000), task.stage == "ended", task.facts["kind"]
    document = {
        "id": task.id,
        "type": kind,
        "status": _STATUSES[task.stage],
        "progress": round(task.progress * 100),
        "created_at": created,
        "started_at": 0 if task.stage == "queued" else created,
        "finished_at": round(task.updated * 1000) if ended else 0,
        "expires_at": created + KEEP_MILLISECONDS if ended else 0,
        "preceding_tasks": 0,
        "task_error": {"message": ""},
    }
    match rejection(task):
        case "refused" | "refused-output":
            message = "The generation was blocked by our content moderation."
            return document | {"status": "FAILED", "progress": 0, "task_error": {"message": message}}
        case "failed":
            return document | {"status": "FAILED", "progress": 0, "task_error": {"message": "Internal error."}}
        case None:
            pass
    if kind.startswith("text-to-3d"):
        style = task.request.get("art_style") or "realistic"
        document |= {"prompt": task.request.get("prompt", ""), "art_style": style}
    if not ended:
        return document
    return document | _outcome(call, task) | {"consumed_credits": _credits(task)}


def _credits(task: Task) -> int:
    """What a task takes by the vendor's list, where a preview of the model 5 costs a quarter."""
    kind = str(task.facts["kind"])
    return 5 if kind == "text-to-3d-preview" and task.request.get("ai_model") == "meshy-5" else _CREDITS[kind]


def _outcome(call: Call, task: Task) -> dict[str, object]:
    def link(media: Media, name: str) -> str:
        return call.link(media, name, task)

    kind = task.facts["kind"]
    if kind == "rig":
        files = {f"rigged_character_{one}_url": link(model(one), f"character.{one}") for one in ("fbx", "glb")}
        walking = {"walking_glb_url": link(model("glb"), "walking.glb")}
        return {"result": files | {"basic_animations": walking}}
    if kind == "animate":
        return {"result": {f"animation_{one}_url": link(model(one), f"animation.{one}") for one in ("fbx", "glb")}}
    names = ("glb", "fbx", "obj", "usdz") if kind == "remesh" else ("glb", "fbx", "obj", "mtl", "usdz")
    outcome: dict[str, object] = {
        "model_urls": {one: link(model(one), f"model.{one}") for one in names},
        "thumbnail_url": link(picture("png", 512, 512), "preview.png"),
        "texture_urls": [],
    }
    if kind == "text-to-3d-refine":
        outcome["texture_urls"] = [{"base_color": link(picture("png", 512, 512, 1), "texture_0.png")}]
    return outcome


def _delete(call: Call) -> Reply:
    task = _find_task(call)
    if task.stage == "running":
        raise Problem("invalid", "Task is in progress and cannot be deleted")
    call.memory.tasks.forget(task)
    return Reply(200, b"")


def _routes() -> tuple[Route, ...]:
    creators = {
        "/openapi/v2/text-to-3d": _text_to_3d,
        "/openapi/v1/remesh": _remesh,
        "/openapi/v1/rigging": _rig,
        "/openapi/v1/animations": _animate,
    }
    routes: list[Route] = []
    for path, create in creators.items():
        routes += [Route("POST", path, create), Route("GET", f"{path}/{{id}}", _get)]
        routes.append(Route("DELETE", f"{path}/{{id}}", _delete))
    return tuple(routes)


VENDOR = Vendor(
    name="meshy",
    routes=_routes(),
    authorize=keys.bearer,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
)
