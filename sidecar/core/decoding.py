"""The one place that decodes bytes and text from outside: files, messages, rows, tokens, answers.

The libraries raise more exceptions than their documentation names: `msgspec` raises `UnicodeDecodeError` for a string
that is not UTF-8, and both JSON libraries raise `RecursionError` for deep nesting. Here every failure is
`DecodeError`, so that no caller misses one; `tests/architecture/test_decoding_is_one_place.py` keeps other modules
from decoding.
"""

import base64
import json
import tomllib
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, overload

import msgspec

Kind = TypeVar("Kind")

_REFUSALS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""`ValueError` covers UnicodeError, JSONDecodeError, TOMLDecodeError and binascii.Error."""


class DecodeError(ValueError):
    """External data has the wrong form. The message has the cause and the place, as the library reports them.

    Attributes:
        at: position of the first byte that does not fit; -1 if unknown.
    """

    def __init__(self, message: str, at: int = -1) -> None:
        super().__init__(message)
        self.at = at


class SchemaMismatch(DecodeError):
    """The input is valid JSON or MessagePack, but of another type; the message names fields and types."""


class JsonDecoder(Generic[Kind]):
    """Decodes JSON of one type. Create it once for a type that is decoded often.

    Args:
        kind: the type.
        dec_hook: creates values of types that msgspec does not know.
    """

    def __init__(self, kind: type[Kind], dec_hook: Callable[[type, Any], Any] | None = None) -> None:
        """Compile the type."""
        self._decode = msgspec.json.Decoder(kind, dec_hook=dec_hook).decode

    def decode(self, text: bytes | str | msgspec.Raw) -> Kind:
        """Return the value. Raises `DecodeError`."""
        try:
            return self._decode(text)
        except _REFUSALS as error:
            raise _refusal(error) from None


class MsgpackDecoder(Generic[Kind]):
    """Decodes MessagePack of one type. Create it once for a type that is decoded often.

    Args:
        kind: the type, or a union of types.
    """

    def __init__(self, kind: Any) -> None:
        """Compile the type."""
        self._decode: Callable[[bytes | msgspec.Raw], Kind] = msgspec.msgpack.Decoder(kind).decode

    def decode(self, raw: bytes | msgspec.Raw) -> Kind:
        """Return the value. Raises `DecodeError`."""
        try:
            return self._decode(raw)
        except _REFUSALS as error:
            raise _refusal(error) from None


@overload
def from_json(text: bytes | str | msgspec.Raw) -> Any: ...
@overload
def from_json(text: bytes | str | msgspec.Raw, kind: type[Kind]) -> Kind: ...
def from_json(text: bytes | str | msgspec.Raw, kind: Any = Any) -> Any:
    """Return the value of a JSON text, of the type `kind` or of plain types. Raises `DecodeError`."""
    try:
        return msgspec.json.decode(text, type=kind)
    except _REFUSALS as error:
        raise _refusal(error) from None


def from_json_by_pairs(text: bytes | str, pairs: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    """Return the value of a JSON text; `pairs` creates each object from its members. Raises `DecodeError`.

    A `ValueError` of `pairs` becomes a `DecodeError`.
    """
    try:
        # The standard library, because msgspec keeps only the last of several members with one name. `pairs` sees all.
        return json.loads(text, object_pairs_hook=pairs)
    except _REFUSALS as error:
        raise _refusal(error) from None


def from_toml(text: bytes | str) -> dict[str, Any]:
    """Return the contents of a TOML text in UTF-8 bytes. Raises `DecodeError`."""
    try:
        return tomllib.loads(text if isinstance(text, str) else from_utf8(text))
    except _REFUSALS as error:
        raise _refusal(error) from None


def from_utf8(raw: bytes) -> str:
    """Return the text. Raises `DecodeError`."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(f"is not UTF-8 from byte {error.start} on", error.start) from None


def from_ascii(raw: bytes) -> str:
    """Return the text. Raises `DecodeError`."""
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError as error:
        raise DecodeError(f"is not ASCII from byte {error.start} on", error.start) from None


def from_base64url(text: str) -> bytes:
    """Decode a text that `base64url` created; any other spelling of the same bytes is refused.

    Raises:
        DecodeError: the text is not what `base64url` returns.
    """
    try:
        # Without `validate`, Python skips foreign characters silently, and many texts would decode to the same bytes.
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise _refusal(error) from None
    # Several texts decode to the same bytes (unused bits). One signature or token must have one spelling.
    if base64url(raw) != text:
        raise DecodeError("is base64 in another spelling")
    return raw


def base64url(raw: bytes) -> str:
    """Return bytes as base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def from_hex(text: str) -> bytes:
    """Return the bytes of a text of hexadecimal digits. Raises `DecodeError`."""
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise _refusal(error) from None


def _refusal(error: Exception) -> DecodeError:
    if isinstance(error, msgspec.ValidationError):
        return SchemaMismatch(str(error))
    # Its own message is about Python's call stack, which tells the author of a text nothing.
    if isinstance(error, RecursionError):
        return DecodeError("is nested too deep")
    if isinstance(error, UnicodeError):
        return DecodeError("holds text that is not UTF-8")
    return DecodeError(str(error))
