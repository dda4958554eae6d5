"""Tencent HY 3D (hunyuan.intl.tencentcloudapi.com): one address for all actions, and every call is signed.

The status is 200 whatever happened, and the truth is in `Response`.
"""

import hashlib
import hmac
import re
import time
from collections.abc import Mapping

from fairlead_partners.simulator import checks
from fairlead_partners.simulator.answers import identifier, rejection, retry_headers, words_of
from fairlead_partners.simulator.keys import check_key
from fairlead_partners.simulator.media import model, picture
from fairlead_partners.simulator.tasks import Task
from fairlead_partners.simulator.vendor import Call, Handler, JsonObject, Problem, Reply, Route, Vendor, json_reply

SECRET_ID = "simulated-access"  # noqa: S105 -- made up as well
SECRET_KEY = "simulated-secret-of-32-characters!!"  # noqa: S105 -- made up, and printed in PROTOCOL.md
_VERSION = "2023-09-01"
_VALID_SECONDS = 300
_AUTHORIZATION = re.compile(
    r"TC3-HMAC-SHA256 Credential=([^/\s]+)/(\d{4}-\d\d-\d\d)/hunyuan/tc3_request, "
    r"SignedHeaders=content-type;host, Signature=([0-9a-f]{64})"
)

_STATUSES = {"queued": "WAIT", "running": "RUN", "ended": "DONE", "cancelled": "FAIL"}
_CODES = {
    "unauthorized": "AuthFailure.SignatureFailure",
    "invalid": "InvalidParameterValue",
    "not_found": "FailedOperation.JobNotExist",
    "rate_limited": "RequestLimitExceeded",
    "refused": "OperationDenied.TextIllegalDetected",
    "refused_output": "OperationDenied.ImageIllegalDetected",
    "failed": "FailedOperation.InnerError",
}


def _problem(problem: Problem) -> Reply:
    code = "MissingParameter" if problem.code == "missing" else _CODES.get(problem.kind, "InternalError")
    message = words_of(
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
    return json_reply(status, _wrap({"Error": {"Code": code, "Message": message}}), *retry_headers(problem))


def _wrap(response: Mapping[str, object]) -> dict[str, object]:
    return {"Response": {**response, "RequestId": identifier()}}


def _authorize(call: Call) -> str | None:
    """Say what is wrong with a signature; that of the simulator's own key pair is worked out."""
    match = _AUTHORIZATION.fullmatch(call.headers.get("authorization", ""))
    timestamp = call.headers.get("x-tc-timestamp", "")
    if match is None or not timestamp.isdigit():
        return "The provided credentials could not be validated. Please check your signature is correct."
    secret_id, date, signature = match.groups()
    if secret_id != SECRET_ID:
        return check_key(secret_id)
    if abs(time.time() - int(timestamp)) > _VALID_SECONDS:
        return "The signature has expired."
    if not hmac.compare_digest(signature, _signature(call, timestamp, date)):
        return "The provided credentials could not be validated. Please check your signature is correct."
    return None


def _signature(call: Call, timestamp: str, date: str) -> str:
    content_type, host = call.headers.get("content-type", ""), call.headers.get("host", "")
    request = (
        f"{call.method}\n/{call.vendor}{call.path}\n\ncontent-type:{content_type.lower()}\nhost:{host.lower()}\n\n"
        f"content-type;host\n{hashlib.sha256(call.body).hexdigest()}"
    )
    told = f"TC3-HMAC-SHA256\n{timestamp}\n{date}/hunyuan/tc3_request\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = hmac.new(f"TC3{SECRET_KEY}".encode(), date.encode(), hashlib.sha256).digest()
    key = hmac.new(key, b"hunyuan", hashlib.sha256).digest()
    key = hmac.new(key, b"tc3_request", hashlib.sha256).digest()
    return hmac.new(key, told.encode(), hashlib.sha256).hexdigest()


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
    "SubmitHunyuanTo3DProJob": ("QueryHunyuanTo3DProJob", _pro),
    "SubmitHunyuanTo3DUVJob": ("DescribeHunyuanTo3DUVJob", _uv),
    "SubmitHunyuan3DPartJob": ("QueryHunyuan3DPartJob", _part),
    "Submit3DSmartTopologyJob": ("Describe3DSmartTopologyJob", _smart_topology),
    "SubmitHunyuanTo3DTextureEditJob": ("QueryHunyuanTo3DTextureEditJob", _texture_edit),
}
"""How each kind of work is ordered, how it is asked about, and what is wrong with its body."""


_OF_FBX = {"SubmitHunyuan3DPartJob", "SubmitHunyuanTo3DTextureEditJob"}


def _submit(action: str) -> Handler:
    def submit(call: Call) -> Reply:
        body = call.json()
        _ACTIONS[action][1](body)
        task = call.submit(str(int(identifier().replace("-", "")[:15], 16)), body, action=action)
        return json_reply(200, _wrap({"JobId": task.id}))

    return submit


def _query(action: str) -> Handler:
    def query(call: Call) -> Reply:
        task = call.task(checks.text(call.json(), "JobId", 100, required=True))
        if task.facts["action"] != action:
            raise Problem("not_found", "The job does not exist.")
        return json_reply(200, _wrap(_document(call, task)))

    return query


def _document(call: Call, task: Task) -> dict[str, object]:
    document: dict[str, object] = {
        "Status": _STATUSES[task.stage],
        "ErrorCode": "",
        "ErrorMessage": "",
        "ResultFile3Ds": [],
    }
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
    kinds = ("fbx",) if task.facts["action"] in _OF_FBX else ("glb", "obj")
    return document | {
        "ResultFile3Ds": [
            {"Type": kind.upper(), "Url": call.link(model(kind), f"result.{kind}", task), "PreviewImageUrl": preview}
            for kind in kinds
        ]
    }


def _routes() -> tuple[Route, ...]:
    routes: list[Route] = []
    for submit, (query, _) in _ACTIONS.items():
        routes.append(Route("POST", "/", _submit(submit), headers=_action(submit)))
        routes.append(Route("POST", "/", _query(submit), creates=False, headers=_action(query)))
    return tuple(routes)


def _action(name: str) -> dict[str, str]:
    return {"x-tc-action": name, "x-tc-version": _VERSION}


VENDOR = Vendor(
    name="tencent",
    routes=_routes(),
    authorize=_authorize,
    problem=_problem,
    supports=frozenset({"refused", "refused-output", "failed", "stuck", "expired-link"}),
    raises=frozenset({"refused"}),
)
