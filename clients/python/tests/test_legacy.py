"""The legacy path strips its markers at write time."""

from subagents_client import Component, strip_components
from tests.support.requirement import requirement

TEXT = 'Two for one! <component type="offer">{"id": "o-1"}</component>'


@requirement("PC1-D-50")
def test_a_marked_text_is_stripped_before_it_is_written() -> None:
    """Narration and components apart; what is damaged is told."""
    stripped = strip_components(f"{TEXT} Bye. <component>")

    assert stripped.narration == "Two for one!  Bye."
    assert stripped.components == (Component("offer", "{}", '{"id": "o-1"}'),)
    assert len(stripped.left_out) == 1
