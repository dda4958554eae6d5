"""The list of token issuers that an operator writes."""

import pytest

from fairlead.domain.accounts.token_issuers import IssuerRecord, TokenKind, read_issuers

_ONE = '{"issuer":"https://a","audience":"b","keys":"/k"}'


@pytest.mark.req("J-09")
def test_issuers_are_read_with_their_audiences_and_kinds() -> None:
    """One audience or several; tokens are of sessions where nothing else is said."""
    text = f'[{_ONE},{{"issuer":"https://c","audience":["d","e"],"keys":"https://c/k","kind":"oauth"}}]'
    first, second = read_issuers(text)
    assert first == IssuerRecord("https://a", "b", "/k", TokenKind.SESSION)
    assert (second.audiences, second.kind) == (("d", "e"), TokenKind.OAUTH)


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "[1]", '[{"issuer":"a"}]', f'[{_ONE[:-1]},"kind":"other"}}]', f"[{_ONE},{_ONE}]",
        '[{"issuer":"","audience":"b","keys":"k"}]', '[{"issuer":"a","audience":[],"keys":"k"}]',
        f'[{_ONE[:-1]},"secret":"s"}}]', "[" + ",".join([_ONE] * 21) + "]",
    ],
)  # fmt: skip
def test_malformed_list_of_issuers_is_refused(text: str) -> None:
    """A record that lacks something, says more, or names an issuer twice for one audience."""
    with pytest.raises(ValueError, match=r"issuer|must"):
        read_issuers(text)
