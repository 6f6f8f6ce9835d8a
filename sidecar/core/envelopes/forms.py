"""The two wire forms of an envelope. The same checks in the same order apply to both."""

from enum import StrEnum, unique


@unique
class EnvelopeEncoding(StrEnum):
    """The encoding of a response."""

    JSON = "json"
    """One JSON object, as over REST."""
    PROTOBUF = "protobuf"
    """A serialised `subagents.envelope.v1.EnricherResponse`, as over gRPC."""
