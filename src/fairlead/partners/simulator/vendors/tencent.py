"""Tencent Hunyuan 3D by API key (api.ai3d.cloud.tencent.com): 200 whatever happened, and the truth in `Response`."""

from collections.abc import Mapping
from typing import Any

from fairlead.partners.simulator import checks, keys
from fairlead.partners.simulator.answers import identifier, rejection, retry_headers, said
from fairlead.partners.simulator.media import model, picture
from fairlead.partners.simulator.tasks import Task
from fairlead.partners.simulator.vendor import Call, Handler, JsonObject, Problem, Reply, Route, Vendor, json_reply

_STATUSES = {"queued": "WAIT", "running": "RUN", "ended": "DONE", "cancelled": "FAIL"}
_CODES = {
    "unauthorized": "AuthFailure",
    "invalid": "InvalidParameterValue",
    "not_found": "FailedOperation.JobNotExist",
    "rate_limited": "RequestLimitExceeded",
    "refused": "OperationDenied.TextIllegalDetected",
    "refused_output": "OperationDenied.ImageIllegalDetected",
    "failed": "FailedOperation.InnerError",
}


def _problem(problem: Problem) -> Reply:
    code = "MissingParameter" if problem.code == "missing" else _CODES.get(problem.kind, "InternalError")
    message = said(
        problem,
        {
            "refused": "The input contains illegal content.",
            "refused_output": "The output contains illegal content.",
            "failed": "The job could not be processed.",
            "rate_limited": "Your current request times exceed the limit in a second.",
            "server_error": "An internal error has occurred.",
        },
    )
    status = problem.status or (404 if problem.code == "unknown_url" else 200)
    return json_reply(status, _wrapped({"Error": {"Code": code, "Message": message}}), *retry_headers(problem))


def _wrapped(response: Mapping[str, Any]) -> dict[str, Any]:
    return {"Response": {**response, "RequestId": identifier()}}


def _pro(body: JsonObject) -> None:
    checks.text(body, "Prompt", 1024)
    if not any(body.get(name) for name in ("Prompt", "ImageUrl", "ImageBase64")):
        raise Problem("invalid", "Prompt, ImageUrl or ImageBase64 is required.", code="missing")
    checks.one_of(body, "GenerateType", {"Normal", "LowPoly", "Geometry", "Sketch"})
    checks.integer(body, "FaceCount", 3000, 1_500_000)


def _uv(body: JsonObject) -> None:
    _check_file(body, "File", {"FBX", "OBJ", "GLB"})


def _part(body: JsonObject) -> None:
    _check_file(body, "File", {"FBX"})


def _smart_topology(body: JsonObject) -> None:
    _check_file(body, "File3D", {"GLB", "OBJ"})
    checks.one_of(body, "PolygonType", {"triangle", "quadrilateral"})
    checks.one_of(body, "FaceLevel", {"high", "medium", "low"})


def _texture_edit(body: JsonObject) -> None:
    _check_file(body, "File3D", {"FBX"})
    prompt = checks.text(body, "Prompt", 1024)
    if bool(prompt) == bool(body.get("Image")):
        raise Problem("invalid", "Either Image or Prompt is required, and they cannot coexist.", code="missing")


def _check_file(body: JsonObject, name: str, types: set[str]) -> None:
    checks.text(body, f"{name}.Url", 10_000, required=True)
    kind = checks.text(body, f"{name}.Type", 10, required=True)
    if kind.upper() not in types:
        raise Problem("invalid", f"{name}.Type must be one of {', '.join(sorted(types))}.", field=f"{name}.Type")


_ACTIONS = {
    "": _pro,
    "/uv": _uv,
    "/part": _part,
    "/smart-topology": _smart_topology,
    "/texture-edit": _texture_edit,
}


def _submit(action: str) -> Handler:
    def submit(call: Call) -> Reply:
        body = call.json()
        _ACTIONS[action](body)
        task = call.submit(str(int(identifier().replace("-", "")[:15], 16)), body, action=action)
        return json_reply(200, _wrapped({"JobId": task.id}))

    return submit


def _query(action: str) -> Handler:
    def query(call: Call) -> Reply:
        task = call.task(checks.text(call.json(), "JobId", 100, required=True))
        if task.facts["action"] != action:
            raise Problem("not_found", "The job does not exist.")
        return json_reply(200, _wrapped(_document(call, task)))

    return query


def _document(call: Call, task: Task) -> dict[str, Any]:
    document = {"Status": _STATUSES[task.stage], "ErrorCode": "", "ErrorMessage": "", "ResultFile3Ds": []}
    rejected = rejection(task)
    if rejected == "failed":
        message = "The job could not be processed."
        return document | {"Status": "FAIL", "ErrorCode": _CODES["failed"], "ErrorMessage": message}
    if rejected is not None:
        message = "The output contains illegal content."
        return document | {"Status": "FAIL", "ErrorCode": _CODES["refused_output"], "ErrorMessage": message}
    if task.stage != "ended":
        return document
    preview = call.link(picture("png", 512, 512), "preview.png", task)
    kinds = ("fbx",) if task.facts["action"] in ("/part", "/texture-edit") else ("glb", "obj")
    return document | {
        "ResultFile3Ds": [
            {"Type": kind.upper(), "Url": call.link(model(kind), f"result.{kind}", task), "PreviewImageUrl": preview}
            for kind in kinds
        ]
    }


def _routes() -> tuple[Route, ...]:
    routes: list[Route] = []
    for action in _ACTIONS:
        routes.append(Route("POST", f"/v1/ai3d{action}/submit", _submit(action)))
        routes.append(Route("POST", f"/v1/ai3d{action}/query", _query(action), creates=False))
    return tuple(routes)


VENDOR = Vendor(
    name="tencent",
    routes=_routes(),
    authorize=keys.header_key("authorization"),
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
    raises=frozenset({"refused"}),
)
