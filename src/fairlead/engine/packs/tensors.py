"""Arrays at the border to node packs: where torch is installed, packs get its tensors, and may return them.

Our own nodes keep to numpy. Only values of types that both sides know are changed at the border.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from fairlead.engine.packs.declarations import ANY

_TENSOR_TYPES: Final = frozenset({"IMAGE", "MASK", "LATENT", "AUDIO", ANY, "COMFY_MATCHTYPE_V3"})
_DEPTH_MAX: Final = 8


def holds_tensors(type_: object) -> bool:
    """Whether values of a type are, or hold, tensors."""
    return isinstance(type_, str) and any(part.strip() in _TENSOR_TYPES for part in type_.split(","))


def for_pack(value: object, depth: int = 0) -> Any:
    """A value as a pack takes it. A tensor has its own memory: packs may write into it, and we share ours."""
    torch = sys.modules.get("torch")
    if torch is None or depth > _DEPTH_MAX:
        return value
    match value:
        case np.ndarray() if value.dtype == np.float32:
            return torch.from_numpy(value.copy())
        case list():
            return [for_pack(item, depth + 1) for item in value]
        case dict():
            return {key: for_pack(item, depth + 1) for key, item in value.items()}
        case _:
            return value


def from_pack(value: object, depth: int = 0) -> Any:
    """A value as our nodes take it."""
    if depth > _DEPTH_MAX:
        return value
    match value:
        case np.ndarray() if value.dtype in {np.dtype(np.float64), np.dtype(np.float16)}:
            return value.astype(np.float32)
        case list():
            return [from_pack(item, depth + 1) for item in value]
        case Mapping() if type(value) is dict:
            return {key: from_pack(item, depth + 1) for key, item in value.items()}
        case _:
            return _array(value)


def _array(value: object) -> object:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().cpu()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()
