"""The passes that make communication cheaper in the distributed form.

A function is read into a graph (`graph`), rewritten there, and written back once. Each rewrite
lowers the bytes moved, then the arithmetic of each device, then the number of steps, so applying
them in any order terminates. `change_op_sharding` prices another sharding of an op, and
`move_reshard` has the base class of the passes.
"""
