"""The passes that make communication cheaper in the distributed form, one rewrite a file.

`op_sharding` finds other shardings of an op, `resharded_ops` has their cost and the rewrite, and
`rewrite_reshards` has the base class of the passes. Each rewrite lowers the bytes moved, then the
arithmetic of each device, then the number of steps, so applying them in any order terminates.
"""
