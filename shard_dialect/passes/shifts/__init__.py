"""Slices and parts of split tensors become shifts, which read halos."""
