"""Chat completions as OpenAI shaped them, which several vendors answer with."""

import time

ANSWER = "This answer was made by a simulator."


def tokens(words: object) -> int:
    """Count tokens as nobody does exactly: four characters each."""
    return max(1, len(str(words)) // 4)


def completion(id_: str, model: str, messages: object, *, filtered: bool) -> dict[str, object]:
    """Make a completion; when `filtered`, the answer is withheld and the finish reason says so."""
    refusal = "I'm sorry, but I can't assist with that request." if filtered else None
    message: dict[str, object] = {
        "role": "assistant",
        "content": None if filtered else ANSWER,
        "refusal": refusal,
        "annotations": [],
    }
    reason = "content_filter" if filtered else "stop"
    given, made = tokens(messages), tokens(ANSWER)
    return {
        "id": id_,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": given,
            "completion_tokens": made,
            "total_tokens": given + made,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": None,
    }
