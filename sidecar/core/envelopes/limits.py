"""The maximum size of a data service's response."""

from msgspec import Struct


class EnvelopeLimits(Struct, frozen=True):
    """Limits of one envelope.

    Attributes:
        max_bytes: of the whole body, whatever its tool allows.
        max_depth: nesting of arrays and objects, counted from the payload itself.
        max_cache_meta_bytes: `cache_meta` goes only to traces; a longer one is omitted.
        default_bytes: of the body, for tools without a limit of their own. The time for the checks grows with the size
            and delays other users' calls.
    """

    max_bytes: int = 1024 * 1024
    max_depth: int = 32
    max_cache_meta_bytes: int = 4096
    default_bytes: int = 256 * 1024
