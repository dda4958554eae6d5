"""Origins of pages, as a setting names them."""

import pytest

from fairlead.domain.origins import read_origins


@pytest.mark.req("K-07")
def test_origins_are_read_as_browsers_name_them() -> None:
    """An origin is in lower case without a trailing slash, and may have a port or an address in brackets."""
    text = "https://Editor.example.com/, http://127.0.0.1:5173,http://[::1]:8080"
    assert read_origins(text) == {"https://editor.example.com", "http://127.0.0.1:5173", "http://[::1]:8080"}


@pytest.mark.parametrize(
    "text",
    ["", "*", "null", "editor.example.com", "ftp://a", "https://a/path", "https://a b", "https://a,", "https://a:port"],
)
def test_anything_but_a_named_origin_is_refused(text: str) -> None:
    """Every origin has to be named: all of them cannot be."""
    with pytest.raises(ValueError, match="origins such as"):
        read_origins(text)
