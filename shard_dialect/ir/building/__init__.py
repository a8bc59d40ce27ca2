"""Functions that create the ops that passes need."""
