"""What single vendors do that no other does: batches, pairs of keys, waiting calls, second kinds of work."""

import time
from collections.abc import Mapping
from typing import Any

import pytest

from partners.simulator.conftest import tencent_keys

BEARER = {"authorization": "Bearer key"}
TASK_SECONDS = 0.15
UUIDS = [f"0f1b2c3d-4e5f-4a6b-8c7d-01234567890{number}" for number in range(8)]


def post(simulator: Any, path: str, body: Any, headers: Mapping[str, str] = BEARER) -> Any:
    """Send JSON and return status and document."""
    answer = simulator.client.post(path, json=body, headers=dict(headers))
    return answer.status_code, answer.json()


def get(simulator: Any, path: str, headers: Mapping[str, str] = BEARER) -> Any:
    """Fetch a document, with its status."""
    answer = simulator.client.get(path.removeprefix(simulator.url), headers=dict(headers))
    return answer.status_code, answer.json()


def image(uuid: str, **changes: Any) -> dict[str, Any]:
    """Make one of Runware's tasks."""
    return {"taskType": "imageInference", "taskUUID": uuid, "model": "bfl:2@1", "positivePrompt": "a", **changes}


def video(uuid: str, **changes: Any) -> dict[str, Any]:
    """Make another, which is asynchronous."""
    return image(uuid, taskType="videoInference", model="klingai:5@3", deliveryMethod="async", **changes)


def test_runware_answers_a_batch_task_by_task(simulator: Any) -> None:
    """What went well and what did not stand side by side."""
    status, answer = post(simulator, "/runware/v1", [image(UUIDS[0], includeCost=True), image(UUIDS[1], width=3)])
    assert status == 200
    assert answer["data"][0]["taskUUID"] == UUIDS[0]
    assert answer["data"][0]["cost"] > 0
    assert simulator.client.get(answer["data"][0]["imageURL"]).status_code == 200
    wrong = answer["errors"][0]
    assert (wrong["code"], wrong["parameter"], wrong["taskUUID"]) == ("invalidParameter", "width", UUIDS[1])


def test_runware_answers_only_errors_with_their_status(simulator: Any) -> None:
    """Nothing but mistakes is 400."""
    status, answer = post(simulator, "/runware/v1", [{"taskType": "imageInference", "taskUUID": UUIDS[2]}])
    assert (status, answer["errors"][0]["code"], answer["errors"][0]["parameter"]) == (400, "missingParameter", "model")


def test_runware_refuses_in_its_own_words(simulator: Any) -> None:
    """Moderation has the code of the provider behind it."""
    status, answer = post(simulator, "/runware/v1", [image(UUIDS[3], note="[[fault:refused]]")])
    assert (status, answer["errors"][0]["code"]) == (400, "invalidProviderContent")


@pytest.mark.parametrize(
    ("fault", "code"), [("refused", "invalidProviderContent"), ("failed", "providerError"), ("", "")]
)
def test_runware_is_polled_by_a_task_of_its_own(simulator: Any, fault: str, code: str) -> None:
    """`getResponse` says processing, then the result or the error."""
    uuid = UUIDS[4] if not fault else UUIDS[5] if fault == "refused" else UUIDS[6]
    asked = [{"taskType": "getResponse", "taskUUID": uuid}]
    submitted = post(simulator, "/runware/v1", [video(uuid, note=f"[[fault:{fault}]]")])
    assert submitted == (200, {"data": [{"taskType": "videoInference", "taskUUID": uuid}]})
    time.sleep(TASK_SECONDS + 0.05)
    status, answer = post(simulator, "/runware/v1", asked)
    assert status == 200
    if fault:
        assert (answer["errors"][0]["code"], answer["errors"][0]["status"]) == (code, "error")
    else:
        assert answer["data"][0]["status"] == "success"
        assert simulator.client.get(answer["data"][0]["videoURL"]).headers["content-type"] == "video/mp4"


def test_runware_does_not_know_every_task(simulator: Any) -> None:
    """An id that was never given is an error."""
    status, answer = post(simulator, "/runware/v1", [{"taskType": "getResponse", "taskUUID": UUIDS[7]}])
    assert (status, answer["errors"][0]["code"]) == (404, "taskNotFound")


def test_runware_takes_the_key_from_a_task_too(simulator: Any) -> None:
    """A first task `authentication` is as good as the header."""
    login = {"taskType": "authentication", "apiKey": "key"}
    assert post(simulator, "/runware/v1", [login, image(UUIDS[0])], {})[0] == 200
    status, answer = post(simulator, "/runware/v1", [image(UUIDS[0])], {})
    assert (status, answer["errors"][0]["code"], answer["errors"][0]["taskType"]) == (
        401,
        "invalidApiKey",
        "authentication",
    )


def test_higgsfield_takes_a_pair_of_keys_either_way(simulator: Any) -> None:
    """One header or two, but never half a pair."""
    path, body = "/higgsfield/kling-video/v3.0/std/text-to-video", {"prompt": "a boat"}
    assert post(simulator, path, body, {"hf-api-key": "id", "hf-secret": "secret"})[0] == 200
    assert post(simulator, path, body, {"authorization": "Key id"}) == (401, {"detail": "Invalid credentials"})
    assert post(simulator, path, body, BEARER)[0] == 401


def test_higgsfield_cancels_what_is_queued(simulator: Any) -> None:
    """A cancelled request says so forever."""
    headers = {"authorization": "Key id:secret"}
    _, request = post(
        simulator, "/higgsfield/kling-video/v3.0/pro/text-to-video", {"prompt": "[[fault:stuck]]"}, headers
    )
    cancelled = simulator.client.post(request["cancel_url"], headers=headers)
    if cancelled.status_code == 202:
        assert get(simulator, request["status_url"], headers)[1]["status"] == "canceled"
    else:
        assert cancelled.status_code == 400


def test_wan_is_asynchronous_or_nothing(simulator: Any) -> None:
    """Without its header the call is denied."""
    body = {"model": "wan2.6-t2v", "input": {"prompt": "a boat"}}
    status, answer = post(simulator, "/wan/api/v1/services/aigc/video-generation/video-synthesis", body)
    assert (status, answer["code"]) == (403, "AccessDenied")


def test_wan_notices_a_missing_image_only_in_the_task(simulator: Any) -> None:
    """The newer models accept the call and fail the task."""
    headers = {**BEARER, "x-dashscope-async": "enable"}
    body = {"model": "wan2.7-i2v", "input": {"prompt": "a boat"}}
    status, answer = post(simulator, "/wan/api/v1/services/aigc/video-generation/video-synthesis", body, headers)
    assert status == 200
    time.sleep(TASK_SECONDS + 0.05)
    output = get(simulator, f"/wan/api/v1/tasks/{answer['output']['task_id']}")[1]["output"]
    assert (output["task_status"], output["code"]) == ("FAILED", "InvalidParameter")


def test_wan_makes_images(simulator: Any) -> None:
    """Image tasks have results instead of a video."""
    headers = {**BEARER, "x-dashscope-async": "enable"}
    body = {"model": "wan2.5-i2i-preview", "input": {"prompt": "a", "images": ["https://example.com/a.png"]}}
    _, answer = post(simulator, "/wan/api/v1/services/aigc/image2image/image-synthesis", body, headers)
    time.sleep(TASK_SECONDS + 0.05)
    document = get(simulator, f"/wan/api/v1/tasks/{answer['output']['task_id']}")[1]
    assert document["usage"] == {"image_count": 1, "size": "1280*1280"}
    assert simulator.client.get(document["output"]["results"][0]["url"]).headers["content-type"] == "image/png"


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("v2/text-to-3d", {"mode": "refine", "preview_task_id": UUIDS[0]}, "model_urls"),
        ("v1/remesh", {"input_task_id": UUIDS[0], "target_formats": ["glb"]}, "model_urls"),
        ("v1/rigging", {"model_url": "https://example.com/a.glb"}, "result"),
        ("v1/animations", {"rig_task_id": UUIDS[0], "action_id": 92}, "result"),
    ],
)
def test_meshy_works_on_models(simulator: Any, path: str, body: Any, pointer: str) -> None:
    """Refining, remeshing, rigging and animating are tasks of their own addresses."""
    status, answer = post(simulator, f"/meshy/openapi/{path}", body)
    assert status == 202
    time.sleep(TASK_SECONDS + 0.05)
    document = get(simulator, f"/meshy/openapi/{path}/{answer['result']}")[1]
    assert (document["status"], document["progress"], bool(document[pointer])) == ("SUCCEEDED", 100, True)


@pytest.mark.parametrize(
    ("actions", "body", "kind"),
    [
        ("SubmitHunyuanTo3DProJob QueryHunyuanTo3DProJob", {"Prompt": "a boat"}, "GLB"),
        (
            "SubmitHunyuan3DPartJob QueryHunyuan3DPartJob",
            {"File": {"Type": "FBX", "Url": "https://example.com/a.fbx"}},
            "FBX",
        ),
        (
            "Submit3DSmartTopologyJob Describe3DSmartTopologyJob",
            {"File3D": {"Type": "GLB", "Url": "https://example.com/a.glb"}},
            "GLB",
        ),
    ],
)
def test_tencent_has_one_address_for_all_actions(simulator: Any, actions: str, body: Any, kind: str) -> None:
    """The header says what is meant, and work is found by the question that belongs to it only."""
    submit, query = actions.split()
    status, answer = post(simulator, "/tencent/", body, {**tencent_keys(), "x-tc-action": submit})
    assert status == 200
    time.sleep(TASK_SECONDS + 0.05)
    job = {"JobId": answer["Response"]["JobId"]}
    response = post(simulator, "/tencent/", job, {**tencent_keys(), "x-tc-action": query})[1]["Response"]
    assert (response["Status"], response["ResultFile3Ds"][0]["Type"]) == ("DONE", kind)
    other = {**tencent_keys(), "x-tc-action": "DescribeHunyuanTo3DUVJob"}
    assert post(simulator, "/tencent/", job, other)[1]["Response"]["Error"]["Code"] == "FailedOperation.JobNotExist"


def test_tencent_refuses_signatures_that_do_not_fit(simulator: Any) -> None:
    """The signature of its own key pair must be right and fresh, and that of any other must look like one."""
    keys = {**tencent_keys(), "x-tc-action": "SubmitHunyuanTo3DProJob"}
    own = {**keys, "authorization": keys["authorization"].replace("AKIDanybody", "simulated-access")}
    for headers in (own, {**own, "x-tc-timestamp": "1551113065"}, {**keys, "authorization": "sk-key"}):
        answer = post(simulator, "/tencent/", {"Prompt": "a boat"}, headers)[1]
        assert answer["Response"]["Error"]["Code"] == "AuthFailure.SignatureFailure"


def test_xai_answers_202_while_a_video_is_pending(simulator: Any) -> None:
    """The status of HTTP tells, and the status in the body."""
    body = {"model": "grok-imagine-video", "prompt": "[[fault:stuck]]"}
    _, answer = post(simulator, "/xai/v1/videos/generations", body)
    status, document = get(simulator, f"/xai/v1/videos/{answer['request_id']}")
    assert (status, document["status"]) == (202, "pending")


def test_pruna_waits_when_it_is_asked_to(simulator: Any) -> None:
    """`Try-Sync` answers with the result."""
    headers = {"apikey": "key", "model": "p-video-2", "try-sync": "true"}
    status, answer = post(simulator, "/pruna/v1/predictions", {"input": {"prompt": "a boat"}}, headers)
    assert (status, answer["status"]) == (200, "succeeded")
    assert simulator.client.get(answer["generation_url"]).status_code == 200


def test_bria_waits_when_it_is_asked_to(simulator: Any) -> None:
    """`sync` answers with the result."""
    body = {"image": "https://example.com/a.png", "sync": True}
    status, answer = post(simulator, "/bria/v2/image/edit/remove_background", body, {"api_token": "key"})
    assert status == 200
    assert simulator.client.get(answer["result"]["image_url"]).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/bria/v2/image/generate", {"prompt": "a boat"}, "image_url"),
        ("/bria/v2/structured_instruction/generate", {"instruction": "red"}, "structured_instruction"),
        ("/bria/v2/video/edit/green_screen", {"video": "https://example.com/a.mp4"}, "video_url"),
    ],
)
def test_bria_is_followed_at_its_status_address(simulator: Any, path: str, body: Any, pointer: str) -> None:
    """The address in the first answer is where the result is."""
    _, answer = post(simulator, path, body, {"api_token": "key"})
    time.sleep(TASK_SECONDS + 0.05)
    document = get(simulator, answer["status_url"], {"api_token": "key"})[1]
    assert document["result"][pointer]


def test_gemini_gives_the_bytes_to_anyone_who_asks_again(simulator: Any) -> None:
    """The address of a video is in the first answer only."""
    headers = {"x-goog-api-key": "key"}
    body = {"model": "gemini-omni-1.1-flash", "input": "a boat", "response_format": {"delivery": "uri"}}
    _, first = post(simulator, "/gemini-interactions/v1beta/interactions", body, headers)
    _, second = get(simulator, f"/gemini-interactions/v1beta/interactions/{first['id']}", headers)
    assert set(first["steps"][0]["content"][0]) == {"type", "mime_type", "uri"}
    assert set(second["steps"][0]["content"][0]) == {"type", "mime_type", "data"}


def test_gemini_calls_a_wrong_key_an_invalid_argument(simulator: Any) -> None:
    """Google does so in all its APIs."""
    body = {"model": "gemini-omni-1.1-flash", "input": "a boat"}
    status, answer = post(simulator, "/gemini-interactions/v1beta/interactions?key=invalid", body, {})
    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_beeble_has_a_code_for_every_mistake(simulator: Any) -> None:
    """The code says which."""
    body = {"generation_type": "video", "source_uri": "https://example.com/a.mp4", "alpha_mode": "auto", "prompt": "a"}
    changes: dict[str, dict[str, Any]] = {
        "INVALID_GENERATION_TYPE": {"generation_type": "song"},
        "INVALID_ALPHA_MODE": {"alpha_mode": "none"},
        "MISSING_SOURCE": {"source_uri": ""},
        "MISSING_ALPHA": {"alpha_mode": "custom"},
        "INVALID_MAX_RESOLUTION": {"max_resolution": 480},
        "INVALID_URI": {"source_uri": "ftp://example.com"},
    }
    for code, change in changes.items():
        answer = post(simulator, "/beeble/v1/switchx/generations", {**body, **change}, {"x-api-key": "key"})
        assert (answer[0], answer[1]["error"]["code"]) == (400, code)


def test_freepik_enhances_skin_three_ways(simulator: Any) -> None:
    """One address to ask serves all of them."""
    headers = {"x-freepik-api-key": "key"}
    for mode in ("creative", "faithful", "flexible"):
        path, body = f"/freepik/v1/ai/skin-enhancer/{mode}", {"image": "https://example.com/a.png", "sharpen": 10}
        status, answer = post(simulator, path, body, headers)
        assert status == 200
        time.sleep(TASK_SECONDS + 0.05)
        asked = f"/freepik/v1/ai/skin-enhancer/{answer['data']['task_id']}"
        assert get(simulator, asked, headers)[1]["data"]["status"] == "COMPLETED"


def test_wavespeed_waits_when_it_is_asked_to(simulator: Any) -> None:
    """The synchronous mode answers with a finished prediction."""
    body = {"prompt": "a boat", "enable_sync_mode": True}
    _, answer = post(simulator, "/wavespeed/api/v3/wavespeed-ai/flux-kontext-pro/text-to-image", body)
    assert (answer["data"]["status"], len(answer["data"]["outputs"])) == ("completed", 1)
