"""Operations: what a body may ask of a model (R-16)."""

from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.pointers import Condition, all_hold


class Operation(msgspec.Struct, frozen=True):
    """One operation of a model: a body asks for it when every condition holds (R-16).

    `is_edit` marks the operation of an editable model that an input picture selects; many partners take it as a form
    with files, so it has refusals of its own (R-11, R-14).
    """

    name: str
    when: tuple[Condition, ...] = ()
    is_edit: bool = False


SOLE: Final = Operation("run")
"""The operation of a model that has only one."""


def select_operation(operations: Sequence[Operation], body: object) -> Operation:
    """The first operation whose conditions a body meets; the last where it meets no others."""
    return next((one for one in operations if all_hold(one.when, body)), operations[-1])
