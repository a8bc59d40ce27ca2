"""The BLAS that products call: numpy's, which is OpenBLAS."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

import numpy as np

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import body

_ROW_MAJOR, _NO_TRANSPOSE, _TRANSPOSE = 101, 111, 112
_LETTERS = {"f32": "s", "f64": "d"}
_NAMES = ("scipy_openblas_{}64_", "openblas_{}64_", "scipy_openblas_{}", "openblas_{}")
"""OpenBLAS's functions, with and without numpy's prefix and 64-bit sizes."""
_SAID = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"
"""Where the user says how many threads a product has."""
_SYMBOLS = ("scipy_cblas_{}gemm64_", "cblas_{}gemm64_", "scipy_cblas_{}gemm", "cblas_{}gemm")


@cache
def _library() -> ctypes.CDLL | None:
    """Numpy's bundled OpenBLAS, if it has one."""
    root = Path(np.__file__).parent
    for folder in (root.parent / "numpy.libs", root / ".dylibs"):
        for path in sorted(folder.glob("lib*openblas*")):
            return ctypes.CDLL(str(path))
    return None


@cache
def _threads(verb: str) -> Callable[..., int]:
    """OpenBLAS's function that gets or sets the number of threads of a product."""
    names = (name.format(f"{verb}_num_threads") for name in _NAMES)
    found = (getattr(_library(), name, None) for name in names)
    return next(filter(None, found), lambda *_: 1)


def use_one_thread() -> None:
    """Run products on the calling thread, in the whole process.

    Devices are threads, or processes beside each other, so more threads would only compete.
    """
    _threads("set")(1)


class OneThread(AbstractContextManager[None]):
    """Within `with`, products are as after `use_one_thread`, unless the environment says how many.

    Several threads may be within it: the last one to leave restores what was.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, 1

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = _threads("get")()
                if not any(name in os.environ for name in _SAID):
                    use_one_thread()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _threads("set")(self._before)


ONE_THREAD = OneThread()
"""Of this process, which has one BLAS."""


@cache
def gemm(element: str) -> tuple[str, int] | None:
    """The name and the address of the product of `f32` or `f64` matrices, if there is one."""
    library = _library()
    if library is None or element not in _LETTERS:
        return None
    for pattern in _SYMBOLS:
        name = pattern.format(_LETTERS[element])
        function = getattr(library, name, None)
        if function is not None:
            return name, ctypes.cast(function, ctypes.c_void_p).value or 0
    return None


def addresses() -> dict[str, int]:
    """The addresses of all products, by their names."""
    return dict(entry for element in _LETTERS if (entry := gemm(element)) is not None)


@dataclass(frozen=True)
class Gemm:
    """A product of matrices of one element type: a function that is declared where it is called."""

    name: str
    element: ir.Type

    @classmethod
    def of(cls, element: ir.Type) -> Gemm | None:
        """The product for this element type, or `None` if BLAS has none."""
        gemm_found = gemm(str(element))
        return None if gemm_found is None else cls(gemm_found[0], element)

    def declare(self, module: ir.Operation) -> None:
        """Declare the function in `module`."""
        i32, size = build.integer(32), self._size()
        i64 = build.integer(64)
        element = self.element
        inputs = [i32, i32, i32, size, size, size, element, i64, size, i64, size, element, i64]
        with ir.InsertionPoint.at_block_begin(body(module)), ir.Location.unknown():
            build.declare(self.name, ir.FunctionType.get([*inputs, size], []))

    def call(
        self,
        transposed: tuple[bool, bool],
        sizes: tuple[int, int, int],
        pointers: tuple[ir.Value, ir.Value, ir.Value],
        scale: ir.Value,
        leading: tuple[int, int, int] | None = None,
    ) -> None:
        """Create a call of `c = a @ b + scale * c`, of m, n and k; `a` and `b` may be transposed.

        `leading` has the number of elements from one row to the next in memory, if that is not the
        length of a row.
        """
        m, n, k = sizes

        i32, size = build.integer(32), self._size()
        one = build.number(1.0, self.element)
        kinds = [_TRANSPOSE if each else _NO_TRANSPOSE for each in transposed]
        leading = leading or (m if transposed[0] else k, k if transposed[1] else n, n)
        head = [build.number(value, i32) for value in (_ROW_MAJOR, *kinds)]
        head += [build.number(value, size) for value in (m, n, k)]
        lda, ldb, ldc = (build.number(max(1, value), size) for value in leading)
        a, b, c = pointers
        build.call(self.name, [*head, one, a, lda, b, ldb, scale, c, ldc])

    def _size(self) -> ir.Type:
        return build.integer(64 if self.name.endswith("64_") else 32)


def is_for_blas(type_: ir.Type) -> bool:
    """Whether the type is a buffer of static size, with elements that BLAS supports."""
    return (
        isinstance(type_, ir.MemRefType)
        and type_.has_static_shape
        and str(type_.element_type) in _LETTERS
    )
