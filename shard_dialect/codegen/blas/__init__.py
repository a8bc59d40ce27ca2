"""Matrix products and convolutions as calls of the BLAS that numpy carries."""
