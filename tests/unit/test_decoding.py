"""Everything that a library may raise for what comes from outside is one exception."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from sidecar.core import decoding
from sidecar.core.binding.surface_token import SigningKeys, verify_token
from sidecar.core.decoding import DecodeError, JsonDecoder, SchemaMismatch
from sidecar.core.errors import SurfaceTokenInvalid
from sidecar.core.history.legacy_records import Finding, read_record
from sidecar.core.replaying.document import CannotReplay, document_from_json
from sidecar.core.replaying.frames import attempt_from_json
from sidecar.core.verifying.checkpoint_lines import line_from
from sidecar.settings import SettingsProblem, read_settings

HOSTILE_JSON = [
    b"",
    b"{",
    b'"\xff"',
    b'{"a":"\xed\xa0\x80"}',
    b"\xef\xbb\xbf{}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"kind":"\xff"}',
    b"1e999",
    b"\x00",
]


class _Row(msgspec.Struct):
    kind: str


WAYS: list[Callable[[bytes], Any]] = [
    lambda raw: decoding.from_json(raw, _Row),
    lambda raw: JsonDecoder(_Row).decode(raw),
    lambda raw: decoding.from_json_by_pairs(b"[" + raw, dict),
    lambda raw: decoding.from_toml(b"=" + raw),
    lambda raw: decoding.from_toml(b"a = " + raw + b"\xff"),
]


@pytest.mark.parametrize("raw", HOSTILE_JSON, ids=range(len(HOSTILE_JSON)))
@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
def test_hostile_bytes_are_undecodable_and_nothing_else(way: Callable[[bytes], Any], raw: bytes) -> None:
    """Bytes that make the libraries raise each of the exceptions that they may raise."""
    with pytest.raises(DecodeError):
        way(raw)


@pytest.mark.parametrize("text", ["\udcff", '{"kind": "\udcff"}', "[" * 100_000])
def test_hostile_text_is_undecodable_and_nothing_else(text: str) -> None:
    """Text from an environment or a command line may hold half of a surrogate pair."""
    for way in (decoding.from_json, decoding.from_toml, decoding.from_base64url, decoding.from_hex):
        with pytest.raises(DecodeError):
            way(text)


def test_what_is_json_of_another_type_says_which_field() -> None:
    """Told apart from what is no JSON at all, for people who have to find it."""
    with pytest.raises(SchemaMismatch, match=r"Expected `str`, got `int` - at `\$.kind`"):
        decoding.from_json(b'{"kind": 1}', _Row)


def test_base64_has_one_spelling() -> None:
    """Padding, other alphabets, stray bits and blanks are refused."""
    assert decoding.from_base64url(decoding.base64url(b"\xff\xfe")) == b"\xff\xfe"
    for text in ("__4=", "//4", "__5", "__4 ", "_"):
        with pytest.raises(DecodeError):
            decoding.from_base64url(text)


@pytest.mark.parametrize("raw", HOSTILE_JSON, ids=range(len(HOSTILE_JSON)))
def test_every_reader_of_a_line_a_token_or_a_document_survives_hostile_bytes(raw: bytes) -> None:
    """Each has its own word for it; signed tokens are signed by us, so that the content is looked at."""
    keys = SigningKeys({"k1": b"k" * 32}, "k1")
    assert line_from(raw) is None
    assert isinstance(read_record(raw, 1), Finding)
    with pytest.raises(SurfaceTokenInvalid):
        verify_token(keys.sign("surface", raw), keys)
    with pytest.raises(CannotReplay):
        document_from_json(raw)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"x":' * 100_000, '"\udcff"', "{"])
def test_recorded_frames_that_cannot_be_read_are_a_value_error(text: str) -> None:
    """Replays tell which attempt it is; a recursion would have ended them with a traceback."""
    with pytest.raises(ValueError, match="its frames cannot be read"):
        attempt_from_json(text)


@pytest.mark.parametrize("number", ["-1", "9007199254740993", "9" * 40])
def test_a_time_that_no_attempt_can_have_is_a_value_error(number: str) -> None:
    """A replay computes with floats; a number of forty digits would have ended it with a traceback."""
    with pytest.raises(ValueError, match="its frames cannot be read"):
        attempt_from_json(f'{{"frames": [["narration", {number}, "so"]]}}')


def test_a_document_without_a_dispatch_says_so() -> None:
    """There is nothing to replay, and no index that could be out of range."""
    document = document_from_json(b'{"turn_id":"t","dispatches":[],"children":[],"attempts":[],"told":{}}')
    with pytest.raises(CannotReplay, match="turn t has no dispatch"):
        document.claims()


@pytest.mark.parametrize("text", ["[" * 100_000, '"\udcff"', "{"])
def test_a_variable_that_is_no_json_is_a_problem_of_the_settings(text: str) -> None:
    """Brackets without end, half a surrogate pair, half an object: named by the variable, no traceback."""
    with pytest.raises(SettingsProblem, match="SIDECAR__PLUGINS__ENABLED: must be JSON"):
        read_settings(None, {"SIDECAR__PLUGINS__ENABLED": text})


def test_a_settings_file_that_is_nested_too_deep_is_a_problem_of_the_settings(tmp_path: Any) -> None:
    """An array of arrays without end."""
    file = tmp_path / "sidecar.toml"
    file.write_text("a = " + "[" * 100_000)
    with pytest.raises(SettingsProblem, match="is not TOML: is nested too deep"):
        read_settings(file, {})
