"""Translates protobuf messages to plain values and back; protobuf types stay in this folder."""
