"""The calls of libraries, by which devices compute what is computed by no code of our own.

@shard_dialect.torch {"op": "aten.linalg_inv_ex.default", ...}    torch (`runtime.torch_calls`)
@lapack_ssyevd_ffi {"mode": 86, "uplo": 76}                       LAPACK (`runtime.lapack_calls`)
"""

from __future__ import annotations

import json
import re
from typing import Any

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


_FUNCTIONS = {
    "LuDecomposition": "lu_decomposition",
    "Qr": "geqrf",
    "ProductOfElementaryHouseholderReflectors": "orgqr",
    "ungqr": "orgqr",
    "unmqr": "ormqr",
    "heevd": "syevd",
    "hetrd": "sytrd",
    "Eigh": "eigh",
}


def function_of(routine: str) -> str:
    """The function of `backends.python.written.with_lapack` that calls the routine."""
    return _FUNCTIONS.get(routine, routine)


def letter_of(dtype: Any) -> str:
    """The letter in the names of LAPACK's routines for elements of one of numpy's types."""
    return {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}[dtype.str[1:]]


_NUMBERS = ("left", "transpose", "low", "high")
"""The options that are numbers; others are letters."""


def options_read(text: str) -> dict[str, Any]:
    """The options of a call; those of `Eigh` are numbers in an order of their own."""
    if not text.startswith("{"):
        return {"uplo": "L" if text.startswith("1") else "U"}
    found: dict[str, int] = json.loads(text)
    return {name: value if name in _NUMBERS else chr(value) for name, value in found.items()}
