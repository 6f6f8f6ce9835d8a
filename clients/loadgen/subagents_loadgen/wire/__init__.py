"""The protocol: RPCs, their failures, and checks of the responses."""
