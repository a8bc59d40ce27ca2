"""Ops that StableHLO does not have, as calls of torch's own code, which each device makes.

    s, u, v = _linalg_svd(x)   ->   call_1_3(x, 7), and then
    %s, %u, %v = stablehlo.custom_call @shard_dialect.torch(%x) {backend_config = "{...}",
                   mesh.sharding_rule = "([a, *, *]) -> ([a, *, *], [a, *], [a, *, *])"}

A call is of whole tensors but along the dimensions of a batch; where the op is elementwise, of
shards. Derivatives are torch's formulas, which the trace has found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from shard_dialect.torch.graph.complex_parts import Parts, as_real
from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten
CALL = "shard_dialect.call"
_Shape = tuple[int, ...]


@dataclass(frozen=True)
class TorchCall:
    """An op and its arguments."""

    text: str
    """As the runtime reads it (`runtime.torch_calls`)."""
    rule: str
    """The sharding rule of the call."""
    results: tuple[tuple[_Shape, Any], ...]


_CALLS: dict[TorchCall, int] = {}
"""Each has a number, which is an argument of the op in the graph."""


def call_of(number: int) -> TorchCall:
    """The call of this number."""
    return list(_CALLS)[number]


def may_call(op: Any) -> bool:
    """Whether a call of torch may stand for the op: a function of tensors alone."""
    schema = getattr(op, "_schema", None)
    if (
        schema is None
        or op.namespace not in ("aten", "prims")
        or torch.Tag.nondeterministic_seeded in op.tags
    ):
        return False
    is_pure = bool(schema.returns) and not schema.is_mutable
    is_pure = is_pure and all(each.alias_info is None for each in schema.returns)
    return is_pure and all(str(each.type) == "Tensor" for each in schema.returns)


def calling(op: Any) -> Callable[..., Any]:
    """A decomposition of the op: the call of it."""
    return partial(_call, op)


def _call(op: Any, *args: Any, **kwargs: Any) -> Any:
    tensors: list[Tensor] = []

    def written(value: Any) -> Any:
        if isinstance(value, Parts):
            tensors.append(torch.stack((value.re, value.im), -1))
            return {"complex": len(tensors) - 1}
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            return {"tensor": len(tensors) - 1}
        if isinstance(value, (list, tuple)):
            return [written(each) for each in value]
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return {"type": str(value).removeprefix("torch.")}
        return "cpu" if isinstance(value, torch.device) else value

    text = {
        "op": str(op),
        "args": written(args),
        "kwargs": {key: written(each) for key, each in kwargs.items()},
    }
    found = _types_of(op, args, kwargs)
    is_complex = [each.is_complex() for each in found]
    types = tuple((tuple(as_real(each).shape), as_real(each).dtype) for each in found)
    shapes = [tuple(each.shape) for each in tensors], [shape for shape, _ in types]
    call = TorchCall(json.dumps(text), _rule(op, *shapes), types)
    number = _CALLS.setdefault(call, len(_CALLS))
    made = _op(len(tensors), len(types))(*tensors, number)
    made = (made,) if isinstance(made, torch.Tensor) else made
    results = tuple(
        Parts(each.select(-1, 0), each.select(-1, 1)) if flag else each
        for each, flag in zip(made, is_complex, strict=True)
    )
    return results[0] if len(op._schema.returns) == 1 else results


def _types_of(op: Any, args: Any, kwargs: Any) -> tuple[Tensor, ...]:
    """Tensors without data, as the op makes them of such."""
    with _disable_current_modes():

        def bare(value: Any) -> Any:
            if isinstance(value, Parts):
                dtype = value.re.dtype.to_complex()
                return torch.empty(value.re.shape, dtype=dtype, device="meta")
            if isinstance(value, torch.Tensor):
                return torch.empty(value.shape, dtype=value.dtype, device="meta")
            return torch.device("meta") if isinstance(value, torch.device) else value

        found = op(*pytree.tree_map(bare, args), **pytree.tree_map(bare, kwargs))
    return (found,) if isinstance(found, torch.Tensor) else tuple(found)


def _rule(op: Any, operands: Sequence[_Shape], results: Sequence[_Shape]) -> str:
    """Along dimensions that all tensors share; others are whole."""
    tensors = [*operands, *results]
    if torch.Tag.pointwise in op.tags or str(op) in _ELEMENTWISE:
        dims = [_aligned(each, results[0]) for each in tensors]
    else:
        batch = operands[0][:-2] if op in _OF_MATRICES else ()
        is_shared = all(each[: len(batch)] == batch for each in tensors)
        count = len(batch) if is_shared else 0
        dims = [["*" if dim >= count else _factor(dim) for dim in range(len(s))] for s in tensors]
    texts = [f"[{', '.join(each)}]" for each in dims]
    return f"({', '.join(texts[: len(operands)])}) -> ({', '.join(texts[len(operands) :])})"


def _aligned(shape: _Shape, whole: _Shape) -> list[str]:
    """The factors of a tensor that is broadcast to another."""
    begin = len(whole) - len(shape)
    return [
        _factor(begin + dim) if begin + dim >= 0 and size == whole[begin + dim] else "*"
        for dim, size in enumerate(shape)
    ]


def _factor(dim: int) -> str:
    return chr(ord("a") + dim) if dim < 26 else f"z_{dim}"


_LIBRARY = torch.library.Library("shard_dialect", "FRAGMENT")


@cache
def _op(operands: int, results: int) -> Any:
    """The op that stands for calls in the graph."""
    name = f"call_{operands}_{results}"
    given = "".join(f"Tensor x{number}, " for number in range(operands))
    made = ", ".join(["Tensor"] * results)
    _LIBRARY.define(f"{name}({given}int number) -> {made if results == 1 else f'({made})'}")

    def without_data(*args: Any) -> Any:
        found = [torch.empty(shape, dtype=dtype) for shape, dtype in call_of(args[-1]).results]
        return found[0] if results == 1 else tuple(found)

    torch.library.register_fake(f"shard_dialect::{name}", without_data, lib=_LIBRARY)
    return getattr(torch.ops.shard_dialect, name).default


_ELEMENTWISE = {
    f"prims.{name}.default"
    for name in (
        "bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 erfcx ndtri spherical_bessel_j0 zeta"
    ).split()
}
"""Those of torch's ops, beside the ones that it tags."""
_OF_MATRICES = {
    getattr(getattr(aten, name), overload)
    for name in (
        "_linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd "
        "cholesky cholesky_inverse cholesky_solve geqrf linalg_cholesky_ex linalg_eig "
        "linalg_eigvals linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex "
        "linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor_ex linalg_lu_solve "
        "linalg_matrix_exp linalg_qr linalg_solve_triangular lu_unpack ormqr triangular_solve"
    ).split()
    if hasattr(aten, name)
    for overload in getattr(aten, name).overloads()
}
"""Ops of matrices, each of a batch by itself."""

DECOMPOSITIONS = {op: calling(op) for op in _OF_MATRICES if may_call(op)}
