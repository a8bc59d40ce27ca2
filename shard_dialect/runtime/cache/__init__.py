"""Keep compiled programs between processes."""
