"""Removes component markers from a text, for services whose model still writes them into it. Source: PC1-D-50.

Such a model writes `<component type="...">{json}</component>` into its answer. The service calls `strip_components`
before it stores the answer: the narration goes into `EndTurn` and into histories, the components into tool messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from subagents_client.outcomes import Component
from subagents_legacy import Defect, split_markers


@dataclass(frozen=True, slots=True)
class StrippedText:
    """A text without its markers.

    Attributes:
        narration: the text without component data, for `EndTurn`.
        components: the components in the order of the text. `name` is the marker's type, `component_data_json` its
            unchanged content, and `tool_input_json` an empty object, because the input of the tool is unknown.
        left_out: damaged markers, and JSON of unknown meaning; they are neither narration nor component.
    """

    narration: str
    components: Sequence[Component]
    left_out: Sequence[Defect]


def strip_components(text: str) -> StrippedText:
    """Separate the narration and the components of a text. Never raises; a text without markers stays unchanged."""
    split = split_markers(text)
    components = tuple(
        Component(name=each.type, tool_input_json="{}", component_data_json=each.data_json) for each in split.markers
    )
    return StrippedText(split.narration, components, split.defects)
