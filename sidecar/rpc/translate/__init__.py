"""Protobuf messages to plain values and back; protobuf types go no further (STYLE_EXAMPLES section 9)."""
