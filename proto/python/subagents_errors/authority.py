"""Who is calling is not proven, or may not do this."""

from subagents_errors.root import SubagentsError


class Unauthenticated(SubagentsError):
    """Who is calling is not proven."""

    reason = "UNAUTHENTICATED"


class BootSecretWrong(Unauthenticated):
    """The boot secret is missing, repeated or wrong."""

    reason = "BOOT_SECRET_WRONG"


class SurfaceTokenInvalid(Unauthenticated):
    """The surface token was not signed with this deployment's key, or was altered."""

    reason = "SURFACE_TOKEN_INVALID"


class GrantInvalid(Unauthenticated):
    """The grant is missing, repeated, or no whole one."""

    reason = "GRANT_INVALID"


class NotAllowed(SubagentsError):
    """Who is calling may not do this."""

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
    """No attempt runs at this sidecar that the grant is for: it is over."""

    reason = "GRANT_SPENT"


class DelegationRefused(NotAllowed):
    """A sub-agent may not delegate this. `metadata` says why."""

    reason = "DELEGATION_REFUSED"
