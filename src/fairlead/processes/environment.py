"""What a child process is given of the server's environment: what a program needs, and no secret."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL")


def child_environment(more: Mapping[str, str], *, passed_on: Sequence[str] = ()) -> dict[str, str]:
    """The variables every program needs, those named in `passed_on` where we have them, and `more`.

    The folders of PYTHONPATH are made absolute: a child may work in another folder.
    """
    kept = {name: os.environ[name] for name in (*_PASSED_ON, *passed_on) if name in os.environ}
    paths = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(paths)
    return {**kept, **more}
