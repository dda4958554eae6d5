"""The brand: what may be one, and everything that is spelled after it."""

import pytest

from fairlead.domain.brand import BadBrandError, Brand


def test_default_brand_is_service() -> None:
    """Without a setting everything is named after `service`."""
    brand = Brand()
    assert (brand.header_prefix, brand.authored_flag) == ("X-Service-", "x-service-input-schema-authored")
    assert brand.native_aliases == {"default", "native", "service"}


def test_prefix_alias_and_flag_follow_from_the_brand() -> None:
    """Prefix, alias and flag follow from the one name."""
    brand = Brand("acme-2")
    assert (brand.header_prefix, brand.authored_flag) == ("X-Acme-2-", "x-acme-2-input-schema-authored")
    assert brand.native_aliases == {"default", "native", "acme-2"}


def test_prefix_of_its_own_replaces_the_prefix_alone() -> None:
    """A prefix replaces the prefix alone."""
    brand = Brand("acme", "Acme-")
    assert (brand.header_prefix, brand.authored_flag) == ("Acme-", "x-acme-input-schema-authored")
    assert brand.native_aliases == {"default", "native", "acme"}


@pytest.mark.parametrize("name", ["", "Acme", "a b", "a_b", "é", "a\n", "a" * 33])
def test_malformed_brand_name_is_refused(name: str) -> None:
    """A name is 1 to 32 lower-case letters, digits and dashes: it must fit into a header and a document's key."""
    with pytest.raises(BadBrandError):
        Brand(name)


@pytest.mark.parametrize("prefix", ["", "X", "-", "X Acme-", "X-Acmé-", "X-Acme:-", "X-Acme-\n", "1-", "X" * 64 + "-"])
def test_malformed_header_prefix_is_refused(prefix: str) -> None:
    """A prefix is a token that begins with a letter and ends with a dash."""
    with pytest.raises(BadBrandError):
        Brand(prefix=prefix)


@pytest.mark.req("C-11")
def test_key_for_partner_nodes_is_taken_under_both_names() -> None:
    """The key that pays is taken under the brand's name, and under that of the specification."""
    assert Brand("acme").partner_key_fields == ("api_key_acme_org", "api_key_service_org")
    assert Brand().partner_key_fields == ("api_key_service_org",)
