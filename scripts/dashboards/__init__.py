"""Writes the Grafana dashboards of `examples/dashboards`: `python -m scripts.dashboards`."""
