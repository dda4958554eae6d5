"""Which days are asked for, and how usage is added up."""

import datetime

import pytest

from fairlead.domain.days import NotADateError
from fairlead.domain.ledger.usage import BadUsageQueryError, Grouping, Usage, total_of, usage_query

TODAY = datetime.date(2028, 3, 1)


def test_default_period_is_the_last_thirty_days() -> None:
    """Where nothing is said: the last thirty days with today, told apart by everything."""
    query = usage_query(None, None, None, TODAY)
    assert (query.first.isoformat(), query.last.isoformat()) == ("2028-02-01", "2028-03-01")
    assert query.by == (Grouping.DAY, Grouping.MODEL, Grouping.KEY)


@pytest.mark.parametrize(
    ("first", "last", "days"),
    [
        ("2028-02-28", None, ("2028-02-28", "2028-03-01")),
        (None, "2028-01-30", ("2028-01-01", "2028-01-30")),
        (None, "0001-01-03", ("0001-01-01", "0001-01-03")),
        ("2028-03-01", "2028-03-01", ("2028-03-01", "2028-03-01")),
        ("2027-03-02", "2028-03-01", ("2027-03-02", "2028-03-01")),
    ],
)
def test_either_end_of_a_period_may_be_left_out(first: str | None, last: str | None, days: tuple[str, str]) -> None:
    """Either end may be left out; up to 366 days may be asked for."""
    query = usage_query(first, last, None, TODAY)
    assert (query.first.isoformat(), query.last.isoformat()) == days


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        ("2028-03-02", None, "from, 2028-03-02, is after to, 2028-03-01."),
        ("2028-01-02", "2028-01-01", "is after"),
        ("2027-02-28", "2028-02-29", "more than 366 days"),
    ],
)
def test_impossible_period_is_refused(first: str, last: str | None, words: str) -> None:
    """Days that run backwards, or too many, are refused with the way out."""
    with pytest.raises(BadUsageQueryError, match=words):
        usage_query(first, last, None, TODAY)


@pytest.mark.parametrize(("first", "last"), [("yesterday", None), (None, "2028-02-30")])
def test_malformed_day_is_refused_by_name(first: str | None, last: str | None) -> None:
    """A text that is not a date says which one it is."""
    with pytest.raises(NotADateError, match="from must" if last is None else "to must"):
        usage_query(first, last, None, TODAY)


@pytest.mark.parametrize(
    ("by", "groups"), [("key", ["key"]), ("model,day", ["day", "model"]), ("key, key ,model,day", list(Grouping))]
)
def test_groups_are_answered_in_one_order(by: str, groups: list[str]) -> None:
    """Groups may come in any order, and are answered in one."""
    assert list(usage_query(None, None, by, TODAY).by) == groups


@pytest.mark.parametrize("by", ["", ",", "day,", "hour", "day,week", "x" * 1000])
def test_unknown_group_is_refused(by: str) -> None:
    """There are three, and one at least is wanted; what was sent is not repeated at length."""
    with pytest.raises(BadUsageQueryError, match="day, model, key") as refused:
        usage_query(None, None, by, TODAY)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("by", "label", "groups"),
    [
        ("label:client", None, ["label:client"]),
        ("label:client, day", None, ["day", "label:client"]),
        (None, "client=acme=corp", ["day"]),
        ("day", "client=", ["day"]),
    ],
)
def test_label_is_grouped_by_or_asked_for(by: str | None, label: str | None, groups: list[str]) -> None:
    """By its values, with days; or one value, whose name ends at the first sign."""
    query = usage_query(None, None, by, TODAY, label)
    assert (query.groups, query.is_of_labels) == (groups, True)
    assert query.label in (None, ("client", "acme=corp"), ("client", ""))


@pytest.mark.parametrize(
    ("by", "label", "words"),
    [
        ("label:", None, "label:NAME"),
        ("label:client,model", None, "day,label:NAME"),
        ("label:client,label:project", None, "day,label:NAME"),
        ("key", "client=acme", "only be grouped by day"),
        ("label:client", "client=acme", "only be grouped by day"),
        ("day", "client", "such as client=acme"),
        (None, "=acme", "such as client=acme"),
    ],
)
def test_label_is_not_asked_for_with_other_groups(by: str | None, label: str | None, words: str) -> None:
    """Labels are added up by day alone: models and keys of them are not known."""
    with pytest.raises(BadUsageQueryError, match=words):
        usage_query(None, None, by, TODAY, label)


def test_usage_rows_add_up() -> None:
    """Rows add up, and no rows come to nothing."""
    assert total_of([Usage(3, 2, 50), Usage(1, 1, 7, day="2028-03-01")]) == Usage(4, 3, 57)
    assert total_of([]) == Usage(0, 0, 0)
