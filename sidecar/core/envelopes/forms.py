"""How an envelope is written on the wire. Either form is judged by the same checks in the same order."""

from enum import StrEnum, unique


@unique
class EnvelopeEncoding(StrEnum):
    """What the bytes of an answer are."""

    JSON = "json"
    """One JSON object, as over REST."""
    PROTOBUF = "protobuf"
    """A serialised `subagents.envelope.v1.EnricherResponse`, as over gRPC."""
