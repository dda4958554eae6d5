"""The brand: the one name a service goes by on the wire, and everything that is spelled after it."""

import re
from types import MappingProxyType
from typing import Final

import msgspec

_ALIASES: Final = MappingProxyType({"comfy": frozenset({"comfyui"})})
"""Names of other brands, which their released clients send for native dispatch."""
_NAME: Final = re.compile(r"[a-z0-9-]{1,32}")
_HEADER_PREFIX: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}-")


class BadBrandError(ValueError):
    """A text cannot be a brand or a header prefix."""


def brand_name(text: str) -> str:
    """A text that may be a brand's name; BadBrandError."""
    if not _NAME.fullmatch(text):
        raise BadBrandError("must be 1 to 32 lower-case letters, digits and dashes")
    return text


def native_aliases(text: str) -> frozenset[str]:
    """Names with commas between them, each of which may be a brand's; BadBrandError."""
    return frozenset(brand_name(part.strip()) for part in text.split(",") if part.strip())


def header_prefix(text: str) -> str:
    """A text that may be a prefix of header names; BadBrandError."""
    if not _HEADER_PREFIX.fullmatch(text):
        raise BadBrandError("must be letters, digits and dashes, begin with a letter, end with a dash; at most 64")
    return text


class Brand(msgspec.Struct, frozen=True):
    """A name, and a prefix for header names where it differs from the name; BadBrandError for bad ones.

    `aliases` are further names by which callers may ask for the native provider; None for the usual ones of this name.
    """

    name: str = "service"
    prefix: str | None = None
    aliases: frozenset[str] | None = None

    def __post_init__(self) -> None:
        brand_name(self.name)
        if self.prefix is not None:
            header_prefix(self.prefix)

    @property
    def header_prefix(self) -> str:
        """What the service's own header names begin with."""
        return f"X-{self.name.title()}-" if self.prefix is None else self.prefix

    @property
    def native_aliases(self) -> frozenset[str]:
        """The values of `model_provider` that mean the model's own provider."""
        others = _ALIASES.get(self.name, frozenset()) if self.aliases is None else self.aliases
        return frozenset({"default", "native", self.name}) | others

    @property
    def authored_flag(self) -> str:
        """The extension of a schema document that says whether its schema was authored (R-08)."""
        return f"x-{self.name}-input-schema-authored"

    @property
    def partner_key_fields(self) -> tuple[str, ...]:
        """The fields of `extra_data` that hold the key which pays for partner nodes (C-11), the preferred one first."""
        return tuple(dict.fromkeys((f"api_key_{self.name}_org", "api_key_service_org")))
