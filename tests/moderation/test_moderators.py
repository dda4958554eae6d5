"""Moderators: real processes that ask a real callable, which may do whatever it likes (J-14)."""

import asyncio
import os
from pathlib import Path
from typing import Final

import pytest

from conftest import Run
from fairlead.moderation import pool
from fairlead.moderation.pool import ModeratorNotStartedError, NoVerdictError
from fairlead.moderation.protocol import WORDS_CHARACTERS_MAX, Verdict
from moderation.callables import callable_file, moderators, question_about
from servers import is_alive, wait_until_async

LAB: Final = "lab-id"
_FAILING: Final = {
    "raise": r"ValueError: no verdict \(judge\.py, line \d+\)",
    "none": "it returned NoneType, which is neither True nor False nor a reason",
    "number": "it returned int, which is neither",
    "greedy": "MemoryError",
    "exit": "its process ended by itself with the code 3",
    "vanish": "its process ended by itself with the code 4",
}


@pytest.mark.req("J-14")
def test_verdict_is_what_the_callable_returned(tmp_path: Path, run: Run) -> None:
    """False passes, True blocks, a text blocks and is the reason; what a callable prints goes nowhere."""

    async def check() -> None:
        async with moderators(tmp_path) as made:
            assert await made.judge(LAB, question_about(tmp_path, "pass")) == Verdict(is_blocked=False)
            assert await made.judge(LAB, question_about(tmp_path, "block")) == Verdict(is_blocked=True)
            assert await made.judge(LAB, question_about(tmp_path, "block for a reason")) == Verdict(
                is_blocked=True, reason="for a reason"
            )
            told = question_about(tmp_path, "tell")
            assert await made.judge(LAB, told) == Verdict(
                is_blocked=True, reason=f"application/octet-stream 4 {told.hash[:8]}"
            )
            reason = (await made.judge(LAB, question_about(tmp_path, "talk"))).reason
            assert reason == "?" + "a" * (WORDS_CHARACTERS_MAX - 1)

    run(check())


@pytest.mark.req("J-14")
def test_callable_without_a_verdict_is_reported_and_the_next_question_answered(tmp_path: Path, run: Run) -> None:
    """Whatever it does but give a verdict is told as what it is, and the next question has an answer again."""

    async def check() -> None:
        async with moderators(tmp_path, processes=1) as made:
            for words, why in _FAILING.items():
                with pytest.raises(NoVerdictError, match=why):
                    await made.judge(LAB, question_about(tmp_path, words))
                assert await made.judge(LAB, question_about(tmp_path, "pass")) == Verdict(is_blocked=False)

    run(check())


@pytest.mark.req("J-14")
def test_hanging_callable_is_ended_and_the_next_question_answered(tmp_path: Path, run: Run) -> None:
    """It is ended with what it has started, also while others wait for it: they are told, and the next is answered."""
    noted = tmp_path / "pid"

    async def check() -> None:
        async with moderators(tmp_path, processes=1, seconds=3.0) as made:
            hanging = asyncio.ensure_future(made.judge(LAB, question_about(tmp_path, f"hang {noted}")))
            await wait_until_async(lambda: noted.exists() and noted.read_text("ascii"), "the callable hangs")
            with pytest.raises(NoVerdictError, match="it has said nothing"):
                await hanging
            await wait_until_async(lambda: not is_alive(int(noted.read_text("ascii"))), "what it has started has ended")
            assert not (await made.judge(LAB, question_about(tmp_path, "pass"))).is_blocked

    run(check())


@pytest.mark.req("J-14")
def test_waiting_for_a_verdict_is_bounded(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for as long as a verdict may take, and a workspace has only so many of them."""
    monkeypatch.setattr(pool, "_LINE_MAX", 2)
    noted = tmp_path / "pid"

    async def check() -> None:
        async with moderators(tmp_path, processes=1, seconds=1.0) as made:
            hanging = asyncio.ensure_future(made.judge(LAB, question_about(tmp_path, f"hang {noted}")))
            await asyncio.sleep(0)
            waiting = asyncio.ensure_future(made.judge(LAB, question_about(tmp_path, "pass")))
            await asyncio.sleep(0)
            with pytest.raises(NoVerdictError, match="2 files of the workspace already wait"):
                await made.judge(LAB, question_about(tmp_path, "pass"))
            assert isinstance((await asyncio.gather(hanging, waiting, return_exceptions=True))[0], NoVerdictError)
            assert not (await made.judge(LAB, question_about(tmp_path, "pass"))).is_blocked

    run(check())


@pytest.mark.req("J-14")
def test_workspace_with_many_files_does_not_delay_the_others(tmp_path: Path, run: Run) -> None:
    """Who has sent much waits behind who has sent one file, no matter who came first."""

    async def check() -> None:
        async with moderators(tmp_path, processes=1) as made:
            done: list[str] = []

            async def judge_one(workspace_id: str) -> None:
                await made.judge(workspace_id, question_about(tmp_path, "process"))
                done.append(workspace_id)

            await asyncio.gather(*(judge_one(name) for name in ("greedy", "greedy", "greedy", "greedy", "modest")))
            assert done.index("modest") == 1

    run(check())


@pytest.mark.req("J-14")
def test_number_of_judging_processes_is_bounded(tmp_path: Path, run: Run) -> None:
    """There are as many processes as questions at once, up to the bound, and they are reused."""

    async def check() -> None:
        async with moderators(tmp_path, processes=2) as made:
            asked = [made.judge(LAB, question_about(tmp_path, "process")) for _ in range(6)]
            assert len({verdict.reason for verdict in await asyncio.gather(*asked)}) == 2

    run(check())


@pytest.mark.req("J-14")
def test_moderator_that_died_while_idle_is_replaced(tmp_path: Path, run: Run) -> None:
    """There is another one by then."""

    async def check() -> None:
        async with moderators(tmp_path, processes=1) as made:
            first = int((await made.judge(LAB, question_about(tmp_path, "process"))).reason or 0)
            os.kill(first, 9)
            await wait_until_async(lambda: not is_alive(first), "the process has ended")
            await asyncio.sleep(0.05)
            assert (await made.judge(LAB, question_about(tmp_path, "process"))).reason != str(first)

    run(check())


@pytest.mark.req("J-14")
def test_callable_sees_no_secret(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given nothing of the server's environment but what a program needs."""
    monkeypatch.setenv("FAIRLEAD_SECRET_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", "src")

    async def check() -> None:
        async with moderators(tmp_path) as made:
            told = (await made.judge(LAB, question_about(tmp_path, "environment"))).reason or ""
            assert set(told.split()) <= {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "PYTHONPATH", "TMPDIR"}

    run(check())


@pytest.mark.req("J-14")
def test_moderators_end_with_their_server(tmp_path: Path, run: Run) -> None:
    """Those that judge are ended as well, and who waits is told."""
    noted = tmp_path / "pid"

    async def check() -> None:
        async with moderators(tmp_path) as made:
            hanging = asyncio.ensure_future(made.judge(LAB, question_about(tmp_path, f"hang {noted}")))
            await wait_until_async(lambda: noted.exists() and noted.read_text("ascii"), "the callable hangs")
        with pytest.raises(NoVerdictError, match="its process was ended by SIGKILL"):
            await hanging
        await wait_until_async(lambda: not is_alive(int(noted.read_text("ascii"))), "what it has started has ended")

    run(check())


@pytest.mark.req("J-14")
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import no_such_module", r"ModuleNotFoundError: No module named 'no_such_module' \(judge\.py, line 1\)"),
        ("judge =", "SyntaxError: "),
        ("x = 1", "AttributeError: .* has no attribute 'judge'"),
        ("judge = 1", "TypeError: judge is not a plain function"),
        ("async def judge(content): ...", "TypeError: judge is not a plain function"),
        ("import sys\nsys.exit('enough')", "SystemExit: enough"),
        ("import os\nos._exit(7)", "its process ended by itself with the code 7"),
    ],
)
def test_callable_that_cannot_be_loaded_is_reported_in_one_line(
    tmp_path: Path, run: Run, source: str, why: str
) -> None:
    """Why not is told in one line, and nothing is left of the try."""

    async def check() -> None:
        with pytest.raises(ModeratorNotStartedError, match=why) as raised:
            async with moderators(tmp_path, callable_file(tmp_path, source)):
                pass
        assert "\n" not in str(raised.value)

    run(check())


@pytest.mark.req("J-14")
def test_callable_of_an_installed_module_is_found(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of an installed module is found by the module's name; what there is not cannot be."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "strict.py").write_text("def judge(content): return True", encoding="utf-8")
    paths = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{paths}" if paths else str(tmp_path))

    async def check() -> None:
        async with moderators(tmp_path, "rules.strict:judge") as made:
            assert (await made.judge(LAB, question_about(tmp_path, "pass"))).is_blocked
        for missing in ("no_such_module:judge", f"{tmp_path}/none.py:judge"):
            with pytest.raises(ModeratorNotStartedError, match="NotFoundError"):
                async with moderators(tmp_path, missing):
                    pass

    run(check())
