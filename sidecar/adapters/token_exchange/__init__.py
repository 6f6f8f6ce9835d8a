"""Exchanges the user's token for one that a data service accepts. Source: RFC 8693, section 2."""
