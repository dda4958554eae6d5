"""What a host does to itself beside its confinement: it writes to nobody."""

import faulthandler
import os


def be_quiet() -> None:
    """Send what nodes print to nowhere. What kills the process is still written where errors went until now."""
    last_words = os.fdopen(os.dup(2), "wb", buffering=0)
    faulthandler.enable(last_words)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
