"""The sidecar behind TCP listeners with mutual TLS."""
