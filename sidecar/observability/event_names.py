"""Names of log events, with the text of `docs/metrics.md`.

A docstring has the meaning as Markdown, the level, and the source. `always` means at any `log.level`.
"""

from typing import Final

ROUTING_DECISION: Final = "routing.decision"
"""One per turn: which sub-agents were offered and why, calls and outcomes, intents, fan-out cap. Level: info, always.
Source: PC2-FR-15, DESIGN 11."""

LIFECYCLE_TRANSITION: Final = "subagent.lifecycle.transition"
"""A definition changed its lifecycle state, and a turn was bound with the new state ([audit](audit.md)). Level: info,
always. Source: PF1-D-45."""

DECOMMISSION_STEP: Final = "subagent.lifecycle.decommission_step"
"""A [decommission](decommission.md) began, advanced, got a decision or was undone. Level: info, always. Source:
PF1-D-43, TN-87."""

ROLLOUT_EVENT: Final = "subagent.rollout.event"
"""Any other event of a rollout, e.g. a ramp, a refusal, a kill. Level: info, always. Source: PF1-D-49."""

SECURITY_INCIDENT: Final = "security.incident"
"""A response of a data service may belong to another user; it was withheld. With the reason `principal_absent`, the
response [probably has no envelope](data-services.md#what-is-checked-in-this-order). **Alert on any**. Level: error,
always. Source: PC2-FR-12c."""

ERROR_EMIT: Final = "agent.error_emit"
"""Only with the setting `telemetry.error_emit`: a sub-agent failed (`axis` 1), or answered without data that it needed
(`axis` 2). If `is_final` is false, the sidecar retries. Level: info, always. Source: PC2-D-52, PC2-D-53, TN-32."""

TELEMETRY_CONTACT: Final = "sidecar.telemetry"
"""The collector accepts telemetry again (info), or has stopped accepting it (warning). Level: info, warning."""

ANOMALY: Final = "sidecar.anomaly"
"""An unexpected condition; `kind` names it. Level: warning, error."""

LOG_LEFT_OUT: Final = "sidecar.log_left_out"
"""`count` further lines were not written; `of` and `kind` name their event and kind. Level: level of the omitted
lines."""

OPERATOR_REFUSED: Final = "sidecar.operators.refused"
"""An operator's call was refused: method, cause, and the subject of a genuine token. Level: warning."""

TURN_ENDED_BY_OPERATOR: Final = "sidecar.operators.turn_ended"
"""An operator is about to end a turn: turn, operator, reason. Level: info, always."""

USER_ERASED_BY_OPERATOR: Final = "sidecar.operators.user_erased"
"""An operator erases the texts of a user: operator, reason, number of turns. The user is not named. Level: info,
always."""

OPERATOR_KEYS_UNRESTRICTED: Final = "sidecar.operators.keys_unrestricted"
"""Some operator keys are limited to roles and subjects, and others are not; `keys` names the keys without limits.
Level: warning."""

LANE_STALLED: Final = "sidecar.session.stalled"
"""The sidecar closed a [session lane](session-lane.md), because the client did not read it; the event names the client.
Level: warning."""

LISTENING: Final = "sidecar.listening"
"""The addresses on which the sidecar listens. Level: info."""

READY_CHANGED: Final = "sidecar.readiness"
"""The sidecar accepts new turns, or no longer accepts them, and why. Level: info."""

DRAINING: Final = "sidecar.draining"
"""A stop signal arrived: what the sidecar waits for, and how long. Level: info."""

DRAIN_WAITS: Final = "sidecar.drain_waits"
"""What a stop still waits for, every five seconds: calls, dispatches, turns, and the oldest of them. Level: info."""

STOPPED: Final = "sidecar.stopped"
"""The sidecar stops: turns that were cut off, ended, or left to other sidecars. Level: info."""

DEFINITIONS_CHANGED: Final = "definitions.changed"
"""The sidecar loaded changed definitions. Level: info."""

DEFINITIONS_ON_RECORD: Final = "definitions.on_record"
"""Follows `definitions.changed`: binds now use the loaded definitions. A warning if some of them serve no user until an
operator promotes them; `waiting` names them. Level: info, warning."""

DEFINITION_UNFLAGGED: Final = "definitions.unflagged"
"""A new definition has no flag; the event has the commands that make it serve users. Level: warning."""

DEFINITION_CHANGED_MAJOR: Final = "definitions.major_change"
"""A definition has a [major change](lifecycle.md#changed-definitions): the promoted content (`serving`) still
serves, the changed content (`loaded`) waits for a promotion. Level: warning."""

DEFINITIONS_REFUSED: Final = "definitions.refused"
"""The changed definitions have errors; the last valid ones stay in force. Level: error."""

SETTINGS_UNMATCHED: Final = "settings.unmatched"
"""Settings and definitions contradict each other, e.g. the settings lack the address of a sub-agent; each line has the
correction. Level: warning."""

FLAGS_CONTACT: Final = "flags.contact"
"""A flag backend can be read again (info), or is unreachable (warning). Level: info, warning."""

LOOP_DIED: Final = "sidecar.loop_died"
"""A background loop failed and is restarted. Level: error."""

LOOP_HELD: Final = "sidecar.loop_held_up"
"""A call has blocked the event loop, and so every turn, for a quarter of a second; `plugin`, `frame` and `stack` name
it. Level: error."""

LOOP_RELEASED: Final = "sidecar.loop_released"
"""That call returned after `seconds`; `plugin` and `frame` name it. Level: warning."""

KEY_MADE: Final = "sidecar.key_made"
"""No signing key is configured, so the sidecar created one. Level: warning."""

KEYS_CHANGED: Final = "sidecar.keys_changed"
"""Changed key files are in use; `setting` names them. Level: info."""

SPAN: Final = "sidecar.span"
"""A sampled [span](operations.md#traces-and-a-collector), if `telemetry.grpc_spans` is set and no collector is
configured. Level: info."""

REFUSED_FOR_LIMIT: Final = "sidecar.admission.refused"
"""A call was refused because a limit is reached: `kind` names it. Level: warning."""

CONNECTIONS_LIMITED: Final = "sidecar.connections_limited"
"""The process may open so few files that its sockets accept fewer connections than `server.limits` allows: `limit`,
`connections`. Level: warning."""
