"""Mistakes of a user's, each of which type checkers find at its line."""

import numpy as np

import shard_dialect as sd

module = sd.pars("in.mlir")  # no such name
module = sd.parse(3)  # neither a text nor a path
grid = sd.Grid("g", 4)  # a shape is a sequence
sd.Grid("g", (2, 2), axis=("a", "b"))  # no such argument
x = np.zeros(3)
sd.run(module, x, backend="cuda")  # no such backend
sd.run(module, x, entry=1)  # a name is text
sd.run(module, x, backend="mpi").sum()  # it is None on other ranks
sd.report(module, allocator="none")  # no such allocator
sd.jax.pjitt()  # no such name
sd.torch.partitoin()  # no such name
sd.sharding_rule("my.op", lowerin=len)("([i]) -> ([i])")  # no such keyword
sd.sharding_rule("my.op", padding="zeros")("([i]) -> ([i])")  # no such padding
sd.register_judge("mine")(lambda module: module)  # takes the name of a function, too
