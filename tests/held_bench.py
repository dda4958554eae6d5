"""A benchmark that goes on until it is killed, with a program of its own: what test_reaper.py runs."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measuring import program


def main() -> None:
    """Start a program, name it, and wait."""
    told = Path(sys.argv[1])
    with program(["sleep", "600"], told.with_suffix(".log")) as process:
        part = told.with_suffix(".part")
        part.write_text(str(process.pid), "utf-8")
        part.rename(told)
        signal.pause()


if __name__ == "__main__":
    main()
