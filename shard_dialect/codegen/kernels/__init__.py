"""Kernels: functions of what the program computes more than once, each compiled once."""

from shard_dialect.codegen.kernels.kernels import KERNEL, Kernels, is_kernel
from shard_dialect.codegen.kernels.pointers import pass_pointers

__all__ = ["KERNEL", "Kernels", "is_kernel", "pass_pointers"]
