"""What the two Google vendors share: the key in either header, and errors as google.rpc.Status."""

from .answers import retry_headers
from .keys import bearer, either, header_key
from .vendor import Problem, Reply, json_reply

authorize = either(bearer, header_key("x-goog-api-key"))

_KINDS = {
    "unauthorized": (401, "UNAUTHENTICATED"),
    "invalid": (400, "INVALID_ARGUMENT"),
    "not_found": (404, "NOT_FOUND"),
    "rate_limited": (429, "RESOURCE_EXHAUSTED"),
    "refused": (400, "INVALID_ARGUMENT"),
}
_STATUSES = {503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
_UNAUTHENTICATED = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project."
)
_EXHAUSTED = (
    "Resource exhausted. Please try again later. Please refer to "
    "https://cloud.google.com/vertex-ai/generative-ai/docs/error-code-429 for more details."
)
BLOCKED_PROMPT = (
    "The prompt could not be submitted. This prompt contains sensitive words that violate Google's Responsible AI "
    "practices. Try rephrasing the prompt. If you think this was an error, send feedback."
)


def problem_reply(problem: Problem) -> Reply:
    """Render a problem as Google's APIs do."""
    code, word = _KINDS.get(problem.kind, (500, "INTERNAL"))
    code = problem.status or code
    message = problem.message
    if problem.kind == "unauthorized":
        message = _UNAUTHENTICATED
    elif problem.kind == "rate_limited":
        message = _EXHAUSTED
    error = {"code": code, "message": message, "status": _STATUSES.get(code, word)}
    return json_reply(code, {"error": error}, *retry_headers(problem))
