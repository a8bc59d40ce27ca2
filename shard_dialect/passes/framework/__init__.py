"""The framework of passes: their base class, their options, and the pipelines that run them."""
