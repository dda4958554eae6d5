"""Every price that ships says where its vendor publishes it, and when somebody last looked."""

from catalog_samples import shipped_catalog
from fairlead.clock import Clock


def test_every_rate_card_has_a_source_and_a_date() -> None:
    """No card that ships lacks either, and no date is in the future."""
    today = Clock().today()
    lacking = {
        f"{model.id} at {leg.provider}: {card.version}"
        for model in shipped_catalog().models.values()
        for leg in model.legs
        for card in leg.rate_cards
        if card.source is None or card.checked is None or card.checked > today
    }
    assert lacking == set()
