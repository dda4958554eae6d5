"""The requirements are numbered soundly, the marks name them, and each one has a test."""

import re
from collections import Counter
from textwrap import dedent

import pytest

import conformance


def _rules() -> list[conformance.Rule]:
    return conformance.read_rules(conformance.REQUIREMENTS.read_text(encoding="utf-8"))


def _find(source: str) -> set[tuple[str, str]]:
    proofs = conformance.proofs_in(dedent(source), "tests/test_made_up.py")
    return {(proof.test, proof.rule_id) for proof in proofs}


def test_every_rule_is_proven() -> None:
    """Each row of docs/requirements.md has a test that is marked with its id."""
    assert {rule.id for rule in _rules()} - {proof.rule_id for proof in conformance.read_proofs()} == set()


def test_every_mark_names_a_known_rule() -> None:
    """Every id on a test is a row of docs/requirements.md."""
    known = {rule.id for rule in _rules()}
    assert [proof for proof in conformance.read_proofs() if proof.rule_id not in known] == []


def test_every_rule_id_is_well_formed() -> None:
    """An id is the letter of its section and two digits."""
    assert [rule for rule in _rules() if not re.fullmatch(rf"{rule.letter}-\d\d", rule.id)] == []


def test_every_rule_id_is_unique() -> None:
    """An id names one rule."""
    assert {name: count for name, count in Counter(rule.id for rule in _rules()).items() if count > 1} == {}


def test_every_section_of_rules_is_on_the_page() -> None:
    """The page has the sections, none empty."""
    sections = {rule.letter: rule.section for rule in _rules()}
    assert sections == {
        "R": "Model router",
        "J": "Jobs",
        "C": "Cloud workflow",
        "G": "Registry",
        "K": "Contracts of released clients",
        "A": "Administration",
        "S": "Isolation",
        "M": "Many servers",
        "T": "Trust",
        "X": "Exact",
    }


def test_rules_of_functions_classes_and_modules_are_read() -> None:
    """Marks add up from the module through the class to the function."""
    source = """
        pytestmark = [pytest.mark.req("R-01"), pytest.mark.slow]

        @pytest.mark.req("R-02")
        class TestSubject:
            pytestmark = pytest.mark.req("R-03")

            @pytest.mark.req("R-04", "R-05")
            async def test_inside(self): ...

        def test_outside(): ...
    """
    inside = {("test_inside", f"R-0{number}") for number in range(1, 6)}
    assert inside | {("test_outside", "R-01")} == _find(source)


def test_rules_of_parameters_are_read() -> None:
    """Marks on parameters count for their test, written in place or in a constant of the module."""
    source = """
        CASES = [pytest.param(1, marks=pytest.mark.req("R-01"))]

        @pytest.mark.parametrize("case", [*CASES, pytest.param(2, marks=[pytest.mark.req("R-02")])])
        def test_case(case): ...
    """
    assert {("test_case", "R-01"), ("test_case", "R-02")} == _find(source)


@pytest.mark.parametrize("excuse", ["skip", "skip('later')", "xfail(strict=True)"])
def test_skipped_or_expected_failure_is_no_proof(excuse: str) -> None:
    """A skipped test, or one expected to fail, proves nothing."""
    assert set() == _find(f"@pytest.mark.{excuse}\n@pytest.mark.req('R-01')\ndef test_later(): ...")


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.req('R-01')\ndef check(): ...",
        "@pytest.mark.req('R-01')\nclass Suite:\n    def test_it(self): ...",
        "proves = pytest.mark.req\n@proves('R-01')\ndef test_it(): ...",
        "@pytest.mark.req(*IDS)\ndef test_it(): ...",
        "@pytest.mark.req\ndef test_it(): ...",
    ],
)
def test_rule_of_no_test_is_an_error(source: str) -> None:
    """A mark that cannot be given to a test with its ids is an error, never silence."""
    with pytest.raises(conformance.UnreadableMarkError, match=r"tests/test_made_up\.py:\d+"):
        _find(source)


def test_page_has_every_rule_with_its_most_specific_proofs() -> None:
    """Each rule has a row with the tests of fewest rules, one of a file, and counts the others; or it reads open."""
    rules = [conformance.Rule("Jobs", "J", "J-01", "one"), conformance.Rule("Jobs", "J", "J-02", "two")]
    rules.append(conformance.Rule("Jobs", "J", "J-03", "three"))
    proofs = [
        conformance.Proof("tests/a/test_a.py", "test_of_two_rules", "J-01"),
        conformance.Proof("tests/a/test_a.py", "test_of_two_rules", "J-02"),
        conformance.Proof("tests/b/test_b.py", "test_first_of_b", "J-01"),
        conformance.Proof("tests/b/test_b.py", "test_second_of_b", "J-01"),
        conformance.Proof("tests/api/test_c.py", "test_from_outside", "J-01"),
        conformance.Proof("tests/d/test_d.py", "test_of_d", "J-01"),
    ]
    lines = conformance.page(rules, proofs).splitlines()
    assert "| [Jobs](#jobs) | 3 | 2 | 1 |" in lines
    shown = (
        "[from outside](tests/api/test_c.py)",
        "[first of b](tests/b/test_b.py)",
        "[of d](tests/d/test_d.py)",
        "2 more",
    )
    assert f"| J-01 | one | {'; '.join(shown)} |" in lines
    assert "| J-02 | two | [of two rules](tests/a/test_a.py) |" in lines
    assert "| J-03 | three | open |" in lines
