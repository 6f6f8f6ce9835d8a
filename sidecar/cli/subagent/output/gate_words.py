"""Describes the answers of gates (external checks before a step) in words."""

from sidecar.cli.output.drawing import clean
from sidecar.cli.output.json_output import enum_word
from subagents.lifecycle.v1 import reading_pb2 as pb


def gate_words(answer: pb.GateAnswer) -> str:
    """Return what one gate answered, in one line."""
    # A gate without a valid answer holds the step: it neither passed nor failed.
    held = answer.verdict == pb.GATE_VERDICT_UNAVAILABLE
    words = f"{clean(answer.gate)}: {'held' if held else enum_word(pb.GateVerdict, answer.verdict)}"
    words += f": {clean(answer.summary)}" if answer.summary else ""
    return f"{words}; passed by an operator's override" if answer.overridden else words


def gates_words(each: pb.DefinitionStatus) -> str:
    """Return what the gates of a definition answered last, in one line; empty if none was asked."""
    return "; ".join(map(gate_words, each.last_gate_answers))
