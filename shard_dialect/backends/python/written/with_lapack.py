"""Helpers of emitted programs: LAPACK's routines by scipy, as JAX calls them.

The compiled code of devices calls the same (`runtime.lapack_calls`). A routine gets scipy's `call`,
the options of the call, and one matrix of each operand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import scipy.linalg


def on_each_matrix(
    routine: Callable[..., Iterable[Any]],
    call: Callable[..., Any],
    options: dict[str, Any],
    operands: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
) -> None:
    """Compute the results: of one matrix of the batch after the other; NaN where none would end."""
    is_iterative = routine.__name__ in ("gees", "geev", "gesdd", "gesvd", "syevd", "eigh")
    for index in np.ndindex(*max((each.shape for each in operands), key=len)[:-2]):
        given, into = ([each[index] for each in side] for side in (operands, results))
        if any(0 in each.shape for each in given):
            made: Iterable[Any] = [0] * len(into)
        elif is_iterative and not np.isfinite(given[0]).all():
            made = [np.nan if each.dtype.kind in "fc" else 1 for each in into]
        else:
            made = routine(call, options, *given)
        for number, value in enumerate(made):
            results[number][index] = value


def potrf(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """A Cholesky decomposition."""
    return call("potrf", a, lower=options["uplo"] == "L", clean=0)


def trsm(
    call: Callable[..., Any], options: dict[str, Any], a: np.ndarray, b: np.ndarray
) -> Iterable[Any]:
    """A solution of equations by a triangle."""
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


def gtsv(
    call: Callable[..., Any],
    options: dict[str, Any],
    low: np.ndarray,
    diagonal: np.ndarray,
    high: np.ndarray,
    b: np.ndarray,
) -> Iterable[Any]:
    """A solution of tridiagonal equations."""
    *_, x, info = call("gtsv", low[1:], diagonal, high[:-1], b)
    return low, diagonal, high, x, info


def getrf(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """An LU decomposition, whose pivots count from 1."""
    lu, pivots, info = call("getrf", a)
    return lu, pivots + 1, info


def lu_decomposition(
    call: Callable[..., Any], options: dict[str, Any], a: np.ndarray
) -> Iterable[Any]:
    """The same, with pivots from 0 and the rows in their new order."""
    lu, pivots, _ = call("getrf", a)
    order = np.arange(len(a))
    for row, other in enumerate(pivots):
        order[[row, other]] = order[[other, row]]
    return lu, pivots, order


def geqrf(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """A QR decomposition: R, and the reflectors of Q."""
    qr, taus, *_ = call("geqrf", a)
    return qr, taus


def geqp3(
    call: Callable[..., Any], options: dict[str, Any], a: np.ndarray, pivots: np.ndarray
) -> Iterable[Any]:
    """The same, with columns in an order of their own."""
    if pivots.any():
        raise ValueError("a QR decomposition with columns that come first, which scipy has not")
    return call("geqp3", a)[:3]


def orgqr(
    call: Callable[..., Any], options: dict[str, Any], a: np.ndarray, taus: np.ndarray
) -> Iterable[Any]:
    """The product of reflectors."""
    # LAPACK wants a matrix that is not wider than it is high, and no more reflectors than columns.
    yield call("ungqr" if np.iscomplexobj(a) else "orgqr", a, taus)[0]


def ormqr(
    call: Callable[..., Any],
    options: dict[str, Any],
    a: np.ndarray,
    taus: np.ndarray,
    c: np.ndarray,
) -> Iterable[Any]:
    """A matrix times the product of reflectors."""
    name, turned = ("unmqr", "C") if np.iscomplexobj(a) else ("ormqr", "T")
    side = "L" if options["left"] else "R"
    room = 64 * max(c.shape)
    yield call(name, side, turned if options["transpose"] else "N", a, taus, c, room)[0]


def gesdd(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """A singular value decomposition, by division."""
    return singular_values("gesdd", call, options, a)


def gesvd(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """The same, by QR steps."""
    return singular_values("gesvd", call, options, a)


def singular_values(
    name: str, call: Callable[..., Any], options: dict[str, Any], a: np.ndarray
) -> Iterable[Any]:
    """By one of these routines; of values alone, the vectors are not read."""
    mode = options["mode"]
    u, s, vt, info = call(name, a, compute_uv=mode != "N", full_matrices=mode == "A")
    return (a, s, 0, 0, info) if mode == "N" else (a, s, u, vt, info)


def syevd(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """The eigenvectors and eigenvalues of a symmetric matrix."""
    w, v, info = call("heevd" if np.iscomplexobj(a) else "syevd", a, lower=options["uplo"] == "L")
    return v, w, info


def eigh(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """The same, without what failed."""
    v, w, _ = syevd(call, options, a)
    return v, w


def geev(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """The eigenvalues and eigenvectors of any matrix."""
    flags = {f"compute_v{side[0]}": options[f"compute_{side}"] == "V" for side in ("left", "right")}
    *values, left, right, info = call("geev", a, **flags)
    if len(values) == 2:
        left, right = (as_complex(values[1], each) for each in (left, right))
    return *values, left, right, info


def as_complex(imaginary: Any, vectors: Any) -> np.ndarray:
    """The eigenvectors: of a pair, one column has the real parts, and the next the imaginary."""
    made = vectors.astype(np.result_type(vectors, np.complex64))
    for column in np.flatnonzero(imaginary > 0) if vectors.shape[-1] == len(imaginary) else ():
        made[:, column] += 1j * vectors[:, column + 1]
        made[:, column + 1] = made[:, column].conj()
    return made


def gees(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """A Schur decomposition."""
    t, count, *values, vectors, _, info = call(
        "gees", lambda *_: 0, a, compute_v=options["mode"] == "V"
    )
    return t, vectors if options["mode"] == "V" else 0, *values, count, info


def gehrd(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """A Hessenberg decomposition."""
    return call("gehrd", a, lo=options["low"] - 1, hi=options["high"] - 1)


def sytrd(call: Callable[..., Any], options: dict[str, Any], a: np.ndarray) -> Iterable[Any]:
    """A tridiagonal decomposition of a symmetric matrix."""
    name = "hetrd" if np.iscomplexobj(a) else "sytrd"
    return call(name, a, lower=options["uplo"] == "L")


def by_scipy(letter: str, name: str, *operands: Any, **options: Any) -> Any:
    """The results of scipy's function for elements of the type that the letter stands for."""
    library = scipy.linalg.blas if name == "trsm" else scipy.linalg.lapack
    return getattr(library, letter + name)(*operands, **options)


def lapack(
    routine: Callable[..., Iterable[Any]],
    letter: str,
    options: dict[str, Any],
    operands: list[np.ndarray],
    results: list[tuple[tuple[int, ...], Any]],
) -> list[np.ndarray]:
    """The results, of these shapes and types, of a routine on each matrix."""
    made = [np.empty(shape, dtype) for shape, dtype in results]
    on_each_matrix(routine, functools.partial(by_scipy, letter), options, operands, made)
    return made
