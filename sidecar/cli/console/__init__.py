"""`sidecar console`: the web application of operators. Needs the extra `console`."""
