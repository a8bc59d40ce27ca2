"""Compute matrix products and convolutions by calls of the BLAS in numpy."""
