"""What passes are, their options, and the pipelines that run them."""
