"""Vendors whose work is submitted and polled for: each is taken to every end it has, over HTTP."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from partners.simulator.conftest import tencent_keys
from partners.simulator.pointers import agrees, at

BEARER = {"authorization": "Bearer key"}
TASK_SECONDS = 0.15
UUID = "0f1b2c3d-4e5f-4a6b-8c7d-0123456789ab"


@dataclass(frozen=True)
class Vendor:
    """How one vendor is called, and what it says at each end; pointers are dotted, an index is a number."""

    path: str
    body: dict[str, Any]
    poll: str
    id: str
    status: str
    done: str
    link: str
    refused: Mapping[str, Any]
    failed: Mapping[str, Any]
    lacks: str
    invalid: Mapping[str, Any]
    unauthorized: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=lambda: BEARER)
    accepted: int = 200
    asks: Callable[[str], Any] | None = None
    asking: Mapping[str, str] = field(default_factory=dict)
    unknown: int = 404


VENDORS = {
    "wan": Vendor(
        path="/api/v1/services/aigc/video-generation/video-synthesis",
        body={"model": "wan2.6-t2v", "input": {"prompt": "a boat"}, "parameters": {"size": "1280*720", "duration": 5}},
        headers={**BEARER, "x-dashscope-async": "enable"},
        poll="/api/v1/tasks/{id}",
        id="output.task_id",
        status="output.task_status",
        done="SUCCEEDED",
        link="output.video_url",
        refused={"output.task_status": "FAILED", "output.code": "DataInspectionFailed"},
        failed={"output.task_status": "FAILED", "output.code": "InternalError"},
        lacks="input",
        invalid={"": 400, "code": "InvalidParameter"},
        unauthorized={"": 401, "code": "InvalidApiKey"},
        unknown=200,
    ),
    "meshy": Vendor(
        path="/openapi/v2/text-to-3d",
        body={"mode": "preview", "prompt": "a boat", "topology": "quad", "target_polycount": 1000},
        accepted=202,
        poll="/openapi/v2/text-to-3d/{id}",
        id="result",
        status="status",
        done="SUCCEEDED",
        link="model_urls.glb",
        refused={"status": "FAILED", "task_error.message": "The generation was blocked by our content moderation."},
        failed={"status": "FAILED", "task_error.message": "Internal error."},
        lacks="prompt",
        invalid={"": 400, "message": "Invalid values: Missing required parameter: 'prompt'."},
        unauthorized={"": 401, "message": "Invalid API key"},
    ),
    "tencent": Vendor(
        path="/",
        body={"File": {"Type": "GLB", "Url": "https://example.com/a.glb"}},
        headers={**tencent_keys(), "x-tc-action": "SubmitHunyuanTo3DUVJob"},
        poll="/",
        asking={"x-tc-action": "DescribeHunyuanTo3DUVJob"},
        asks=lambda id_: {"JobId": id_},
        id="Response.JobId",
        status="Response.Status",
        done="DONE",
        link="Response.ResultFile3Ds.0.Url",
        refused={"": 200, "Response.Error.Code": "OperationDenied.TextIllegalDetected"},
        failed={"Response.Status": "FAIL", "Response.ErrorCode": "FailedOperation.InnerError"},
        lacks="File",
        invalid={"": 200, "Response.Error.Code": "MissingParameter"},
        unauthorized={"": 200, "Response.Error.Code": "AuthFailure.SignatureFailure"},
        unknown=200,
    ),
    "ltx": Vendor(
        path="/v2/text-to-video",
        body={"prompt": "a boat", "model": "ltx-2-5-fast", "duration": 8, "resolution": "1920x1080"},
        accepted=202,
        poll="/v2/text-to-video/{id}",
        id="id",
        status="status",
        done="completed",
        link="result.video_url",
        refused={"": 422, "type": "error", "error.type": "content_filtered_error"},
        failed={"status": "failed", "error.type": "api_error"},
        lacks="duration",
        invalid={"": 400, "error.type": "invalid_request_error"},
        unauthorized={"": 401, "error.type": "authentication_error"},
    ),
    "xai": Vendor(
        path="/v1/videos/generations",
        body={"model": "grok-imagine-video", "prompt": "a boat", "duration": 6},
        poll="/v1/videos/{id}",
        id="request_id",
        status="status",
        done="done",
        link="video.url",
        refused={"status": "done", "block_reason": "The prompt was rejected by content moderation.", "video": None},
        failed={"": 200, "status": "failed", "error.code": "internal_error"},
        lacks="prompt",
        invalid={"": 422, "code": "Client specified an invalid argument"},
        unauthorized={"": 401, "code": "The caller does not have valid authentication credentials"},
    ),
    "krea": Vendor(
        path="/generate/image/krea/krea-2/large",
        body={"prompt": "a boat", "aspect_ratio": "1:1", "resolution": "1K"},
        poll="/jobs/{id}",
        id="job_id",
        status="status",
        done="completed",
        link="result.urls.0",
        refused={"status": "failed", "result.error": "Content moderation: the request was flagged as NSFW."},
        failed={"status": "failed", "result.error": "The generation service returned an error."},
        lacks="aspect_ratio",
        invalid={"": 400, "error": "Missing required parameter: 'aspect_ratio'."},
        unauthorized={"": 401, "error": "Unauthorized"},
    ),
    "freepik": Vendor(
        path="/v1/ai/image-upscaler-precision-v2",
        body={"image": "https://example.com/a.png", "scale_factor": 4, "flavor": "photo"},
        headers={"x-freepik-api-key": "key"},
        poll="/v1/ai/image-upscaler-precision-v2/{id}",
        id="data.task_id",
        status="data.status",
        done="COMPLETED",
        link="data.generated.0",
        refused={"data.status": "FAILED", "data.has_nsfw.0": True},
        failed={"data.status": "FAILED", "data.has_nsfw": None},
        lacks="image",
        invalid={"": 400, "invalid_params.0.name": "image"},
        unauthorized={"": 401, "message": "Invalid API key"},
    ),
    "bria": Vendor(
        path="/v2/image/edit/gen_fill",
        body={"image": "https://example.com/a.png", "mask": "https://example.com/b.png", "prompt": "a boat"},
        headers={"api_token": "key"},
        accepted=202,
        poll="/v2/status/{id}",
        id="request_id",
        status="status",
        done="COMPLETED",
        link="result.image_url",
        refused={"": 422, "error.code": 422, "error.message": "The input did not pass content moderation."},
        failed={"status": "ERROR", "error.code": 500},
        lacks="mask",
        invalid={"": 422, "error.details": "mask"},
        unauthorized={"": 401, "error.code": 401},
    ),
    "pruna": Vendor(
        path="/v1/predictions",
        body={"input": {"prompt": "a boat", "duration": 5, "fps": 24}},
        headers={"apikey": "key", "model": "p-video-2"},
        accepted=201,
        poll="/v1/predictions/status/{id}",
        id="id",
        status="status",
        done="succeeded",
        link="generation_url",
        refused={"status": "failed", "error": "The input was flagged by the safety checker."},
        failed={"status": "failed", "error": "The prediction failed."},
        lacks="input",
        invalid={"": 400, "error": "Bad Request"},
        unauthorized={"": 401, "error": "Unauthorized"},
    ),
    "synclabs": Vendor(
        path="/v2/generate",
        body={
            "model": "sync-3",
            "input": [
                {"type": "video", "url": "https://example.com/a.mp4"},
                {"type": "audio", "url": "https://example.com/a.wav"},
            ],
        },
        headers={"x-api-key": "key"},
        accepted=201,
        poll="/v2/generate/{id}",
        id="id",
        status="status",
        done="COMPLETED",
        link="outputUrl",
        refused={"status": "REJECTED", "errorCode": "generation_content_moderation"},
        failed={"status": "FAILED", "errorCode": "generation_pipeline_failed"},
        lacks="input",
        invalid={"": 400, "statusCode": 400, "error": "Bad Request"},
        unauthorized={"": 401, "statusCode": 401},
    ),
    "moonvalley": Vendor(
        path="/v1/prompts/text-to-video",
        body={"prompt_text": "a boat", "inference_params": {"width": 1920, "height": 1080, "steps": 33}},
        poll="/v1/prompts/{id}",
        id="id",
        status="status",
        done="completed",
        link="output_url",
        refused={"status": "error", "error.code": "content_moderation"},
        failed={"status": "error", "error.code": "internal_error"},
        lacks="prompt_text",
        invalid={"": 422, "detail.0.type": "missing", "detail.0.loc.1": "prompt_text"},
        unauthorized={"": 401, "detail": "Invalid API key"},
    ),
    "beeble": Vendor(
        path="/v1/switchx/generations",
        body={
            "generation_type": "video",
            "source_uri": "https://example.com/a.mp4",
            "alpha_mode": "auto",
            "prompt": "a boat",
        },
        headers={"x-api-key": "key"},
        accepted=201,
        poll="/v1/switchx/generations/{id}",
        id="id",
        status="status",
        done="completed",
        link="output.render",
        refused={"status": "failed", "error": "The content was rejected by moderation."},
        failed={"status": "failed", "error": "Generation failed due to an internal error."},
        lacks="prompt",
        invalid={"": 400, "error.code": "MISSING_STYLE_INPUT"},
        unauthorized={"": 401, "error.code": "INVALID_API_KEY"},
    ),
    "gemini-interactions": Vendor(
        path="/v1beta/interactions",
        body={"model": "gemini-omni-1.1-flash", "input": "a boat", "background": True},
        headers={"x-goog-api-key": "key"},
        poll="/v1beta/interactions/{id}",
        id="id",
        status="status",
        done="completed",
        link="",
        refused={"status": "failed", "error.code": "content_blocked"},
        failed={"status": "failed", "error.code": "internal_error"},
        lacks="input",
        invalid={"": 400, "error.code": 400, "error.status": "INVALID_ARGUMENT"},
        unauthorized={"": 403, "error.status": "PERMISSION_DENIED"},
    ),
    "wavespeed": Vendor(
        path="/api/v3/wavespeed-ai/seedvr2/image",
        body={"image": "https://example.com/a.png"},
        poll="/api/v3/predictions/{id}/result",
        id="data.id",
        status="data.status",
        done="completed",
        link="data.outputs.0",
        refused={"code": 200, "data.status": "failed", "data.code": 1200},
        failed={"code": 200, "data.status": "failed", "data.code": 1405},
        lacks="image",
        invalid={"": 400, "code": 400},
        unauthorized={"": 401, "code": 401},
    ),
    "higgsfield": Vendor(
        path="/kling-video/v3.0/pro/text-to-video",
        body={"prompt": "a boat", "duration": 5},
        headers={"authorization": "Key id:secret"},
        poll="/requests/{id}/status",
        id="request_id",
        status="status",
        done="completed",
        link="video.url",
        refused={"status": "nsfw"},
        failed={"status": "failed", "error": "Generation failed"},
        lacks="prompt",
        invalid={"": 422, "detail.0.type": "missing"},
        unauthorized={"": 401, "detail": "Invalid credentials"},
    ),
}

POLLED = pytest.mark.parametrize("name", VENDORS)


class Partner:
    """One vendor as its caller sees it."""

    def __init__(self, client: httpx.Client, name: str) -> None:
        """Take the vendor's facts by name."""
        self.client = client
        self.name = name
        self.facts = VENDORS[name]

    def submit(self, fault: str = "", lacks: str = "", headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Submit the vendor's own example, with a fault or without a field."""
        body = {key: value for key, value in self.facts.body.items() if key != lacks}
        if fault:
            body["note"] = f"[[fault:{fault}]]"
        sent = self.facts.headers if headers is None else headers
        return self.client.post(f"/{self.name}{self.facts.path}", json=body, headers=dict(sent))

    def poll(self, id_: str) -> httpx.Response:
        """Ask once how a task is."""
        path, headers = f"/{self.name}{self.facts.poll.format(id=id_)}", {**self.facts.headers, **self.facts.asking}
        if self.facts.asks is None:
            return self.client.get(path, headers=headers)
        return self.client.post(path, json=self.facts.asks(id_), headers=headers)

    def poll_to_end(self, answer: httpx.Response) -> httpx.Response:
        """Poll a submitted task until it says something new after it was running."""
        assert answer.status_code == self.facts.accepted, answer.text
        id_ = at(answer.json(), self.facts.id)
        time.sleep(TASK_SECONDS + 0.05)
        return self.poll(id_)

    def outcome(self, fault: str) -> httpx.Response:
        """Submit with a fault and return the answer that tells of it, be it the first or the last."""
        answer = self.submit(fault)
        is_accepted = answer.status_code == self.facts.accepted and at(answer.json(), self.facts.id)
        return self.poll_to_end(answer) if is_accepted else answer


@POLLED
def test_task_is_done_in_time(simulator: Any, name: str) -> None:
    """A submitted task is done after its time, with a file that can be fetched."""
    partner = Partner(simulator.client, name)
    ended = partner.poll_to_end(partner.submit())
    assert at(ended.json(), partner.facts.status) == partner.facts.done, ended.text
    if partner.facts.link:
        file = simulator.client.get(at(ended.json(), partner.facts.link))
        assert file.status_code == 200
        assert len(file.content) > 20


@POLLED
def test_moderation_refuses_in_the_vendors_own_words(simulator: Any, name: str) -> None:
    """A refused input ends as the vendor's documents say."""
    partner = Partner(simulator.client, name)
    agrees(partner.outcome("refused"), partner.facts.refused)


@POLLED
def test_refused_output_is_not_a_success_with_a_file(simulator: Any, name: str) -> None:
    """What moderation holds back has no address."""
    partner = Partner(simulator.client, name)
    answer = partner.outcome("refused-output")
    assert not at(answer.json(), partner.facts.link or "steps"), answer.text


@POLLED
def test_task_fails_in_the_vendors_own_words(simulator: Any, name: str) -> None:
    """An accepted task that fails says so where the vendor says it."""
    partner = Partner(simulator.client, name)
    agrees(partner.outcome("failed"), partner.facts.failed)


@POLLED
def test_missing_field_is_refused_with_the_vendors_validation_error(simulator: Any, name: str) -> None:
    """A body without something required is answered in the vendor's shape."""
    partner = Partner(simulator.client, name)
    agrees(partner.submit(lacks=partner.facts.lacks), partner.facts.invalid)


@POLLED
def test_call_without_a_key_is_unauthorized(simulator: Any, name: str) -> None:
    """No key, no work."""
    partner = Partner(simulator.client, name)
    agrees(partner.submit(headers={}), partner.facts.unauthorized)


@POLLED
def test_unknown_task_is_not_found(simulator: Any, name: str) -> None:
    """An id that was never given out is answered in the vendor's way."""
    partner = Partner(simulator.client, name)
    answer = partner.poll(UUID)
    assert answer.status_code == partner.facts.unknown, answer.text
    assert at(answer.json(), partner.facts.status) != partner.facts.done
