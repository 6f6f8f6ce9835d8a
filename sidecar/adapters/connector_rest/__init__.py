"""Connector `rest`: one POST of JSON for each enricher call. Source: PC2-D-22."""
