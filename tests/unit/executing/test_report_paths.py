"""Where a report goes."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.core.executing.report_paths import LONGEST_PART, RESERVED, report_path, turn_folder
from tests.support.requirement import requirement

DEFAULT = ".orchestrix/step-<idx>-result.md"
pieces = st.sampled_from(
    ["..", ".", "", "/", "\\", "\0", "<idx>", "a", "CON", "nul.txt", " ", "~", "%2E", "C:", "\u202e", "x" * 300]
)
hostile = st.lists(pieces | st.text(max_size=4), max_size=8).map("".join) | st.lists(pieces, max_size=9).map("/".join)


def is_plain(part: str) -> bool:
    """Say whether a part can name nothing but a file or folder in the place where it stands."""
    return (
        part not in {"", ".", ".."}
        and part.isprintable()
        and not set(part) & set("/\\:\0")
        and len(part.encode()) <= 255
        and part.split(".", maxsplit=1)[0].strip().upper() not in RESERVED
    )


@requirement("SX-9")
@given(turn_id=hostile, pattern=hostile, step_idx=st.integers(0, 10**9))
def test_no_turn_id_and_no_pattern_leads_out_of_the_directory(turn_id: str, pattern: str, step_idx: int) -> None:
    """Whatever they are: refused, or a few plain names."""
    try:
        path = report_path(turn_id, pattern, step_idx)
    except ValueError:
        path = report_path(turn_id, DEFAULT, step_idx)
    assert all(is_plain(part) for part in path)
    assert path[0] == turn_folder(turn_id)


@given(hostile, hostile)
def test_two_turns_never_share_a_folder(one: str, other: str) -> None:
    """Encoded ones, hashed ones and plain ones."""
    assert (turn_folder(one) == turn_folder(other)) == (one == other)


@requirement("SX-9", "SX-11")
def test_the_usual_report_has_the_turns_own_name_and_the_step() -> None:
    """A harmless id stands as it is; the step replaces `<idx>` wherever it stands."""
    assert report_path("turn-7", DEFAULT, 3) == ("turn-7", ".orchestrix", "step-3-result.md")
    assert report_path("t", "<idx>/<idx>.md", 12) == ("t", "12", "12.md")


@pytest.mark.parametrize(
    ("turn_id", "folder"),
    [
        ("../../etc", "%2E%2E%2F%2E%2E%2Fetc"),
        ("/root", "%2Froot"),
        ("..", "%2E%2E"),
        ("a\0b", "a%00b"),
        ("a~b", "a%7Eb"),
    ],
)
def test_a_turn_id_that_is_no_harmless_name_is_encoded(turn_id: str, folder: str) -> None:
    """Slashes, dots, NUL, and the tilde that marks hashed ones."""
    assert turn_folder(turn_id) == folder


@pytest.mark.parametrize("turn_id", ["", "x" * (LONGEST_PART + 1), "con", "LPT1"])
def test_a_turn_id_that_cannot_be_a_name_becomes_a_hash(turn_id: str) -> None:
    """Nothing, too long, and names of devices."""
    assert turn_folder(turn_id).startswith("~")
    assert len(turn_folder(turn_id)) == 65


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "/etc/x",
        "../x",
        "a/../b",
        "a//b",
        "a/",
        "./a",
        "a\\b",
        "a\0b",
        "a\nb",
        "C:x",
        "aux.md",
        "a.",
        " a",
        "a/b/c/d/e/f/g/h/i",
        "y" * 201,
    ],
)
def test_a_pattern_that_is_no_plain_relative_path_is_refused(pattern: str) -> None:
    """Absolute, upwards, empty parts, separators of others, control characters, devices, too deep, too long."""
    with pytest.raises(ValueError, match="report_path_pattern"):
        report_path("turn-1", pattern, 0)


NAMES, ENDS = "holds a character that is not allowed in names", "begins or ends with a space, or ends with a dot"


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a/b/c/d/e/f/g/h/i", " has more than 8 parts"),
        ("", ": a part is empty, '.' or '..'"),
        ("a/../b", ": a part is empty, '.' or '..'"),
        ("./a", ": a part is empty, '.' or '..'"),
        *((f"a{sign}b", f": a part {NAMES}") for sign in '<>:"|?*\\\n\ud800'),
        ("a.", f": a part {ENDS}"),
        ("a ", f": a part {ENDS}"),
        (" a", f": a part {ENDS}"),
        ("y" * 201, ": a part is over 200 bytes"),
        ("é" * 101, ": a part is over 200 bytes"),
        ("x/CON", ": a part is reserved"),
        ("con .tar.gz", ": a part is reserved"),
        ("Lpt9.md", ": a part is reserved"),
    ],
)
def test_a_refused_pattern_says_what_is_wrong(pattern: str, why: str) -> None:
    """Word for word: whoever wrote the contract reads it."""
    with pytest.raises(ValueError, match="report_path_pattern") as refused:
        report_path("turn-1", pattern, 0)
    assert str(refused.value) == f"report_path_pattern{why}"


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("a/b/c/d/e/f/g/h", ("a", "b", "c", "d", "e", "f", "g", "h")),
        ("é" * 100, ("é" * 100,)),
        ("y" * 200, ("y" * 200,)),
        (".x/a b/console", (".x", "a b", "console")),
        ("<idx>/r-<idx>.md", ("12", "r-12.md")),
        ("co n/aX/conX", ("co n", "aX", "conX")),
    ],
)
def test_a_pattern_may_be_as_deep_and_as_long_as_this(pattern: str, parts: tuple[str, ...]) -> None:
    """Eight parts of 200 bytes; the step wherever it is asked for."""
    assert report_path("turn-1", pattern, 12) == ("turn-1", *parts)


@pytest.mark.parametrize("turn_id", ["", "x" * 201, "CON", "aux", "é" * 34, "\ud800" * 67])
def test_a_folder_that_cannot_be_the_id_is_its_hash(turn_id: str) -> None:
    """Empty, too long once it is encoded, or reserved."""
    digest = sha256(turn_id.encode(errors="surrogatepass")).hexdigest()
    assert turn_folder(turn_id) == f"~{digest}"


@pytest.mark.parametrize(
    ("turn_id", "folder"),
    [
        ("x" * 200, "x" * 200),
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        ("~a", "%7Ea"),
        ("\ud800", "%ED%A0%80"),
        ("é", "%C3%A9"),
    ],
)
def test_a_folder_is_the_encoded_id_where_that_is_a_name(turn_id: str, folder: str) -> None:
    """Up to 200 bytes."""
    assert turn_folder(turn_id) == folder
