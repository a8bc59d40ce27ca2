"""The report as one HTML page, which needs no network."""
