"""What a change of annotations would change, found by running the passes."""
