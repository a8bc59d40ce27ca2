"""Programs in Python over torch, as `opt --emit-python=torch` writes them, run by our ranks."""
