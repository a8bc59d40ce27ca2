"""Compiled programs that are kept between processes."""
