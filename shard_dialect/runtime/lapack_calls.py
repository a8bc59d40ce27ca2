"""Calls of LAPACK from compiled code, by scipy: matrix decompositions, which StableHLO lacks.

    %v, %w, %info = stablehlo.custom_call @lapack_ssyevd_ffi(%a) {mhlo.backend_config = {
        mode = 86 : ui8, uplo = 76 : ui8}, ...}

Options are letters by their codes. A routine is called for one matrix of the batch after the other.
Where JAX would have a routine decompose a matrix with infinite elements or NaN, which may never
end, the results are NaN and `info` is 1: JAX makes NaN of what failed.

Source: the names, options and results of jaxlib's LAPACK calls, `jax/_src/lax/linalg.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError
from shard_dialect.ops.library_calls import routine_of

_LETTERS = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}
_NUMBERS = ("left", "transpose", "low", "high")
"""The options that are numbers; others are letters."""
_ITERATIVE = ("gees", "geev", "gesdd", "gesvd", "syevd", "heevd", "Eigh")


def call_lapack(
    target: str, text: str, operands: Sequence[Array], results: Sequence[Array]
) -> None:
    """Compute `results`; raises a `ShardError` without scipy."""
    name = routine_of(target)
    assert name is not None, "other calls are refused before"
    call = partial(_call, _LETTERS[operands[0].dtype.str[1:]])
    options = _read(text)
    batch = max((each.shape for each in operands), key=len)[:-2]
    for index in np.ndindex(*batch):
        given, into = ([each[index] for each in side] for side in (operands, results))
        if any(0 in each.shape for each in given):
            made: Iterable[Any] = [0] * len(into)
        elif name in _ITERATIVE and not np.isfinite(given[0]).all():
            made = [np.nan if each.dtype.kind in "fc" else 1 for each in into]
        else:
            made = _ROUTINES[name](call, options, *given)
        for number, value in enumerate(made):
            results[number][index] = value


def _call(letter: str, name: str, *operands: Any, **options: Any) -> Any:
    """The results of scipy's function for elements of this type."""
    try:
        from scipy.linalg import blas, lapack
    except ImportError:
        raise ShardError("the program calls LAPACK: pip install scipy") from None
    return getattr(blas if name == "trsm" else lapack, letter + name)(*operands, **options)


def _read(text: str) -> dict[str, Any]:
    """The options of a call; those of `Eigh` are numbers in an order of their own."""
    if not text.startswith("{"):
        return {"uplo": "L" if text.startswith("1") else "U"}
    found: dict[str, int] = json.loads(text)
    return {name: value if name in _NUMBERS else chr(value) for name, value in found.items()}


_Call = Callable[..., Any]
_Options = dict[str, Any]


def _cholesky(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    return call("potrf", a, lower=options["uplo"] == "L", clean=0)


def _triangular_solve(call: _Call, options: _Options, a: Array, b: Array) -> Iterable[Any]:
    yield call(
        "trsm",
        1.0,
        a,
        b,
        side=options["side"] == "R",
        lower=options["uplo"] == "L",
        trans_a="NTC".index(options["trans_x"]),
        diag=options["diag"] == "U",
    )


def _tridiagonal_solve(
    call: _Call, options: _Options, low: Array, diagonal: Array, high: Array, b: Array
) -> Iterable[Any]:
    *_, x, info = call("gtsv", low[1:], diagonal, high[:-1], b)
    return low, diagonal, high, x, info


def _lu(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    lu, pivots, info = call("getrf", a)
    return lu, pivots + 1, info


def _lu_of_xla(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    lu, pivots, _ = call("getrf", a)
    order = np.arange(len(a))
    for row, other in enumerate(pivots):
        order[[row, other]] = order[[other, row]]
    return lu, pivots, order


def _qr(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    qr, taus, *_ = call("geqrf", a)
    return qr, taus


def _pivoted_qr(call: _Call, options: _Options, a: Array, pivots: Array) -> Iterable[Any]:
    if pivots.any():
        raise ShardError("a QR decomposition with columns that come first, which scipy has not")
    return call("geqp3", a)[:3]


def _product_of_reflectors(call: _Call, options: _Options, a: Array, taus: Array) -> Iterable[Any]:
    # LAPACK wants a matrix that is not wider than it is high, and no more reflectors than columns.
    yield call("ungqr" if np.iscomplexobj(a) else "orgqr", a, taus)[0]


def _times_reflectors(
    call: _Call, options: _Options, a: Array, taus: Array, c: Array
) -> Iterable[Any]:
    name, turned = ("unmqr", "C") if np.iscomplexobj(a) else ("ormqr", "T")
    side = "L" if options["left"] else "R"
    room = 64 * max(c.shape)
    yield call(name, side, turned if options["transpose"] else "N", a, taus, c, room)[0]


def _svd(name: str, call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    mode = options["mode"]
    u, s, vt, info = call(name, a, compute_uv=mode != "N", full_matrices=mode == "A")
    return (a, s, 0, 0, info) if mode == "N" else (a, s, u, vt, info)


def _symmetric_eigen(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    w, v, info = call("heevd" if np.iscomplexobj(a) else "syevd", a, lower=options["uplo"] == "L")
    return v, w, info


def _eigh_of_xla(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    v, w, _ = _symmetric_eigen(call, options, a)
    return v, w


def _eigen(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    flags = {f"compute_v{side[0]}": options[f"compute_{side}"] == "V" for side in ("left", "right")}
    *values, left, right, info = call("geev", a, **flags)
    if len(values) == 2:
        left, right = (_as_complex(values[1], each) for each in (left, right))
    return *values, left, right, info


def _as_complex(imaginary: Any, vectors: Any) -> Array:
    """The eigenvectors: of a pair, one column has the real parts, and the next the imaginary."""
    made = vectors.astype(np.result_type(vectors, np.complex64))
    for column in np.flatnonzero(imaginary > 0) if vectors.shape[-1] == len(imaginary) else ():
        made[:, column] += 1j * vectors[:, column + 1]
        made[:, column + 1] = made[:, column].conj()
    return made


def _schur(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    t, count, *values, vectors, _, info = call(
        "gees", lambda *_: 0, a, compute_v=options["mode"] == "V"
    )
    return t, vectors if options["mode"] == "V" else 0, *values, count, info


def _hessenberg(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    return call("gehrd", a, lo=options["low"] - 1, hi=options["high"] - 1)


def _tridiagonal(call: _Call, options: _Options, a: Array) -> Iterable[Any]:
    name = "hetrd" if np.iscomplexobj(a) else "sytrd"
    return call(name, a, lower=options["uplo"] == "L")


_ROUTINES: dict[str, Callable[..., Iterable[Any]]] = {
    "potrf": _cholesky,
    "trsm": _triangular_solve,
    "gtsv": _tridiagonal_solve,
    "getrf": _lu,
    "LuDecomposition": _lu_of_xla,
    **dict.fromkeys(("geqrf", "Qr"), _qr),
    "geqp3": _pivoted_qr,
    **dict.fromkeys(
        ("orgqr", "ungqr", "ProductOfElementaryHouseholderReflectors"), _product_of_reflectors
    ),
    **dict.fromkeys(("ormqr", "unmqr"), _times_reflectors),
    "gesdd": partial(_svd, "gesdd"),
    "gesvd": partial(_svd, "gesvd"),
    **dict.fromkeys(("syevd", "heevd"), _symmetric_eigen),
    "Eigh": _eigh_of_xla,
    "geev": _eigen,
    "gees": _schur,
    "gehrd": _hessenberg,
    **dict.fromkeys(("sytrd", "hetrd"), _tridiagonal),
}
