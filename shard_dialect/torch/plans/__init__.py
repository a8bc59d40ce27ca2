"""Plans: which placements the tensors of a module have."""
