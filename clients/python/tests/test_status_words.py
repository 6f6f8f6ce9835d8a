from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subagents_client import StatusRenderer, StatusUpdate
from subagents_client.status_words import ENGLISH
from tests.support.requirement import requirement

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def update(kind: str, attributes: Mapping[str, str] | None = None, agents: Sequence[str] = ("shop",)) -> StatusUpdate:
    """Return an update."""
    return StatusUpdate(1, NOW, "call-1", kind, agents, 1, attributes or {})


@requirement("PC1-D-15")
def test_an_update_becomes_a_line_with_its_attributes() -> None:
    """Built-in English."""
    assert StatusRenderer().render(update("searching_offers", {"store": "Target"})) == "Looking for offers at Target…"


def test_without_its_attribute_the_next_template_is_used() -> None:
    """Also if the attribute is there but empty."""
    renderer = StatusRenderer()

    assert renderer.render(update("searching_offers")) == "Looking for offers…"
    assert renderer.render(update("searching_offers", {"store": " \n"})) == "Looking for offers…"


def test_several_sub_agents_get_a_line_without_attributes() -> None:
    """The attributes belong to the newest report only."""
    words = StatusRenderer().render(update("searching_offers", {"store": "Target"}, ["shop", "rewards"]))

    assert words == "Looking for offers…"


@requirement("PC2-T-31")
def test_a_type_without_words_gives_none() -> None:
    """Never the identifier itself."""
    assert StatusRenderer().render(update("reticulating_splines")) is None


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ("de-AT", "Schau ma mal…"),
        ("de_AT", "Schau ma mal…"),
        ("de-CH", "Suche Angebote…"),
        ("DE", "Suche Angebote…"),
        ("fr-FR", "Buscando ofertas…"),
        (None, "Buscando ofertas…"),
    ],
)
def test_the_nearest_locale_with_words_is_used(locale: str | None, expected: str) -> None:
    """The user's own, its language, the default one."""
    renderer = StatusRenderer(
        {
            "de-AT": {"searching_offers": "Schau ma mal…"},
            "de": {"searching_offers": ["Suche Angebote…"]},
            "es": {"searching_offers": "Buscando ofertas…"},
        },
        default_locale="es",
    )

    assert renderer.render(update("searching_offers"), locale) == expected


def test_a_type_that_a_locale_lacks_falls_back_to_english() -> None:
    """German has words for one type only."""
    renderer = StatusRenderer({"de": {"searching_offers": "Suche Angebote…"}})

    assert renderer.render(update("still_working"), "de") == "Still working on it…"


def test_templates_are_read_from_a_file(tmp_path: Path) -> None:
    """One table per locale."""
    path = tmp_path / "words.toml"
    path.write_text('[fr-CA]\nsearching_offers = ["Recherche chez {store}…", "Recherche…"]\n', encoding="utf-8")

    words = StatusRenderer.from_toml(path).render(update("searching_offers", {"store": "Metro"}), "fr-CA")

    assert words == "Recherche chez Metro…"


@pytest.mark.parametrize("template", ["{store.name}", "{0}", "{store!r}", "{store:>99}", "{", "a } b", "{{x}}", " ", 7])
def test_a_template_with_more_than_names_in_braces_is_refused(template: object) -> None:
    """At the start, not in front of the user."""
    with pytest.raises(ValueError, match="searching_offers"):
        StatusRenderer({"en": {"searching_offers": template}})  # type: ignore[dict-item]  # what a file may hold


def test_a_file_with_something_else_than_tables_is_refused(tmp_path: Path) -> None:
    """A type without its locale."""
    path = tmp_path / "words.toml"
    path.write_text('searching_offers = "Looking…"', encoding="utf-8")

    with pytest.raises(ValueError, match="must be a table"):
        StatusRenderer.from_toml(path)


def test_an_attribute_is_shown_as_one_short_line() -> None:
    """Line breaks, control characters and direction marks do not reach the user."""
    words = StatusRenderer().render(update("searching_offers", {"store": "A\nB\x1b[31m\u202eC" + "x" * 500}))

    assert words is not None
    assert words.startswith("Looking for offers at A B[31mC")
    assert len(words) < 120


@given(
    kind=st.sampled_from([*ENGLISH, "unknown_type", "", "{store}"]),
    attributes=st.dictionaries(st.sampled_from(["store", "order", "x.y", "0", "__class__"]), st.text()),
    agents=st.lists(st.sampled_from(["shop", "rewards"]), max_size=3),
    locale=st.one_of(st.none(), st.text(max_size=12)),
)
def test_no_update_makes_the_renderer_fail_or_format_twice(
    kind: str, attributes: Mapping[str, str], agents: Sequence[str], locale: str | None
) -> None:
    """Whatever a sub-agent sends; placeholders inside values stay as they are."""
    renderer = StatusRenderer()
    poisoned = {name: "{order}{store.__class__}%s" + value for name, value in attributes.items()}

    plain = renderer.render(update(kind, attributes, agents), locale)
    words = renderer.render(update(kind, poisoned, agents), locale)

    assert (plain is None) == (words is None) == (kind not in ENGLISH)
    if words is not None:
        assert words.isprintable()
        assert "<class" not in words
