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
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from shard_dialect.errors import ShardError
from shard_dialect.runtime.shards_of_arrays import to_numpy
from shard_dialect.runtime.torch_calls import LIBRARIES, call_torch
from shard_dialect.torch.graph.complex_parts import Parts, as_real, with_both
from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten
CALL = "shard_dialect.call"


@dataclass(frozen=True)
class TorchCall:
    """An op and its arguments."""

    text: str
    """As the runtime reads it (`runtime.torch_calls`)."""
    rule: str
    """The sharding rule of the call."""
    results: tuple[tuple[tuple[int, ...], Any], ...]


_CALLS: dict[TorchCall, int] = {}
"""Each has a number, which is an argument of the op in the graph."""


def call_of(number: int) -> TorchCall:
    """The call of this number."""
    return list(_CALLS)[number]


def torch_call(op: Any) -> Callable[..., Any] | None:
    """A decomposition of an op: the call of it, where it is a function of tensors alone.

    What an op makes of no tensors, as a window of a signal, is a constant.
    """
    schema = getattr(op, "_schema", None)
    if schema is None or op.namespace not in LIBRARIES or schema.is_mutable:
        return None
    if torch.Tag.nondeterministic_seeded in op.tags or not schema.returns:
        return None
    if not any("Tensor" in str(each.type) for each in schema.arguments):
        return partial(_constant, op)
    if "Tensor" not in str(schema.arguments[0].type):
        return None
    types = [str(each.type) for each in schema.returns if each.alias_info is None]
    is_new = types in (["Tensor"] * len(schema.returns), ["List[Tensor]"])
    return partial(_call, op) if is_new else None


def _constant(op: Any, *args: Any, **kwargs: Any) -> Any:
    with _disable_current_modes():
        made = op(*args, **kwargs)
    return pytree.tree_map(torch.clone, made)


def _call(op: Any, *args: Any, **kwargs: Any) -> Any:
    operands: list[Tensor | Parts] = []

    def written(value: Any) -> Any:
        is_tensor = isinstance(value, torch.Tensor)
        if is_tensor or (isinstance(value, Parts) and isinstance(value.re, torch.Tensor)):
            operands.append(value)
            number = len(operands) - 1
            return (
                {"tensor": number, "of": _name(value.dtype)} if is_tensor else {"complex": number}
            )
        if isinstance(value, Parts):
            return {"number": [value.re, value.im]}
        if isinstance(value, (list, tuple)):
            return [written(each) for each in value]
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return {"type": _name(value)}
        return "cpu" if isinstance(value, torch.device) else value

    text = {
        "op": str(op),
        "args": written(args),
        "kwargs": {key: written(each) for key, each in kwargs.items()},
    }
    found = _types_of(op, args, kwargs)
    types = tuple((tuple(as_real(each).shape), as_real(each).dtype) for each in found)
    call = TorchCall(json.dumps(text), _rule(op, operands, found), types)
    number = _CALLS.setdefault(call, len(_CALLS))
    given = [with_both(each) if isinstance(each, Parts) else each for each in operands]
    made = _op(len(given), len(types))(*given, number)
    made = (made,) if isinstance(made, torch.Tensor) else made
    results = tuple(
        Parts(each.select(-1, 0), each.select(-1, 1)) if like.is_complex() else each
        for each, like in zip(made, found, strict=True)
    )
    is_one = len(op._schema.returns) == 1 and str(op._schema.returns[0].type) == "Tensor"
    return results[0] if is_one else list(results)


def _name(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _types_of(op: Any, args: Any, kwargs: Any) -> tuple[Tensor, ...]:
    """Tensors without data, as the op makes them of such."""
    with _disable_current_modes(), FakeTensorMode():

        def bare(value: Any) -> Any:
            if isinstance(value, Parts):
                if not isinstance(value.re, torch.Tensor):
                    return complex(value.re, value.im)
                dtype = value.re.dtype.to_complex()
                return torch.empty(value.re.shape, dtype=dtype)
            if isinstance(value, torch.Tensor):
                return torch.empty(value.shape, dtype=value.dtype)
            return value

        found = op(*pytree.tree_map(bare, args), **pytree.tree_map(bare, kwargs))
    types = (found,) if isinstance(found, torch.Tensor) else tuple(found)
    if any(each.layout != torch.strided for each in types):
        raise ShardError(f"{op} makes sparse tensors, which programs do not have")
    return types


def _rule(op: Any, operands: Sequence[Tensor | Parts], results: Sequence[Tensor]) -> str:
    """Along dimensions that all tensors share; others are whole."""
    tensors = [*operands, *results]
    shapes = [tuple(each.re.shape if isinstance(each, Parts) else each.shape) for each in tensors]
    if torch.Tag.pointwise in op.tags or str(op) in _ELEMENTWISE:
        dims = [_aligned(each, results[0].shape) for each in shapes]
    else:
        batch = shapes[0][:-2] if op in _OF_MATRICES else ()
        shared = [each for at, each in enumerate(shapes) if each or at >= len(operands)]
        count = len(batch) if all(each[: len(batch)] == batch for each in shared) else 0
        dims = [["*" if dim >= count else _factor(dim) for dim in range(len(s))] for s in shapes]
    for each, own in zip(tensors, dims, strict=True):
        if isinstance(each, Parts) or each.is_complex():
            own.append("*")
    texts = [f"[{', '.join(each)}]" for each in dims]
    return f"({', '.join(texts[: len(operands)])}) -> ({', '.join(texts[len(operands) :])})"


def _aligned(shape: Sequence[int], whole: Sequence[int]) -> list[str]:
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

    def of_constants(*args: Any) -> Any:
        found = without_data(*args)
        operands, made = args[:-1], [found] if results == 1 else found
        call_torch(
            call_of(args[-1]).text, *(list(map(to_numpy, each)) for each in (operands, made))
        )
        return found

    torch.library.register_fake(f"shard_dialect::{name}", without_data, lib=_LIBRARY)
    _LIBRARY.impl(name, of_constants, "CPU")
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
        "linalg_matrix_exp linalg_pinv linalg_qr linalg_solve_triangular ormqr triangular_solve"
    ).split()
    if hasattr(aten, name)
    for overload in getattr(aten, name).overloads()
}
"""Ops of matrices, each of a batch by itself."""

DECOMPOSITIONS = {op: call for op in _OF_MATRICES if (call := torch_call(op)) is not None}
