"""Shardy's, read as unregistered ops."""
