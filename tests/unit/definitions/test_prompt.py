import datetime
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.core.definitions.cards.prompt import AssembledPrompt, DynamicContext, assemble
from tests.support.requirement import requirement
from tests.unit.definitions.building import Configuration

CARD = Configuration().card()
GATE = "ai_assistant_extra"
TODAY = DynamicContext(datetime.date(2031, 4, 9), location="Bonn", user_id="user-1", locale="de-DE")
ANY_TEXT = st.text(st.characters(), min_size=1, max_size=300)


def prompt(*flags: str, dynamic: DynamicContext = TODAY) -> AssembledPrompt:
    """Assemble the prompt of the shop's card."""
    return assemble(CARD, frozenset(flags), dynamic)


@requirement("PC1-T-5", "PC1-D-18")
def test_the_prompt_is_platform_blocks_then_declared_blocks_then_the_four_values() -> None:
    """A card with one ungated block of its own."""
    assembled = prompt()

    assert assembled.prefix == (
        "Text of persona-fetch-assistant.\n\nText of format-conversational.\n\nText of safety-base.\n\n"
        "Text of persona-shop.\n\n"
    )
    assert assembled.suffix == (
        "<dynamic_context>\n"
        "date: 2031-04-09\n"
        'location: "Bonn"\n'
        'user_id: "user-1"\n'
        'locale: "de-DE"\n'
        "</dynamic_context>\n"
    )


@requirement("PC1-D-61", "PC1-D-24")
def test_a_gated_block_is_there_only_where_its_flag_is_on() -> None:
    """The same card in two cohorts: the prefix differs, and so does its digest."""
    off, on, other = prompt(), prompt(GATE), prompt("ai_assistant_other")

    assert on.prefix == off.prefix + "Text of gated.\n\n"
    assert on.prefix_digest != off.prefix_digest
    assert other == off


@requirement("PC1-D-20", "PC1-D-22")
@settings(deadline=None)
@given(location=ANY_TEXT, user_id=ANY_TEXT, locale=ANY_TEXT, date=st.dates())
def test_nothing_about_the_user_gets_into_the_prefix(
    location: str, user_id: str, locale: str, date: datetime.date
) -> None:
    """Whatever the four values are, the prefix is the cohort's, byte for byte, and does not hold them."""
    canary = "canary-7319"
    dynamic = DynamicContext(date, canary + location, canary + user_id, canary + locale)

    assembled = prompt(GATE, dynamic=dynamic)

    assert assembled.prefix == prompt(GATE).prefix
    assert assembled.prefix_digest == prompt(GATE).prefix_digest
    assert canary not in assembled.prefix
    assert canary in assembled.suffix


@settings(deadline=None)
@given(location=ANY_TEXT, user_id=ANY_TEXT, locale=ANY_TEXT)
def test_no_value_can_end_its_line_or_the_section(location: str, user_id: str, locale: str) -> None:
    """Line breaks of every kind, quotes, tags and control characters stay inside their own quotes."""
    suffix = prompt(dynamic=replace(TODAY, location=location, user_id=user_id, locale=locale)).suffix

    lines = suffix.splitlines()
    assert len(lines) == 6
    assert suffix.count("<") == suffix.count(">") == 2
    assert [line.partition(":")[0] for line in lines[1:5]] == ["date", "location", "user_id", "locale"]
    for line, value in zip(lines[2:5], (location, user_id, locale), strict=True):
        shown = line.partition(": ")[2]
        assert shown == "unknown" if not value.strip() else json.loads(shown) == value[:256]


@pytest.mark.parametrize("missing", [None, "", "  \n"])
def test_a_value_that_is_not_known_is_said_to_be_unknown(missing: str | None) -> None:
    """Neither location nor locale; a user named "unknown" is still told apart by the quotes."""
    suffix = prompt(dynamic=replace(TODAY, location=missing, locale=missing, user_id="unknown")).suffix

    assert 'location: unknown\nuser_id: "unknown"\nlocale: unknown\n' in suffix


@requirement("PC1-D-23")
def test_the_assembled_prompt_is_no_part_of_the_cards_identity() -> None:
    """Assembling for another cohort leaves card and digest as they were."""
    before = CARD.digest

    prompt(GATE)

    assert Configuration().card() == CARD
    assert CARD.digest == before
