"""The session lane: every RPC of the consumer-agent over one long stream. See docs/session-lane.md."""
