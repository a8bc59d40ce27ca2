"""Shardy's dialect, whose ops are read as unregistered ones."""
