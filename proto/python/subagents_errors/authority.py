"""The caller's identity is not proven, or the caller may not do this."""

from subagents_errors.root import SubagentsError


class Unauthenticated(SubagentsError):
    """The caller's identity is not proven."""

    reason = "UNAUTHENTICATED"


class BootSecretWrong(Unauthenticated):
    """The boot secret is missing, repeated or wrong."""

    reason = "BOOT_SECRET_WRONG"


class SurfaceTokenInvalid(Unauthenticated):
    """The surface token was not signed with this deployment's key, or was altered."""

    reason = "SURFACE_TOKEN_INVALID"


class GrantInvalid(Unauthenticated):
    """The grant is missing, repeated or malformed."""

    reason = "GRANT_INVALID"


class NotAllowed(SubagentsError):
    """The caller may not do this."""

    reason = "NOT_ALLOWED"


class CallerNotAllowed(NotAllowed):
    """This kind of caller may not call this method."""

    reason = "CALLER_NOT_ALLOWED"


class WrongListener(NotAllowed):
    """The method is not served on this listener."""

    reason = "WRONG_LISTENER"


class ToolNotAllowed(NotAllowed):
    """The tool is not in the child's contract."""

    reason = "TOOL_NOT_ALLOWED"


class GrantSpent(NotAllowed):
    """The grant belongs to no attempt that runs at this sidecar: its attempt has ended."""

    reason = "GRANT_SPENT"


class DelegationRefused(NotAllowed):
    """A sub-agent may not delegate this. `metadata` says why."""

    reason = "DELEGATION_REFUSED"
