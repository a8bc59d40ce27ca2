"""The lowered form's runtime functions as calls of native MPI."""
