"""What each kind of setting takes, from a file and as the text of a variable."""

from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs
import pytest

from sidecar.settings.kinds import InvalidValues, Secret
from sidecar.settings.schema import json_schema
from sidecar.settings.section import Section, setting


class Colour(StrEnum):
    """An enumeration, as roles are."""

    RED = "red"
    BLUE = "blue"


class Inner(Section):
    """A section inside another."""

    count: int = setting(1, ge=1, le=9, description="A number.")

    def _check(self) -> None:
        if self.count == 7:
            raise ValueError("not seven")


class Every(Section):
    """A setting of each kind."""

    text: str = setting("a", min_length=1, max_length=3, pattern="^[a-z]+$", description="A text.")
    whole: int = setting(1, description="A whole number.")
    share: float = setting(0.5, gt=0, le=1, description="A number.")
    switch: bool = setting(False, description="A switch.")
    path: Path | None = setting(None, description="A path.")
    secret: Secret | None = setting(None, description="A secret.")
    choice: Literal["one", "two"] = setting("one", description="A choice.")
    colours: tuple[Colour, ...] = setting((), description="Colours.")
    either: str | dict[str, str] = setting("x", description="A text, or several by name.")
    inner: Inner = setting(Inner(), description="A section.")
    many: dict[str, Inner] = setting({}, min_length=1, description="Sections by name.")


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("whole", "-3", -3),
        ("whole", " 3\n", 3),
        ("whole", 3.0, 3),
        ("share", "0.25", 0.25),
        ("share", 1, 1.0),
        ("switch", "TRUE", True),
        ("switch", "off", False),
        ("switch", "0", False),
        ("switch", 1, True),
        ("path", "/x", Path("/x")),
        ("path", None, None),
        ("secret", "s3cret", Secret("s3cret")),
        ("choice", "two", "two"),
        ("colours", ["red", Colour.BLUE], (Colour.RED, Colour.BLUE)),
        ("either", {"a": "b"}, {"a": "b"}),
        ("either", "b", "b"),
        ("inner", {"count": "2"}, Inner(count=2)),
        ("inner", Inner(count=2), Inner(count=2)),
        ("many", {"a": {}}, {"a": Inner()}),
    ],
)
def test_a_value_is_taken(name: str, said: Any, value: Any) -> None:
    """In the type that the annotation names."""
    taken = getattr(Every(**{name: said}), name)
    assert taken == value
    assert type(taken) is type(value)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"text": 5}, "text: must be a text"),
        ({"text": ""}, "text: must have at least 1 character"),
        ({"text": "abcd"}, "text: must have at most 3 characters"),
        ({"text": "AB"}, "text: must match ^[a-z]+$"),
        ({"whole": True}, "whole: must be a whole number"),
        ({"whole": "1.5"}, "whole: must be a whole number"),
        ({"whole": "9" * 5000}, "whole: must be a whole number"),
        ({"share": "nan"}, "share: must be a number"),
        ({"share": 0}, "share: must be more than 0"),
        ({"share": 1.5}, "share: must be at most 1"),
        ({"switch": "maybe"}, "switch: must be true or false"),
        ({"path": 5}, "path: must be a path"),
        ({"path": "a\0b"}, "path: must be a path"),
        ({"secret": 5}, "secret: must be a text"),
        ({"choice": "three"}, "choice: must be 'one' or 'two'"),
        ({"colours": "red"}, "colours: must be a list"),
        ({"colours": ["green"]}, "colours.0: must be 'red' or 'blue'"),
        ({"either": {"a": 5}}, "either.a: must be a text"),
        ({"either": 5}, "either: must be a text"),
        ({"inner": 5}, "inner: must be a table"),
        ({"inner": {"count": 0}}, "inner.count: must be at least 1"),
        ({"inner": {"count": 7}}, "inner: not seven"),
        ({"inner": {"cuont": 7}}, "inner.cuont: no such setting"),
        ({"many": {}}, "many: must have at least 1 entry"),
        ({"many": {"a": {"count": 10}, "b": 1}}, "many.a.count: must be at most 9; many.b: must be a table"),
    ],
)
def test_what_cannot_be_is_refused_by_its_place(said: dict[str, Any], problem: str) -> None:
    """Every problem, and no value."""
    with pytest.raises(InvalidValues) as refused:
        Every(**said)
    assert str(refused.value) == problem


def test_a_secret_is_shown_nowhere() -> None:
    """Neither alone nor in a section."""
    assert "s3cret" not in f"{Secret('s3cret')} {Every(secret='s3cret')!r}"


def test_the_schema_of_a_plugins_section_refuses_what_the_section_refuses() -> None:
    """Bounds, types, names that it does not know."""

    class Plugin(Section):
        """Settings of a plugin."""

        url: str = setting(description="Where.")
        most: int = setting(3, ge=1, le=9, description="How many.")
        wait: float = setting(1.0, gt=0, description="How long.")
        file: str | None = setting(None, description="From where.")

    schema = json_schema(Plugin)
    for said in ({"url": "x"}, {"url": "x", "most": 9, "wait": 0.5, "file": None}):
        assert jsonschema_rs.is_valid(schema, said)
        Plugin(**said)
    for wrong in ({}, {"url": 1}, {"url": "x", "most": 0}, {"url": "x", "wait": 0}, {"url": "x", "more": 1}):
        assert not jsonschema_rs.is_valid(schema, wrong)
        with pytest.raises(InvalidValues):
            Plugin(**wrong)
