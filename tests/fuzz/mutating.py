"""Mutates inputs without a fuzzer: for the short form, which every machine runs, and where atheris has no wheel."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from tests.fuzz.target import Target

LONGEST: Final = 4096
MOST: Final = 4
NUMBERS: Final = (b"\x00", b"\x7f", b"\x80", b"\xff", b"0", b"-1", b"2147483648", b"18446744073709551616")


def inputs(target: Target, corpus: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Yield inputs without end: each is one of the corpus after one to four mutations. A seed gives the same ones."""
    chance, known = Random(seed), [*target.seeds, *corpus] or [b""]
    ways = _ways(chance, target, known)
    while True:
        data = chance.choice(known)
        for _ in range(chance.randint(1, MOST)):
            data = chance.choice(ways)(data)[:LONGEST]
        yield data


def _ways(chance: Random, target: Target, known: Sequence[bytes]) -> Sequence[Callable[[bytes], bytes]]:
    words = (*target.words, *NUMBERS)

    def span(data: bytes) -> tuple[int, int]:
        begin = chance.randint(0, len(data))
        return begin, min(len(data), begin + chance.choice((0, 1, 2, 4, 16, 64)))

    def spliced(data: bytes) -> bytes:
        begin, end = span(data)
        return data[:begin] + chance.choice(words) + data[end:]

    def cut(data: bytes) -> bytes:
        begin, end = span(data)
        return data[:begin] + data[end:]

    def flipped(data: bytes) -> bytes:
        if not data:
            return data
        at = chance.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]

    def repeated(data: bytes) -> bytes:
        begin, end = span(data)
        return data[:end] + data[begin:end] * chance.choice((1, 2, 8)) + data[end:]

    def crossed(data: bytes) -> bytes:
        other = chance.choice(known)
        return data[: chance.randint(0, len(data))] + other[chance.randint(0, len(other)) :]

    return (spliced, spliced, spliced, cut, flipped, flipped, repeated, crossed)
