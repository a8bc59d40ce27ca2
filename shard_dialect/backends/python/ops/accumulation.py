"""Products and reductions, for all ops that add up elements: 16 bits in f32, rounded once.

wide = np.sum(x, axis=(1,))              of x.astype(np.float32)
summed = wide.astype(ml_dtypes.bfloat16)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.backends.python.element_types import is_flipped, is_half
from shard_dialect.backends.python.ops.elementwise import as_unsigned
from shard_dialect.backends.python.writer import Writer
from shard_dialect.ir.bindings import ir

REDUCTIONS = {"add": "sum", "mul": "prod", "max": "max", "min": "min", "and": "all", "or": "any"}
REDUCTIONS["xor"] = "bitwise_xor"
"""For each op that joins two elements, the function that reduces dimensions."""
JOINED = {
    "add": "summed",
    "mul": "multiplied",
    "max": "largest",
    "min": "smallest",
    "and": "all_of",
    "or": "any_of",
    "xor": "parity",
}
"""The names of their results."""


def widened(w: Writer, x: str, element: ir.Type) -> str:
    """Elements to be added up, in f32 if they are floats of 16 bits."""
    return f"{x}.{w.pick('astype(np', 'to(torch')}.float32)" if is_half(element) else x


def narrowed(w: Writer, text: str, element: ir.Type, op: ir.Operation) -> str:
    """A sum of widened elements, rounded once."""
    return w.cast(w.kept("wide", text), element, op.location) if is_half(element) else text


def multiplied(
    w: Writer,
    a: str,
    b: str,
    of_a: Sequence[int],
    of_b: Sequence[int],
    of_c: Sequence[int],
    element: ir.Type,
    op: ir.Operation,
) -> str:
    """The product of two tensors, summed over the loops that the result lacks.

    torch itself adds up products of 16 bits in f32.
    """
    if w.is_torch:
        return product(w, a, b, of_a, of_b, of_c)
    text = product(w, widened(w, a, element), widened(w, b, element), of_a, of_b, of_c)
    return narrowed(w, text, element, op)


def product(
    w: Writer, a: str, b: str, of_a: Sequence[int], of_b: Sequence[int], of_c: Sequence[int]
) -> str:
    """The product, added up in the elements' own type or as the library does."""
    batch = list(of_c[:-2])
    is_of_matrices = min(map(len, (of_a, of_b, of_c))) >= 2
    if is_of_matrices and list(of_a[:-2]) == batch == list(of_b[:-2]):
        m, n = of_c[-2:]
        k = of_a[-1]
        if list(of_a[-2:]) == [m, k] and list(of_b[-2:]) == [k, n] and k not in of_c:
            return f"{a} @ {b}"
    letters = {
        dim: "bmnkhqdijlopr"[i] for i, dim in enumerate(dict.fromkeys((*of_c, *of_a, *of_b)))
    }
    words = ["".join(letters[dim] for dim in each) for each in (of_a, of_b, of_c)]
    more = "" if w.is_torch else ", optimize=True"
    return f'{w.module}.einsum("{words[0]},{words[1]}->{words[2]}", {a}, {b}{more})'


def reduced(
    w: Writer,
    kind: str,
    x: str,
    dims: Sequence[int],
    element: ir.Type,
    op: ir.Operation,
    placed: Callable[[str], str] = str,
    init: str | None = None,
    *,
    is_unsigned: bool = False,
) -> str:
    """The elements along `dims` reduced to one, then `placed`, and joined with an initial value.

    Sums and products of 16 bits are rounded once. With `is_unsigned` the elements are taken for
    unsigned integers, as those of unsigned types are anyway.
    """
    flips = w.is_torch and kind in ("max", "min") and (is_unsigned or is_flipped(element))
    views = not w.is_torch and kind in ("max", "min") and is_unsigned
    is_wide = is_half(element) and kind in ("add", "mul")

    def prepared(text: str) -> str:
        if flips:
            return f"flipped({text})"
        if views:
            return as_unsigned(w, text, element)
        return widened(w, text, element) if is_wide else text

    dtype = "" if is_wide else w.dtype(element, op.location)
    x = prepared(x) if flips or views or is_wide else x
    text = placed(_reduced_along(w, kind, x, dims, dtype, element) if dims else x)
    if init is not None:
        text = _JOIN[kind].format(prepared(init), text, m=w.module)
    if flips:
        return f"flipped({text})"
    if views:
        return f"{w.kept('unsigned', text)}.view({w.dtype(element, op.location)})"
    return narrowed(w, text, element, op) if is_wide else text


_JOIN = {
    "add": "{0} + {1}",
    "mul": "{0} * {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "max": "{m}.maximum({0}, {1})",
    "min": "{m}.minimum({0}, {1})",
}


def _reduced_along(
    w: Writer, kind: str, x: str, dims: Sequence[int], dtype: str, element: ir.Type
) -> str:
    """The elements along `dims` reduced to one."""
    name, axes = REDUCTIONS[kind], tuple(dims)
    typed = f", dtype={dtype}" if dtype and kind in ("add", "mul") else ""
    if kind in ("and", "or", "xor") and str(element) != "i1":
        function = f"{w.module}.bitwise_{kind}"
        return w.pick(f"{function}.reduce({x}, axis={axes})", f"fold({function}, {x}, {axes})")
    if not w.is_torch:
        return f"np.{name}({x}, axis={axes}{typed})"
    if kind in ("max", "min"):
        return f"torch.a{name}({x}, dim={axes})"
    if kind == "add":
        return f"torch.sum({x}, dim={axes}{typed})"
    for dim in sorted(axes, reverse=True):
        x = f"torch.{name}({x}, dim={dim}{typed})"
    return x
