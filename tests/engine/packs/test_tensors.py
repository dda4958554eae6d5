"""Values at the border between our nodes and packs where torch is installed, played by a stand-in of six methods.

The library itself is not among what tests need; this holds what is done with it, and not what it does.
"""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fairlead.engine.packs.tensors import for_pack, from_pack, holds_tensors


class _Tensor:
    def __init__(self, array: Any) -> None:
        self.array = array

    def detach(self) -> "_Tensor":
        return self

    def cpu(self) -> "_Tensor":
        return self

    def is_floating_point(self) -> bool:
        return bool(np.issubdtype(self.array.dtype, np.floating))

    def float(self) -> "_Tensor":
        return _Tensor(self.array.astype(np.float32))

    def numpy(self) -> Any:
        return self.array


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Play the library."""
    module = ModuleType("torch")
    vars(module).update(Tensor=_Tensor, from_numpy=_Tensor)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.mark.usefixtures("torch")
def test_tensor_of_a_pack_has_its_own_memory() -> None:
    """A tensor has memory of its own, also within a dict, such as that of a sound."""
    image = np.zeros((1, 2, 2, 3), np.float32)
    image.flags.writeable = False
    given = for_pack({"waveform": image, "sample_rate": 8_000})
    given["waveform"].array += 1
    assert float(image.max()) == 0
    assert given["sample_rate"] == 8_000


@pytest.mark.usefixtures("torch")
def test_tensor_of_a_pack_becomes_an_array() -> None:
    """Halves become floats, whole numbers stay, and lists are looked through."""
    half, whole = np.ones((2, 2), np.float16), np.ones(3, np.int64)
    first, second = from_pack([_Tensor(half), _Tensor(whole)])
    assert (first.dtype, second.dtype) == (np.float32, np.int64)


def test_array_is_unchanged_where_torch_is_not_installed() -> None:
    """It stays the very same array; doubles become floats on the way back."""
    image = np.zeros((1, 2, 2, 3), np.float32)
    assert for_pack(image) is image
    assert from_pack(image) is image
    assert from_pack(image.astype(np.float64)).dtype == np.float32


def test_values_of_a_packs_own_type_are_unchanged() -> None:
    """Only types both sides know hold tensors."""
    assert [holds_tensors(type_) for type_ in ("IMAGE", "STRING,MASK", "*", "THEIR_OWN", ["a", "b"])] == [
        True,
        True,
        True,
        False,
        False,
    ]
