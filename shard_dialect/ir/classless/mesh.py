"""The RFC's dialect, as IRDL defines it."""
