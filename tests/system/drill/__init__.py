"""Ten planted incidents: the alert that fires, the panel and page that show it, and the action that ends it."""
