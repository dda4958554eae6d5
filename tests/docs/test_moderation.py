"""docs/settings.md has a function that judges pictures: it is one that can be used, and judges as the page says."""

from pathlib import Path

import pytest
from PIL import Image

from conftest import Run
from docs.pages import blocks
from fairlead.moderation.protocol import Question, Verdict
from moderation.callables import callable_file, moderators


@pytest.mark.req("J-14")
def test_example_moderator_judges_as_the_page_says(tmp_path: Path, run: Run) -> None:
    """It lets pictures pass that show something, blocks those that show nothing, and leaves everything else alone."""
    (source,) = [block.text for block in blocks("settings.md") if block.name == "judge.py"]
    Image.effect_noise((8, 8), 50).save(tmp_path / "noise.png")
    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    (tmp_path / "words.txt").write_text("no picture", encoding="utf-8")

    def ask(name: str) -> Question:
        return Question(str(tmp_path / name), (tmp_path / name).stat().st_size, "0" * 64)

    async def check() -> None:
        async with moderators(tmp_path, callable_file(tmp_path, source)) as made:
            assert await made.judge("lab-id", ask("noise.png")) == Verdict(is_blocked=False)
            blocked = Verdict(is_blocked=True, reason="a picture of one colour")
            assert await made.judge("lab-id", ask("red.png")) == blocked
            assert await made.judge("lab-id", ask("words.txt")) == Verdict(is_blocked=False)

    run(check())
