"""Connector `grpc`: one `EnricherService.Enrich` for each enricher call. Source: PC2-D-22."""
