"""Watching a job: what newcomers are told of it (J-13)."""

from typing import Final

import pytest

from conftest import Run
from fairlead.domain.jobs.events import Executing, Place, Started, Succeeded
from fairlead.domain.jobs.news import News, Preview, Tiding
from fairlead.operations.jobs.newsroom import Newsroom

_PLACE: Final = Place("1", "1")


@pytest.mark.req("J-13")
def test_a_newcomer_sees_an_old_preview(run: Run) -> None:
    """The newest preview of a job is at hand for as long as it is executed; one of an unknown job is not kept."""

    async def told() -> list[bytes | None]:
        newsroom = Newsroom()
        seen: list[bytes | None] = []

        def tell(tiding: Tiding) -> None:
            newsroom.publish(News("lab", "job", 1, tiding))
            preview = newsroom.newest_preview("job")
            seen.append(None if preview is None else preview.image)

        for tiding in (
            Preview(_PLACE, "image/png", b"lost"), Started(), Executing(_PLACE), Preview(_PLACE, "image/png", b"first"),
            Preview(_PLACE, "image/png", b"second"), Succeeded(),
        ):  # fmt: skip
            tell(tiding)
        return seen

    assert run(told()) == [None, None, None, b"first", b"second", None]
