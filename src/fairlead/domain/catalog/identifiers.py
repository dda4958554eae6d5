"""The grammar of names on the wire (R-01): what a provider, a model and a model id may look like."""

import re
from typing import Final

_SEGMENT: Final = r"[a-z0-9]+(?:[._-][a-z0-9]+)*"
_SEGMENT_PATTERN: Final = re.compile(_SEGMENT)

PROVIDER_MAX: Final = 64
MODEL_MAX: Final = 128


def is_provider_segment(text: str) -> bool:
    """Whether a text may be the provider part of a model id."""
    return len(text) <= PROVIDER_MAX and _SEGMENT_PATTERN.fullmatch(text) is not None


def provider_setting(provider: str, option: str) -> str:
    """The environment variable of an option of a provider: upper-case, with `_` for dots and dashes."""
    return f"FAIRLEAD_PROVIDER_{provider}_{option}".replace("-", "_").replace(".", "_").upper()


def is_model_segment(text: str) -> bool:
    """Whether a text may be the model part of a model id."""
    return len(text) <= MODEL_MAX and _SEGMENT_PATTERN.fullmatch(text) is not None


def is_model_id(text: str) -> bool:
    """Whether a text is a whole model id: a provider segment and a model segment joined by one slash."""
    provider, slash, model = text.partition("/")
    return bool(slash) and is_provider_segment(provider) and is_model_segment(model)
