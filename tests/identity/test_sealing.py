"""What is sealed opens for whom it was sealed for, and for nobody else."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import for_each
from fairlead.identity.master_secret import MasterSecret
from fairlead.identity.sealing import CannotOpenError, Sealer

KEY: Final = "sk-a-distinctive-key"
SEALER: Final = Sealer(MasterSecret(bytes(32)))


@pytest.mark.req("R-17")
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_sealed_text_is_opened_unchanged(text: str) -> None:
    """What was sealed is opened again, whole."""
    assert SEALER.open("lab", "acme", SEALER.seal("lab", "acme", text)) == text


@pytest.mark.req("R-17")
def test_sealed_text_cannot_be_read() -> None:
    """Nothing of the text is in what is kept, and sealing twice gives nothing in common but the version."""
    sealed, again = SEALER.seal("lab", "acme", KEY), SEALER.seal("lab", "acme", KEY)
    assert KEY.encode() not in sealed
    assert sealed[:9] == again[:9] == b"\x02" + MasterSecret(bytes(32)).id
    assert sealed[9:21] != again[9:21]
    assert sealed[21:] != again[21:]
    assert len(sealed) == 9 + 12 + len(KEY) + 16


@pytest.mark.req("R-17")
@pytest.mark.parametrize(
    ("workspace", "provider", "sealer"),
    [
        ("other", "acme", SEALER),
        ("lab", "other", SEALER),
        ("acme", "lab", SEALER),
        ("la", "bacme", SEALER),
        ("lab", "acme", Sealer(MasterSecret(bytes([1] * 32)))),
    ],
    ids=["another workspace", "another provider", "swapped", "shifted", "another secret"],
)
def test_copied_seal_does_not_open_elsewhere(workspace: str, provider: str, sealer: Sealer) -> None:
    """A seal belongs to its workspace, its provider and the secret it was made with."""
    with pytest.raises(CannotOpenError) as caught:
        sealer.open(workspace, provider, SEALER.seal("lab", "acme", KEY))
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None


@for_each("place", range(len(SEALER.seal("lab", "acme", "k"))))
def test_altered_seal_does_not_open(place: int) -> None:
    """Version, nonce, ciphertext and tag: a changed bit anywhere does not open."""
    sealed = bytearray(SEALER.seal("lab", "acme", "k"))
    sealed[place] ^= 1
    with pytest.raises(CannotOpenError):
        SEALER.open("lab", "acme", bytes(sealed))


@pytest.mark.parametrize("length", [0, 1, 12, 13, 20, 28])
def test_cut_seal_does_not_open(length: int) -> None:
    """What is too short to be sealed does not open either."""
    with pytest.raises(CannotOpenError):
        SEALER.open("lab", "acme", SEALER.seal("lab", "acme", KEY)[:length])


def test_sealer_hides_its_secret() -> None:
    """Printing it shows nothing."""
    assert repr(SEALER) == "Sealer(…)"
