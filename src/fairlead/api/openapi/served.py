"""What of an installation its OpenAPI document depends on, apart from the document: few ask for that."""

from dataclasses import dataclass

from fairlead.api.http.headers import HeaderNames


@dataclass(frozen=True, slots=True)
class Served:
    """How headers are spelled, and what is served to whom."""

    names: HeaderNames
    version: str
    workflows: bool = True
    open_jobs: bool = False
    registry_prefix: str = ""
