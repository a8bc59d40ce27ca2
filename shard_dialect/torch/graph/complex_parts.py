"""Complex numbers as pairs of their parts, in a graph that writes to nothing.

    %z = aten.view_as_complex(%x)      %x[..., 0], %x[..., 1]
    %y = aten.mul(%z, %w)       ->     re * re' - im * im', re * im' + im * re'
    %f = aten._fft_r2c(%x, [1])        products with matrices of cosines and sines

What is linear with real coefficients, as sums, views and lookups, is done to each part. What
functions are of the parts, torch's own table says (its `ComplexTensor`). At the boundary of the
graph, a last dimension of two has the parts.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import isqrt, pi, prod
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from shard_dialect.errors import ShardError, first_line_of
from shard_dialect.torch.graph.fx_nodes import location_of
from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten
Rule = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Parts:
    """The real and the imaginary parts of a tensor."""

    re: Tensor
    im: Tensor


def is_complex(value: Any) -> bool:
    """Whether it is a complex tensor or number."""
    is_tensor = isinstance(value, torch.Tensor)
    return bool(value.is_complex()) if is_tensor else isinstance(value, complex)


def has_complex(graph: Any) -> bool:
    """Whether some value of a graph is complex."""
    values = [node.meta.get("val") for node in graph.nodes]
    constants = [
        getattr(graph.owning_module, each.target, None)
        for each in graph.nodes
        if each.op == "get_attr"
    ]
    return any(map(is_complex, pytree.tree_leaves([values, constants])))


def as_real(tensor: Tensor) -> Tensor:
    """A tensor as it is at the boundary of a program."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def real_type(dtype: Any) -> Any:
    """The type of the parts; another type as it is."""
    return dtype.to_real() if dtype.is_complex else dtype


MARK = "shard_dialect.mark"


def is_mark(target: Any) -> bool:
    """Whether an op is a mark, which annotates its operand."""
    return str(target).startswith(MARK)


class ComplexParts(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a graph with pairs in the place of complex tensors."""

    def __init__(self, module: Any, otherwise: Callable[[Any], Rule | None]) -> None:
        """`otherwise` decomposes an op that has no rule here, into what takes and gives pairs."""
        super().__init__(module)
        self._otherwise = otherwise
        self._now: Any = None
        self._given: dict[Parts, Tensor] = {}

    def run_node(self, n: Any) -> Any:
        """As the base class does. Raises `ShardError` for an op that has no parts."""
        self._now = n
        try:
            return super().run_node(n)
        except ShardError:
            raise
        except Exception as error:  # of any class, as torch's table and the decompositions raise
            raise ShardError(
                f"{n.target} of complex numbers cannot be decomposed: {first_line_of(error)}",
                location_of(n),
            ) from error

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """As the base class does, with the parts of what was complex."""
        value = super().placeholder(target, args, kwargs)
        if not is_complex(self._now.meta.get("val")):
            return value
        parts = Parts(value.select(-1, 0), value.select(-1, 1))
        self._given[parts] = value
        return parts

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """As the base class does; an argument that is a result is the argument itself."""
        found = super().output(target, args, kwargs)
        return pytree.tree_map(
            lambda each: (
                self._given.get(each, with_both(each)) if isinstance(each, Parts) else each
            ),
            found,
        )

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """As the base class does."""
        value = super().get_attr(target, args, kwargs)
        if not is_complex(value):
            return value
        with _disable_current_modes():
            re, im = value.resolve_conj().real.clone(), value.resolve_conj().imag.clone()
        return Parts(re.clone(), im.clone())

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """As the base class does."""
        name = getattr(target, "overloadpacket", target)
        if name in (aten.view, aten._unsafe_view):  # the parts may have other strides
            target = name = aten.reshape
        value = self._now.meta.get("val")
        leaves = pytree.tree_leaves((args, kwargs, value))
        is_real = not any(isinstance(each, Parts) or is_complex(each) for each in leaves)
        if is_real or target is operator.getitem:
            return super().call_function(
                aten.neg if name is aten._neg_view else target, args, kwargs
            )
        args, kwargs = pytree.tree_map(
            lambda each: _parts_of(each) if isinstance(each, complex) else each, (args, kwargs)
        )
        if str(name).partition(".")[2] in _FACTORIES:
            return _made(str(name), value, args)
        rule = partial(_each_part, target) if is_mark(target) else _RULES.get(name)
        rule = rule or _function(name) or self._otherwise(target)
        if rule is None:
            raise ShardError(
                f"{target} of complex numbers is not supported: use the real and the imaginary "
                "part there, or say it by others with sd.torch.decompose",
                location_of(self._now),
            )
        return _of_type(rule(*args, **kwargs), value)


def _of_type(found: Any, like: Any) -> Any:
    """Results of the types that torch's have."""
    if isinstance(found, Parts) and isinstance(found.re, torch.Tensor):
        dtype = real_type(like.dtype)
        is_right = found.re.dtype == found.im.dtype == dtype
        return found if is_right else Parts(found.re.to(dtype), found.im.to(dtype))
    if isinstance(found, (tuple, list)):
        return type(found)(_of_type(*each) for each in zip(found, like, strict=True))
    return found


def with_both(parts: Parts) -> Tensor:
    """The tensor of both, along a last dimension."""
    return torch.stack((parts.re, parts.im), -1)


def _parts_of(value: Any) -> Parts:
    """Of a real number or tensor, the imaginary part is 0."""
    if isinstance(value, Parts):
        return value
    if isinstance(value, torch.Tensor):
        return Parts(value, torch.zeros_like(value))
    value = complex(value)
    return Parts(value.real, value.imag)


def _each_part(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The op of the real parts, and of the imaginary ones."""

    def of(pick: Callable[[Parts], Any]) -> Any:
        def one(value: Any) -> Any:
            if isinstance(value, torch.dtype):
                return real_type(value)
            return pick(_parts_of(value)) if isinstance(value, Parts) or is_real(value) else value

        return pytree.tree_map(one, (args, kwargs))

    def is_real(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_floating_point()

    found = []
    for pick in (lambda each: each.re, lambda each: each.im):
        own_args, own_kwargs = of(pick)
        found.append(op(*own_args, **own_kwargs))
    return pytree.tree_map(Parts, *found)


def _sum(op: Any, a: Any, b: Any, **kwargs: Any) -> Parts:
    return _each_part(op, _parts_of(a), _parts_of(b), **kwargs)


def _filled(op: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """The last argument is a value."""
    *rest, value = (*args, kwargs.pop("value")) if "value" in kwargs else args
    return _each_part(op, _parts_of(x), *rest, _parts_of(value), **kwargs)


def _joined(op: Any, tensors: Sequence[Any], dim: int = 0) -> Any:
    return _each_part(op, [_parts_of(each) for each in tensors], dim)


def _padded(x: Parts, pads: Sequence[int], value: Any = 0) -> Any:
    return _each_part(aten.constant_pad_nd, x, pads, _parts_of(value))


def _where(mask: Tensor, a: Any, b: Any) -> Any:
    return _each_part(torch.where, mask, _parts_of(a), _parts_of(b))


def _product(op: Any, a: Any, b: Any, *args: Any, **kwargs: Any) -> Parts:
    """Of two factors, of which one may be real."""
    if not isinstance(a, Parts):
        b = _parts_of(b)
        return Parts(op(a, b.re, *args, **kwargs), op(a, b.im, *args, **kwargs))
    a = _parts_of(a)
    if not isinstance(b, Parts):
        return Parts(op(a.re, b, *args, **kwargs), op(a.im, b, *args, **kwargs))
    b = _parts_of(b)
    re = op(a.re, b.re, *args, **kwargs) - op(a.im, b.im, *args, **kwargs)
    return Parts(re, op(a.re, b.im, *args, **kwargs) + op(a.im, b.re, *args, **kwargs))


def _plus_product(op: Any, x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Parts:
    scaled = _product(torch.mul, x, beta) if beta != 1 else x
    found = _product(op, a, b)
    return _sum(torch.add, scaled, _product(torch.mul, found, alpha) if alpha != 1 else found)


def _convolution(x: Any, weight: Any, bias: Any, *args: Any) -> Parts:
    found = _product(lambda a, b: aten.convolution(a, b, None, *args), x, weight)
    if bias is None:
        return found
    shape = [-1] + [1] * (found.re.dim() - 2)
    return _sum(torch.add, found, _each_part(torch.reshape, _parts_of(bias), shape))


def _quotient(a: Any, b: Any) -> Any:
    if isinstance(b, Parts):
        divide = _function(aten.div)
        assert divide is not None, "is in torch's table"
        return divide(_parts_of(a), _parts_of(b))
    return _each_part(lambda x: x / b, _parts_of(a))


def _converted(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    """To another type; of a real one the real part."""
    if dtype is None:
        return x
    if not dtype.is_complex:
        return x.re.to(dtype)
    return _each_part(lambda each: each.to(real_type(dtype)), _parts_of(x))


def _made(name: str, like: Tensor, args: Sequence[Any]) -> Parts:
    """A tensor of one number."""
    fill = _parts_of(args[-1] if "full" in name or "scalar" in name else int("ones" in name))
    dtype, shape = real_type(like.dtype), tuple(like.shape)
    return Parts(torch.full(shape, fill.re, dtype=dtype), torch.full(shape, fill.im, dtype=dtype))


def _conjugate(x: Any) -> Any:
    return Parts(x.re, -x.im) if isinstance(x, Parts) else x


def _sign(x: Parts) -> Parts:
    """Of length 1, but for 0."""
    length = torch.hypot(x.re, x.im)
    return _each_part(lambda each: torch.where(length == 0, 0.0, each / length), x)


def _power(x: Any, exponent: Any) -> Parts:
    """By squares, where it is a whole number; else by a logarithm."""
    x = _parts_of(x)
    if isinstance(exponent, (int, float)) and exponent == int(exponent):
        found, square, rest = _parts_of(torch.ones_like(x.re)), x, abs(int(exponent))
        while rest:
            found = _product(torch.mul, found, square) if rest % 2 else found
            rest //= 2
            square = _product(torch.mul, square, square) if rest else square
        return found if exponent >= 0 else _quotient(1, found)
    log, exp = _function(aten.log), _function(aten.exp)
    assert log is not None, "is in torch's table"
    assert exp is not None, "is in torch's table"
    found = exp(_product(torch.mul, log(x), exponent))
    is_zero = (x.re == 0) & (x.im == 0)
    return _each_part(lambda each: torch.where(is_zero, 0.0, each), found)


def _polar(length: Tensor, angle: Tensor) -> Parts:
    return Parts(length * angle.cos(), length * angle.sin())


def _same(x: Any, **_: Any) -> Any:
    return x


_ROOT, _COUNT = 1, 2
"""How torch numbers the norms of a transform: it divides by the root of the count, or by that."""
_LARGEST = 64
"""Transforms of more elements are made of smaller ones."""


def _transform(x: Any, dims: Sequence[int], norm: int, forward: bool) -> Parts:
    parts, sizes = _parts_of(x), [x.re.shape[dim] for dim in dims]
    for dim in dims:
        found = _along_last(_each_part(torch.movedim, parts, dim, -1), -1 if forward else 1)
        parts = _each_part(torch.movedim, found, -1, dim)
    factor = _factor(sizes, norm)
    return parts if factor == 1 else Parts(parts.re * factor, parts.im * factor)


def _factor(sizes: Sequence[int], norm: int) -> float:
    """What a transform of these sizes is multiplied by."""
    count = prod(sizes)
    return {_ROOT: count**-0.5, _COUNT: 1 / count}.get(norm, 1.0)


def _transform_of_real(x: Tensor, dims: Sequence[int], norm: int, onesided: bool) -> Parts:
    found = _transform(_parts_of(x), dims, norm, forward=True)
    if not onesided:
        return found
    return _each_part(torch.narrow, found, dims[-1], 0, x.shape[dims[-1]] // 2 + 1)


def _transform_to_real(x: Parts, dims: Sequence[int], norm: int, size: int) -> Tensor:
    """The second half is the first one, conjugate and in the other order."""
    last = dims[-1]
    *others, _ = dims
    x = _transform(x, others, 0, forward=False) if others else x
    rest = size - (size // 2 + 1)
    mirrored = _conjugate(_each_part(lambda each: each.narrow(last, 1, rest).flip(last), x))
    whole = _each_part(lambda a, b: torch.cat((a, b), last), x, mirrored) if rest else x
    found = _transform(whole, [last], 0, forward=False).re
    return found * _factor([size, *(x.re.shape[dim] for dim in others)], norm)


def _along_last(x: Parts, sign: int) -> Parts:
    """One dimension: of `a * b` elements transforms of a, and then of b."""
    n = x.re.shape[-1]
    a = next(each for each in range(isqrt(n), 0, -1) if n % each == 0) if n > _LARGEST else 1
    if a == 1:
        return _rotated(torch.matmul, x, _circle(n, n, n, sign))
    rows = _each_part(lambda each: each.unflatten(-1, (a, n // a)).transpose(-1, -2), x)
    found = _each_part(lambda each: each.transpose(-1, -2), _along_last(rows, sign))
    found = _along_last(_rotated(torch.mul, found, _circle(a, n // a, n, sign)), sign)
    return _each_part(lambda each: each.transpose(-1, -2).flatten(-2), found)


def _rotated(op: Any, x: Parts, by: Parts) -> Parts:
    return _product(op, x, _each_part(lambda each: each.to(x.re.dtype), by))


def _circle(rows: int, columns: int, n: int, sign: int) -> Parts:
    """`[rows, columns]`: the n-th root of 1 to the power of row times column."""
    with _disable_current_modes():
        power = torch.outer(torch.arange(rows), torch.arange(columns)) % n
        angle = power.to(torch.float64) * (2 * pi / n)
        return Parts(angle.cos(), sign * angle.sin())


_PARTWISE = (
    "slice select view reshape expand unsqueeze squeeze permute transpose t diagonal flip roll "
    "repeat index_select index gather split split_with_sizes unbind sum mean cumsum neg "
    "slice_scatter select_scatter diagonal_scatter slice_backward select_backward scatter_add "
    "index_add index_put embedding unfold unfold_backward triu tril lift_fresh_copy"
).split()
_SUMS = ("add", "sub", "rsub", "copy")
_FACTORS = ("mul", "mm", "bmm", "dot", "mv")
_FACTORIES = (
    "full zeros ones empty scalar_tensor full_like zeros_like ones_like empty_like new_full "
    "new_zeros new_ones new_empty new_empty_strided empty_strided empty_permuted"
).split()
_COPIES = ("clone", "detach", "alias", "lift_fresh", "contiguous", "resolve_conj", "resolve_neg")
_RULES: Mapping[Any, Rule] = {
    **{
        getattr(aten, each): partial(_each_part, getattr(aten, each))
        for each in _PARTWISE
        if hasattr(aten, each)
    },
    **{getattr(aten, each): partial(_sum, getattr(aten, each)) for each in _SUMS},
    **{getattr(aten, each): partial(_product, getattr(aten, each)) for each in _FACTORS},
    **{getattr(aten, each): _same for each in _COPIES if hasattr(aten, each)},
    aten.cat: partial(_joined, aten.cat),
    aten.stack: partial(_joined, aten.stack),
    aten.scatter: partial(_filled, aten.scatter),
    aten.addmm: partial(_plus_product, aten.mm),
    aten.baddbmm: partial(_plus_product, aten.bmm),
    aten.convolution: _convolution,
    aten.div: _quotient,
    aten.where: _where,
    aten.masked_fill: partial(_filled, aten.masked_fill),
    aten.fill: partial(_filled, aten.fill),
    aten.constant_pad_nd: _padded,
    aten._to_copy: _converted,
    aten._conj: _conjugate,
    aten._conj_physical: _conjugate,
    aten.conj_physical: _conjugate,
    aten._neg_view: lambda x: Parts(-x.re, -x.im),
    aten.sgn: _sign,
    aten.pow: _power,
    aten.complex: lambda re, im: Parts(*torch.broadcast_tensors(re, im)),
    aten.polar: _polar,
    aten.view_as_complex: lambda x: Parts(x.select(-1, 0), x.select(-1, 1)),
    aten.view_as_real: with_both,
    aten.real: lambda x: x.re,
    aten.imag: lambda x: x.im,
    aten._fft_r2c: _transform_of_real,
    aten._fft_c2r: _transform_to_real,
    aten._fft_c2c: _transform,
}


@cache
def _function(name: Any) -> Rule | None:
    """Torch's own decomposition of an op of complex tensors."""
    try:
        module = importlib.import_module("torch._subclasses.complex_tensor._ops.common")
    except ImportError:  # before torch 2.10
        return None
    importlib.import_module("torch._subclasses.complex_tensor._ops.aten")
    found, kind = module.COMPLEX_OPS_TABLE.get(name), module.ComplexTensor
    if found is None:
        return None

    def run(*args: Any, **kwargs: Any) -> Any:
        def joined(each: Any) -> Any:
            if not isinstance(each, Parts):
                return each
            is_number = not isinstance(each.re, torch.Tensor)
            return complex(each.re, each.im) if is_number else kind(each.re, each.im)

        given = pytree.tree_map(joined, (args, kwargs))
        return pytree.tree_map(
            lambda each: Parts(each.re, each.im) if isinstance(each, kind) else each,
            found(*given[0], **given[1]),
        )

    return run
