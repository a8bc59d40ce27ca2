"""Implement the lowered form's runtime functions by native MPI."""
