"""Runner `a2a`: any A2A agent does the work of a sub-agent, unchanged."""
