"""The short form of every attack of `make attack`: each is held off. What others notice is measured there, not here."""

from collections.abc import Iterator

import pytest

from attacks import by_callers, by_packs, on_files, on_identity, on_secrets
from attacks.world import Attack, World, run_world
from machine import limit

pytestmark = pytest.mark.timeout(limit(600))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a server with an attacker and a bystander."""
    with run_world(tmp_path_factory.mktemp("attacked"), "short") as found:
        yield found


def _name_of(attack: Attack) -> str:
    return attack.name.replace(" ", "-")


@pytest.mark.req("S-02", "S-03", "S-09")
@pytest.mark.parametrize("attack", by_callers.ATTACKS, ids=_name_of)
def test_caller_holds_up_nobody_else(world: World, attack: Attack) -> None:
    """Documents, headers, pictures and queues of one workspace are refused, or wait for their turn."""
    _holds(world, attack)


@pytest.mark.req("S-04", "S-05", "S-06", "S-07", "S-08")
@pytest.mark.parametrize("attack", by_packs.ATTACKS, ids=_name_of)
def test_pack_stays_within_its_process(world: World, attack: Attack) -> None:
    """A node pack reads, changes, reaches and outlives nothing, and starves nobody."""
    _holds(world, attack)


@pytest.mark.req("S-08", "S-09")
@pytest.mark.parametrize("attack", on_files.ATTACKS, ids=_name_of)
def test_damaged_file_is_never_served(world: World, attack: Attack) -> None:
    """Stored files are verified, bounded, and read in bounded work."""
    _holds(world, attack)


@pytest.mark.req("T-04")
@pytest.mark.parametrize("attack", on_identity.ATTACKS, ids=_name_of)
def test_nobody_becomes_somebody_else(world: World, attack: Attack) -> None:
    """An address has no power before it is proven, and nothing outlives or exceeds the credential that made it."""
    _holds(world, attack)


@pytest.mark.req("S-01", "S-10")
@pytest.mark.parametrize("attack", on_secrets.ATTACKS, ids=_name_of)
def test_secret_and_price_cannot_be_had_by_asking(world: World, attack: Attack) -> None:
    """Prices, keys and tokens hold whatever a caller, a partner or a web page says."""
    _holds(world, attack)


def _holds(world: World, attack: Attack) -> None:
    verdict = attack.attempt(world)
    assert verdict.held, verdict.found
