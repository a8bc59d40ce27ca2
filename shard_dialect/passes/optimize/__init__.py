"""The passes that make communication cheaper in the distributed form, one rewrite a file.

`lay` says how an op may lie otherwise, `relay` prices that and does it, `rewrite` is what the
passes have in common. No rewrite makes a program dearer: bytes moved, then the arithmetic of each
device, then the number of steps get less with each, so any order of them ends.
"""
