"""What callers send about assets, as a form or as JSON, and ids in paths (J-14)."""

import re
from typing import Any, Final

import msgspec

from fairlead.api.http.forms import Form
from fairlead.api.jobs.documents import PATH_MAX, AssetFromHash
from fairlead.domain.assets.faults import AssetFaultError, AssetNotFound
from fairlead.domain.assets.records import BadAssetError, NewAsset, is_asset_id, read_hash
from fairlead.domain.jobs.faults import BadFile, JobFaultError

BODY_MAX: Final = 64 * 1024
_SECONDS: Final = re.compile(r"[0-9]{1,9}")
_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}( *;[\x20-\x7e]{0,200})?")


_bodies: Final = msgspec.json.Decoder(AssetFromHash)


def read_upload(form: Form) -> tuple[str, NewAsset, str | None]:
    """The name of an asset that came as a form, what is said of it, and the digest it must have; JobFaultError."""
    if form.filename is None:
        raise _bad("Send the bytes as a file in the field file.")
    path = form.fields.get("file_path") or None
    name = path or form.filename
    if not name:
        raise _bad("The asset needs a file_path, or a file with a name.")
    type_ = form.fields.get("content_type") or None
    if type_ is not None and _TYPE.fullmatch(type_) is None:
        raise _bad("content_type must be a media type such as image/png.")
    expected = form.fields.get("expected_hash")
    new = _new(name, type_, _tags(form.fields.get("tags")), _seconds(form.fields.get("expires_in")))
    return name, new, None if expected is None else digest_of(expected, "expected_hash")


def read_from_hash(content: bytes) -> tuple[str, NewAsset]:
    """The digest an asset is made from, and what is said of it; JobFaultError."""
    try:
        content.decode()
        body = _bodies.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad('The body must be JSON such as {"hash": "blake3:…", "file_path": "photo.png"}.') from error
    return digest_of(body.hash, "hash"), _new(body.file_path, None, body.tags, body.expires_in)


def digest_of(text: str, name: str) -> str:
    """The digest of a hash; JobFaultError where it is none."""
    if (digest := read_hash(text)) is None:
        raise _bad(f"{name} must be blake3: and 64 digits of lower-case hexadecimal.")
    return digest


def asset_id_of(parameters: Any) -> str:
    """The id in a path; AssetFaultError(AssetNotFound) for what can be none."""
    asset_id: str = parameters["asset_id"]
    if not is_asset_id(asset_id):
        raise AssetFaultError(AssetNotFound())
    return asset_id


def _new(path: str | None, type_: str | None, tags: list[str], expires_in: int | None) -> NewAsset:
    if path is not None and (len(path) > PATH_MAX or "\0" in path):
        raise _bad(f"file_path may have {PATH_MAX} characters, none of them NUL.")
    try:
        return NewAsset(path, type_, tags, expires_in)
    except BadAssetError as error:
        raise _bad(str(error)) from error


def _tags(text: str | None) -> list[str]:
    """Tags as a form has them: a JSON array, or with commas between them."""
    if not text:
        return []
    if not text.startswith("["):
        return [tag.strip() for tag in text.split(",")]
    try:
        return msgspec.json.decode(text, type=list[str])
    except (msgspec.DecodeError, RecursionError) as error:
        raise _bad("tags must be a JSON array of texts, or texts with commas between them.") from error


def _seconds(text: str | None) -> int | None:
    if not text:
        return None
    if _SECONDS.fullmatch(text) is None:
        raise _bad("expires_in must be a whole number of seconds.")
    return int(text)


def _bad(message: str) -> JobFaultError:
    return JobFaultError(BadFile(message))
