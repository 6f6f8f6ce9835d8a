"""The session lane, as the SDK uses it: operations of many turns over one long stream."""
