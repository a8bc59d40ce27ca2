"""Shardy's `sdy` dialect: the text of its attributes, and its ops, which are unregistered."""
