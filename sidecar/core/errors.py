"""The exceptions that the core raises. They come from the shared tree, so that there is only one."""

from subagents_errors import *  # noqa: F403  the tree is shared by both ends of the wire
