"""For the legacy path: takes component markers out of a text before it is written. Source: PC1-D-50.

A service that still has its model write `<component type="...">{json}</component>` into the text calls this at write
time: the narration may go into `EndTurn` and into any history, the components into tool messages of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from subagents_client.outcomes import Component
from subagents_legacy import Defect, split_markers


@dataclass(frozen=True, slots=True)
class StrippedText:
    """A text without its markers.

    Attributes:
        narration: holds no component data; `EndTurn` takes it.
        components: in the order of the text; `name` is the marker's type, `component_data_json` its contents as they
            stood there, and `tool_input_json` an empty object, for nobody knows what the tool was given.
        left_out: damaged markers, and JSON that says nothing of what it is; neither narration nor component.
    """

    narration: str
    components: Sequence[Component]
    left_out: Sequence[Defect]


def strip_components(text: str) -> StrippedText:
    """Take a text apart; never raises, and returns a text without markers as it was given."""
    split = split_markers(text)
    components = tuple(
        Component(name=each.type, tool_input_json="{}", component_data_json=each.data_json) for each in split.markers
    )
    return StrippedText(split.narration, components, split.defects)
