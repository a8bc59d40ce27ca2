"""The calls of libraries, by which devices compute what is computed by no code of our own.

@shard_dialect.torch {"op": "aten.linalg_inv_ex.default", ...}    torch (`runtime.torch_calls`)
@lapack_ssyevd_ffi {"mode": 86, "uplo": 76}                       LAPACK (`runtime.lapack_calls`)
"""

from __future__ import annotations

import re

TORCH_TARGET = "shard_dialect.torch"
"""The target of calls of torch, whose configurations tell ops of torch."""
_LAPACK = re.compile(
    "lapack_[sdcz](gees|geev|gehrd|geqp3|geqrf|gesdd|gesvd|getrf|gtsv|potrf|trsm"
    "|orgqr|ormqr|syevd|sytrd|ungqr|unmqr|heevd|hetrd)_ffi"
)
_OF_XLA = ("Eigh", "LuDecomposition", "ProductOfElementaryHouseholderReflectors", "Qr")
"""The targets that JAX writes for TPUs."""


def routine_of(target: str) -> str | None:
    """The routine of LAPACK that computes a call of `target`, as JAX writes them; or `None`.

    lapack_ssyevd_ffi -> syevd
    """
    found = _LAPACK.fullmatch(target)
    return target if target in _OF_XLA else found and found[1]
