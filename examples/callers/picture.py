"""Makes a picture with Python's standard library: python picture.py "what to draw" file.png.

URL and KEY are the server's address and an API key of yours.
"""

import base64
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

ATTEMPTS = 4
LATER = {409, 429, 503, 504}
"""What may go otherwise a moment later; with an idempotency key nothing is made or paid twice."""


def call(model: str, body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Run a model; its answer and what it cost in credits. SystemExit says what went wrong."""
    request = urllib.request.Request(f"{os.environ['URL']}/v2/models/{model}", json.dumps(body).encode())
    request.add_header("X-API-Key", os.environ["KEY"])
    request.add_header("Content-Type", "application/json")
    request.add_header("Idempotency-Key", str(uuid.uuid4()))
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer), answer.headers["X-Service-Credits-Used"]
        except urllib.error.HTTPError as error:
            if error.code not in LATER or attempt == ATTEMPTS:
                sys.exit(f"status {error.code}, {error.headers['X-Service-Error-Type']}\n{error.read().decode()}")
            time.sleep(int(error.headers["Retry-After"] or attempt))
    raise AssertionError


def main() -> None:
    """Make one picture."""
    prompt, file = sys.argv[1:]
    answer, credits_used = call("local/procedural-image-1", {"prompt": prompt, "width": 256, "height": 192})
    with open(file, "wb") as picture:
        picture.write(base64.b64decode(answer["data"][0]["b64_json"]))
    print(f"{file}: {credits_used} credits")


if __name__ == "__main__":
    main()
