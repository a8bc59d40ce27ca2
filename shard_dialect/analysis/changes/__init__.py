"""The effects of other annotations, found by running the passes."""
