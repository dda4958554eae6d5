"""BFL, BytePlus video, Veo, Kling, Luma, Runway, MiniMax and fal: submit, poll, refuse, fail, complain."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

SEEDANCE = {"model": "dreamina-seedance-2-0-260128", "content": [{"type": "text", "text": "waves"}], "duration": 5}
RUNWAY = {"model": "gen4_turbo", "promptImage": "https://x.test/a.png", "ratio": "1280:720", "duration": 5}
RAY = {"model": "ray-2", "prompt": "waves at dusk", "aspect_ratio": "16:9", "resolution": "720p", "duration": "5s"}
H3 = {**SEEDANCE, "model": "MiniMax-H3", "resolution": "768P"}
HAILUO = {"model": "MiniMax-Hailuo-2.3", "prompt": "waves", "duration": 6, "resolution": "768P"}
KLING = {"model_name": "kling-v3", "prompt": "waves", "duration": "5", "mode": "pro"}
VEO = {"instances": [{"prompt": "waves"}], "parameters": {"durationSeconds": 8, "sampleCount": 1}}
VEO_MODEL = "/veo/v1/projects/p/locations/us-central1/publishers/google/models/veo-3.1-generate-001"
ARK = "/byteplus/api/v3/contents/generations/tasks"
LUMA = "/luma/dream-machine/v1/generations"


def with_fault(body: dict[str, Any], fault: str) -> dict[str, Any]:
    """Put a fault into a field nobody reads."""
    return {**body, "note": f"[[fault:{fault}]]"}


def submit_and_poll(
    simulator: Any, path: str, body: dict[str, Any], poll: str, name: str, waiting: set[str]
) -> list[Any]:
    """Submit and poll until the status, a dotted name, waits no more; return every document."""
    submitted = simulator.post(path, body).json()
    address = poll.format(submitted.get("id") or submitted.get("task_id") or submitted["data"]["task_id"])
    _, seen = simulator.until(lambda: simulator.get(address), lambda document: status(document, name) not in waiting)
    return list(seen)


def status(document: Any, name: str) -> Any:
    """Return a field by its dotted name."""
    for part in name.split("."):
        document = document[part]
    return document


def content_type_of(address: str) -> str:
    """Fetch a link and return its type."""
    answer = httpx.get(address)
    assert answer.status_code == 200
    return answer.headers["content-type"]


def test_bfl_is_ready_or_moderated(simulator: Any) -> None:
    """Pending, then one of its terminal statuses; what is unknown is a status too."""
    for fault, expected in (("refused", "Request Moderated"), ("refused-output", "Content Moderated")):
        submitted = simulator.post("/bfl/v1/flux-2-pro", with_fault({"prompt": "x"}, fault)).json()
        document, seen = simulator.until(
            lambda address=submitted["polling_url"]: simulator.get(address),
            lambda document: document["status"] != "Pending",
        )
        assert (seen[0]["status"], document["status"], document["result"]) == ("Pending", expected, None)
    unknown = simulator.get("/bfl/v1/get_result?id=nobody")
    assert (unknown.status_code, unknown.json()["status"]) == (404, "Task not found")
    answer = simulator.post("/bfl/v1/flux-2-pro", {"prompt": "x", "width": 9999})
    assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, ["body", "width"])


def seedance(simulator: Any, body: dict[str, Any]) -> list[Any]:
    """Run a video task of BytePlus."""
    return submit_and_poll(simulator, ARK, body, ARK + "/{}", "status", {"queued", "running"})


@pytest.fixture(scope="module")
def unhurried(start_simulator: Any) -> Iterator[Any]:
    """Return a simulator whose tasks take so long that a busy machine sees each of their stages."""
    with start_simulator("--task-seconds", "3") as started:
        yield started


def test_byteplus_video_passes_through_its_statuses(unhurried: Any) -> None:
    """Queued, running, succeeded, with tokens by size and length and both links."""
    seen = seedance(unhurried, {**SEEDANCE, "return_last_frame": True, "resolution": "480p"})
    assert [seen[0]["status"], seen[-1]["status"]] == ["queued", "succeeded"]
    assert "running" in {document["status"] for document in seen}
    assert content_type_of(seen[-1]["content"]["video_url"]) == "video/mp4"
    assert content_type_of(seen[-1]["content"]["last_frame_url"]) == "image/png"
    assert seen[-1]["usage"]["total_tokens"] == 5 * 864 * 496 * 24 // 1024


def test_byteplus_video_refuses_at_both_ends(simulator: Any) -> None:
    """The prompt is refused at once; the video by a failed task."""
    answer = simulator.post(ARK, with_fault(SEEDANCE, "refused"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "InputTextSensitiveContentDetected")
    document = seedance(simulator, with_fault(SEEDANCE, "refused-output"))[-1]
    assert (document["status"], document["error"]["code"]) == ("failed", "OutputVideoSensitiveContentDetected")
    assert simulator.post(ARK, {**SEEDANCE, "ratio": "7:1"}).json()["error"]["code"] == "InvalidParameter"


def test_byteplus_video_can_be_cancelled_while_queued(simulator: Any) -> None:
    """DELETE at once is in time."""
    id_ = simulator.post(ARK, SEEDANCE).json()["id"]
    simulator.client.delete(f"{ARK}/{id_}", headers=dict(simulator.keys("byteplus")))
    assert simulator.get(f"{ARK}/{id_}").json()["status"] == "cancelled"


def veo(simulator: Any, body: dict[str, Any]) -> Any:
    """Run a Veo operation."""
    name = simulator.post(f"{VEO_MODEL}:predictLongRunning", body).json()["name"]
    document, seen = simulator.until(
        lambda: simulator.post(f"{VEO_MODEL}:fetchPredictOperation", {"operationName": name}),
        lambda document: document.get("done", False),
    )
    assert (seen[0], document["name"]) == ({"name": name}, name)
    return document


def test_veo_is_done_with_videos_or_filtered_or_failed(simulator: Any) -> None:
    """Policy is a count without videos, failure an error with a gRPC code."""
    assert veo(simulator, VEO)["response"]["videos"][0]["mimeType"] == "video/mp4"
    filtered = veo(simulator, with_fault(VEO, "refused"))["response"]
    assert (filtered["raiMediaFilteredCount"], "videos" in filtered) == (1, False)
    assert veo(simulator, with_fault(VEO, "refused:error"))["error"]["code"] == 3
    assert veo(simulator, with_fault(VEO, "failed"))["error"]["code"] == 13
    answer = simulator.post(f"{VEO_MODEL}:predictLongRunning", {"instances": [{}]})
    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")


def kling(simulator: Any, kind: str, body: dict[str, Any]) -> Any:
    """Run a Kling task."""
    path = f"/kling/v1/{kind}"
    return submit_and_poll(simulator, path, body, path + "/{}", "data.task_status", {"submitted", "processing"})[-1][
        "data"
    ]


def test_kling_succeeds_in_its_envelope(simulator: Any) -> None:
    """Videos and images, with the units deducted as text."""
    video = kling(simulator, "videos/text2video", KLING)
    assert (video["task_status"], video["final_unit_deduction"]) == ("succeed", "4")
    assert content_type_of(video["task_result"]["videos"][0]["url"]) == "video/mp4"
    image = kling(simulator, "images/generations", {"prompt": "waves", "n": 2})
    assert [one["index"] for one in image["task_result"]["images"]] == [0, 1]


def test_kling_refuses_and_complains(simulator: Any) -> None:
    """A refusal is a failed task, or 1301 at once; a bad field is 1201."""
    refused = kling(simulator, "videos/text2video", with_fault(KLING, "refused"))
    assert (refused["task_status"], refused["task_status_msg"]) == ("failed", "Failure to pass the risk control system")
    at_once = simulator.post("/kling/v1/videos/text2video", with_fault(KLING, "refused:1301"))
    assert (at_once.status_code, at_once.json()["code"]) == (400, 1301)
    answer = simulator.post("/kling/v1/videos/text2video", {**KLING, "duration": 5})
    assert (answer.status_code, answer.json()["code"]) == (400, 1201)


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"exp": 1}, 1004), ({"nbf": int(time.time()) + 86_400}, 1003), ({"iss": "somebody"}, 1002)],
)
def test_kling_verifies_the_token(simulator: Any, changes: dict[str, Any], code: int) -> None:
    """Expired, not yet valid, and somebody else's."""
    headers = {"authorization": f"Bearer {simulator.kling_token(**changes)}"}
    answer = simulator.client.post("/kling/v1/videos/text2video", json=KLING, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, code)


def test_luma_dreams_and_completes_or_fails(simulator: Any, unhurried: Any) -> None:
    """201, then dreaming, then assets or a reason."""
    assert simulator.post(LUMA, RAY).status_code == 201
    seen = submit_and_poll(unhurried, LUMA, RAY, LUMA + "/{}", "state", {"queued", "dreaming"})
    assert seen[0]["state"] == "queued"
    assert content_type_of(seen[-1]["assets"]["video"]) == "video/mp4"
    failed = submit_and_poll(
        simulator, LUMA, with_fault(RAY, "refused"), LUMA + "/{}", "state", {"queued", "dreaming"}
    )[-1]
    assert (failed["state"], failed["assets"]) == ("failed", None)
    assert "moderation" in failed["failure_reason"]
    photon = {"model": "photon-1", "prompt": "waves"}
    image = submit_and_poll(simulator, LUMA + "/image", photon, LUMA + "/{}", "state", {"queued", "dreaming"})[-1]
    assert content_type_of(image["assets"]["image"]) == "image/jpeg"
    assert isinstance(simulator.post(LUMA, {**RAY, "model": "ray-9"}).json()["detail"], str)


def test_luma_agents_completes_or_fails(simulator: Any) -> None:
    """201, processing, then output or a code and a reason."""
    path, waiting = "/luma_2/v1/generations", {"queued", "processing"}
    done = submit_and_poll(simulator, path, {"prompt": "waves", "model": "uni-1"}, path + "/{}", "state", waiting)[-1]
    assert content_type_of(done["output"][0]["url"]) == "image/png"
    failed = submit_and_poll(
        simulator, path, with_fault({"prompt": "waves"}, "refused"), path + "/{}", "state", waiting
    )[-1]
    assert (failed["state"], failed["failure_code"]) == ("failed", "content_moderated")
    assert simulator.post(path, {"prompt": "waves", "aspect_ratio": "4:3"}).status_code == 422


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("refused", "SAFETY.INPUT.TEXT"),
        ("refused-output", "SAFETY.OUTPUT.VIDEO"),
        ("failed", "INTERNAL.BAD_OUTPUT.CODE01"),
    ],
)
def test_runway_fails_with_a_code(simulator: Any, fault: str, code: str) -> None:
    """The task ends FAILED."""
    seen = submit_and_poll(
        simulator, "/runway/v1/image_to_video", with_fault(RUNWAY, fault), "/runway/v1/tasks/{}", "status", _WAITING
    )
    assert (seen[-1]["status"], seen[-1]["failureCode"]) == ("FAILED", code)


_WAITING = {"PENDING", "RUNNING"}


def test_runway_succeeds_and_complains(simulator: Any) -> None:
    """Output is a list of links; a bad field is an issue; the version is demanded."""
    seen = submit_and_poll(simulator, "/runway/v1/image_to_video", RUNWAY, "/runway/v1/tasks/{}", "status", _WAITING)
    assert content_type_of(seen[-1]["output"][0]) == "video/mp4"
    answer = simulator.post("/runway/v1/image_to_video", {**RUNWAY, "ratio": "1:1"})
    assert (answer.status_code, answer.json()["error"]) == (400, "Validation of body failed")
    assert answer.json()["issues"][0]["path"] == ["ratio"]
    assert simulator.post("/runway/v1/image_to_video", RUNWAY, **{"x-runway-version": ""}).status_code == 400


def test_minimax_hides_the_file_behind_a_second_call(simulator: Any) -> None:
    """Success names a file, whose address is asked for."""
    poll = "/minimax/v1/query/video_generation?task_id={}"
    waiting = {"Queueing", "Processing"}
    seen = submit_and_poll(simulator, "/minimax/v1/video_generation", HAILUO, poll, "status", waiting)
    assert (seen[0]["file_id"], seen[-1]["status"]) == ("", "Success")
    file = simulator.get(f"/minimax/v1/files/retrieve?file_id={seen[-1]['file_id']}").json()["file"]
    assert content_type_of(file["download_url"]) == "video/mp4"
    answer = simulator.post("/minimax/v1/video_generation", with_fault(HAILUO, "refused"))
    assert (answer.status_code, answer.json()["base_resp"]["status_code"]) == (200, 1026)
    failed = submit_and_poll(
        simulator, "/minimax/v1/video_generation", with_fault(HAILUO, "refused-output"), poll, "status", waiting
    )
    assert (failed[-1]["status"], failed[-1]["base_resp"]["status_code"]) == ("Fail", 1027)
    invalid = simulator.post("/minimax/v1/video_generation", {**HAILUO, "duration": 7}).json()
    assert invalid["base_resp"]["status_code"] == 2013


def test_minimax_h3_links_at_once(simulator: Any) -> None:
    """The second version nests a task and uses statuses of HTTP."""
    path, poll, waiting = "/minimax/v2/video_generation", "/minimax/v2/query/video_generation/{}", {"queued", "running"}
    done = submit_and_poll(simulator, path, H3, poll, "task.status", waiting)[-1]["task"]
    assert content_type_of(done["content"]["url"]) == "video/mp4"
    assert done["usage"]["output_seconds"] == 5
    failed = submit_and_poll(simulator, path, with_fault(H3, "refused-output"), poll, "task.status", waiting)[-1][
        "task"
    ]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "1027")
    answer = simulator.post(path, {**H3, "duration": 30})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "bad_request_error")


def fal(simulator: Any, app: str, body: dict[str, Any]) -> httpx.Response:
    """Run a queue of fal to its response."""
    submitted = simulator.post(f"/fal/{app}", body).json()
    simulator.until(lambda: simulator.get(submitted["status_url"]), lambda document: document["status"] == "COMPLETED")
    answer = simulator.get(submitted["response_url"])
    assert isinstance(answer, httpx.Response)
    return answer


@pytest.mark.parametrize(
    ("app", "kind", "content_type"),
    [
        ("fal-ai/flux-2-pro", "images", "image/jpeg"),
        ("wan/v2.6/text-to-video", "video", "video/mp4"),
    ],
)
def test_fal_answers_by_kind(simulator: Any, app: str, kind: str, content_type: str) -> None:
    """Images are a list, a video is a file."""
    found = fal(simulator, app, {"prompt": "waves"}).json()[kind]
    file = found[0] if kind == "images" else found
    assert (content_type_of(file["url"]), file["content_type"]) == (content_type, content_type)


def test_fal_makes_the_maps_of_a_material_and_says_what_it_bills(simulator: Any) -> None:
    """All five maps or those that are named; the header has what is billed, in units of the app's price."""
    body = {"image_url": "https://x.test/a.png"}
    for more, names in (({}, 5), ({"maps": ["normal", "height"]}, 2)):
        answer = fal(simulator, "fal-ai/patina", {**body, **more})
        assert len({image["map_type"] for image in answer.json()["images"]}) == names
        assert float(answer.headers["x-fal-billable-units"]) == pytest.approx(1 + names * 1.048576)
    larger = fal(simulator, "clarityai/crystal-upscaler", body)
    assert float(larger.headers["x-fal-billable-units"]) == pytest.approx(1.048576)
    assert "x-fal-billable-units" not in fal(simulator, "fal-ai/flux-2-pro", {"prompt": "x"}).headers


def test_fal_complains_when_the_response_is_fetched(simulator: Any) -> None:
    """The queue takes anything; the response says what was wrong with it."""
    refused = fal(simulator, "fal-ai/flux-2-pro", with_fault({"prompt": "x"}, "refused"))
    assert (refused.status_code, refused.json()["detail"][0]["type"]) == (422, "content_policy_violation")
    assert refused.headers["x-fal-retryable"] == "false"
    assert fal(simulator, "fal-ai/flux-2-pro", with_fault({"prompt": "x"}, "invalid")).status_code == 422
    assert fal(simulator, "fal-ai/flux-2-pro", with_fault({"prompt": "x"}, "failed")).status_code == 500
    seen = fal(simulator, "fal-ai/flux-2-pro", with_fault({"prompt": "x"}, "refused-output")).json()
    assert seen["has_nsfw_concepts"] == [True]


def test_fal_cancels_and_makes_wait(simulator: Any) -> None:
    """An early fetch is 400; a cancel in time is 202, and late 400."""
    submitted = simulator.post("/fal/fal-ai/flux-2-pro", {"prompt": "x"}).json()
    assert simulator.get(submitted["response_url"]).status_code == 400
    path = submitted["cancel_url"].removeprefix(simulator.url)
    assert simulator.client.put(path, headers=dict(simulator.keys("fal"))).status_code == 202
