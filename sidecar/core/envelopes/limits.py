"""The maximum size of a data service's response."""

from msgspec import Struct


class EnvelopeLimits(Struct, frozen=True):
    """Bounds on one envelope.

    Attributes:
        max_bytes: of the whole body, whatever its tool says.
        max_depth: arrays and objects within one another, counted from the payload's own.
        max_cache_meta_bytes: `cache_meta` goes to traces only; a longer one is left out.
        default_bytes: of the body of a tool that does not say how large it may be. Judging takes time with the size,
            which other users' calls notice.
    """

    max_bytes: int = 1024 * 1024
    max_depth: int = 32
    max_cache_meta_bytes: int = 4096
    default_bytes: int = 256 * 1024
