"""Many small cases in one test: what thousands of tests of a millisecond cost is pytest, not what they prove."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any


def for_each(
    names: str | Sequence[str], values: Iterable[Any], ids: Callable[[Any], object] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each case, as `pytest.mark.parametrize` would; the test fails with every case that failed.

    Values may be `pytest.param` with an id. Fixtures are shared by the cases.
    """
    wanted = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [_case(value, len(wanted), ids) for value in values]
    assert cases, f"there is no case of {names}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run_all(**others: Any) -> None:
            failures = []
            for id_, arguments in cases:
                try:
                    test(**others, **dict(zip(wanted, arguments, strict=True)))
                except Exception as error:  # noqa: BLE001 -- whatever it is, it is told with its case
                    error.add_note(f"case {id_}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases", failures)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in wanted]
        run_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run_all

    return decorate


def _case(value: Any, count: int, ids: Callable[[Any], object]) -> tuple[object, Sequence[Any]]:
    given = getattr(value, "values", None)
    if hasattr(value, "marks") and isinstance(given, tuple):
        assert not value.marks, "a case of many has no marks of its own"
        return value.id or given, given
    return ids(value), (value,) if count == 1 else value
