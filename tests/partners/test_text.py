"""Prose."""

from typing import Any


def test_prose_is_about_the_prompt_and_within_its_length(vendor: Any) -> None:
    """The text names a word of the prompt, keeps to the limit and ends with a sentence."""
    answer = vendor.post("/v1/text", {"prompt": "a lighthouse in the storm", "seed": 4, "max_characters": 500})
    body = answer.json()
    assert answer.status_code == 200
    assert "lighthouse" in body["text"]
    assert 300 < len(body["text"]) <= 500
    assert body["text"].endswith(".")
    assert body["usage"] == {"characters": len(body["text"])}


def test_same_seed_gives_the_same_prose(vendor: Any) -> None:
    """The text depends on the request alone."""
    texts = [vendor.post("/v1/text", {"prompt": "bread", "seed": seed}).json()["text"] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_limit_is_kept_however_small_or_large_and_for_any_script(vendor: Any) -> None:
    """No limit from one character up is exceeded, and prompts without a known word still work."""
    for prompt in ("the", "海と月", "🙂", "Überfahrt"):
        for limit in (1, 2, 17, 60, 20000):
            body = {"prompt": prompt, "max_characters": limit, "seed": 1}
            text = vendor.post("/v1/text", body).json()["text"]
            assert 0 < len(text) <= limit
