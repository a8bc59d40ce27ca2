"""The passes that make communication cheaper in the distributed form, one rewrite a file.

A function is read into a graph (the folder `graph`), rewritten there, and written back once.
`find_op_shardings` finds other shardings of an op, `change_op_sharding` has what they cost and the
rewrite, and `collective_pass` is the base class of the passes. Each rewrite lowers the bytes moved,
then the arithmetic of each device, then the number of steps, so applying them in any order
terminates.
"""
