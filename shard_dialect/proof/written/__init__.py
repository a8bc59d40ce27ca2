"""Programs in Python, over numpy and mpi4py, that the prover evaluates as it does others.

The file is run by all ranks in a child process, with `numpy` and `mpi4py` in whose arrays floats
are elements of the field. It shares nothing with what may have written the file.
"""
