"""Labels: what a caller writes on a job, and finds it by. They are kept exactly as sent, and never change (J-12)."""

import re
from collections.abc import Mapping
from typing import Final

from fairlead.domain.jobs.faults import BadLabels

LABELS_MAX: Final = 16
VALUE_BYTES_MAX: Final = 256
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_FORBIDDEN: Final = re.compile("[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of what stands around them."""
_KEY_SHOWN: Final = 100


def is_label_key(text: str) -> bool:
    """Whether a label may have this key."""
    return _KEY.fullmatch(text) is not None


def is_label_text(text: str) -> bool:
    """Whether a text has only characters that values of labels may have."""
    return _FORBIDDEN.search(text) is None


def fault_of_labels(labels: Mapping[str, object]) -> BadLabels | None:
    """The first rule that labels break; None for labels that may be kept."""
    if len(labels) > LABELS_MAX:
        return BadLabels(f"A job may have {LABELS_MAX} labels.")
    return next((fault for key, value in labels.items() if (fault := _fault(key, value))), None)


def _fault(key: str, value: object) -> BadLabels | None:
    shown = key[:_KEY_SHOWN]
    if not is_label_key(key):
        return BadLabels("The key of a label has 1 to 40 letters, digits, underscores, dots and dashes.", shown)
    if not isinstance(value, str):
        return BadLabels("The value of a label must be a text.", shown)
    if len(value.encode("utf-8", "surrogatepass")) > VALUE_BYTES_MAX:
        return BadLabels(f"The value of a label may have {VALUE_BYTES_MAX} bytes in UTF-8.", shown)
    if not is_label_text(value):
        return BadLabels("The value of a label has a control character, or one that turns directions.", shown)
    return None
