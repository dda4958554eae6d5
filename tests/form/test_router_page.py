"""docs/router.md names every route of the router."""

import re

from fairlead.surfaces.router.routes import ROUTES
from form.sources import DOCS


def test_every_route_is_described() -> None:
    """Each path stands on the page as a whole, not as the head of a longer one."""
    text = (DOCS / "router.md").read_text(encoding="utf-8")
    paths = {route.path for route in ROUTES}
    missing = sorted(path for path in paths if not re.search(rf"(?<![\w}}]){re.escape(path)}(?![\w/{{-])", text))
    assert missing == []
