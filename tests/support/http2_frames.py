"""Frames of HTTP/2, written by hand: what no library sends, a test has to."""

import asyncio
from enum import IntEnum, unique
from typing import Final, NamedTuple

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client sends first."""
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
HEAD_BYTES: Final = 9
CANCEL: Final = 8
INTERNAL_ERROR: Final = 2
ENHANCE_YOUR_CALM: Final = 11


@unique
class Kind(IntEnum):
    """Types of frames."""

    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8


class Frame(NamedTuple):
    """A frame that was read."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: Kind, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    """Return the bytes of a frame."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def settings(*, ack: bool = False) -> bytes:
    """Return SETTINGS that set nothing."""
    return frame(Kind.SETTINGS, flags=ACK if ack else 0)


def ping(payload: bytes = b"12345678", *, ack: bool = False) -> bytes:
    """Return a PING."""
    return frame(Kind.PING, payload, ACK if ack else 0)


def reset(stream: int, code: int = CANCEL) -> bytes:
    """Return the end of a stream by force."""
    return frame(Kind.RST_STREAM, code.to_bytes(4), stream=stream)


def goaway(last_stream: int, code: int = 0) -> bytes:
    """Return GOAWAY: streams above `last_stream` were not looked at."""
    return frame(Kind.GOAWAY, last_stream.to_bytes(4) + code.to_bytes(4))


def headers(stream: int, fields: bytes, *, last: bool = False) -> bytes:
    """Return HEADERS with fields in HPACK."""
    return frame(Kind.HEADERS, fields, END_HEADERS | (END_STREAM if last else 0), stream)


def data(stream: int, payload: bytes, *, last: bool = False) -> bytes:
    """Return DATA."""
    return frame(Kind.DATA, payload, END_STREAM if last else 0, stream)


def field(name: str, value: str) -> bytes:
    """Return a field in HPACK: a literal with a name of its own, kept in no table."""
    assert max(len(name), len(value)) < 127, "a longer one needs another length"
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def message(payload: bytes) -> bytes:
    """Return a message of gRPC with its head."""
    return b"\x00" + len(payload).to_bytes(4) + payload


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Read a frame. Raises `asyncio.IncompleteReadError` at the end of the connection."""
    head = await reader.readexactly(HEAD_BYTES)
    payload = await reader.readexactly(int.from_bytes(head[:3]))
    return Frame(head[3], head[4], int.from_bytes(head[5:9]), payload)
