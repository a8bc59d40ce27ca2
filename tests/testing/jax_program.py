"""Random programs as JAX's users write them, as the text of a Python function.

    program = JaxProgram(seed)
    function = program.function()           # calls jnp, lax, linalg, fft, random, shard_map
    function(*program.arrays())             # on `program.mesh()`

Expressions are drawn from a table, one line each; JAX says what shape each has, and one that JAX
refuses is drawn anew. Ops whose result jumps, such as an index of the largest element, read only
values that no rounding has touched.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

Shape = tuple[int, ...]
_MESHES = ((8,), (2, 4), (4, 2), (2, 2, 2), (2,), (4,), (2, 2))
_SIZES = (8, 16, 8, 4, 24, 12)
_MOST = 1 << 13
"""The most elements of a value: larger ones test nothing more, and take longer."""
_TRIES = 40


@dataclass(frozen=True)
class Value:
    """A name in the program's text."""

    name: str
    shape: Shape
    type: str
    """As numpy has it: `float32`."""
    is_exact: bool
    """Whether no rounding has touched it."""

    def __str__(self) -> str:
        return self.name

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class Argument:
    """An argument and how it is split: the axes of the mesh of each dimension."""

    value: Value
    spec: str


@dataclass
class JaxProgram:
    """Draws a program; the same seed gives the same text."""

    seed: int
    random: Random = field(init=False)
    mesh_shape: Shape = field(init=False)
    arguments: list[Argument] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    out_specs: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.mesh_shape = self.random.choice(_MESHES)
        rank = self.random.choice((1, 2, 2, 2, 3, 3, 4))
        first = self.argument(tuple(self.random.choice(_SIZES) for _ in range(rank)))
        value = first
        for _ in range(self.random.choice((1, 2, 3, 4, 6))):
            value = self.step(value) or value
        others = [each for each in self.values if each not in (value, first)]
        self.results = [value]
        if others and self.random.random() < 0.3:
            self.results.append(self.random.choice(others))
        read = set(re.findall(r"\bx\d+", " ".join(self.lines))) | set(map(str, self.results))
        self.arguments = [each for each in self.arguments if str(each.value) in read]
        for each in self.results:
            self.out_specs.append(self.spec(each.shape) if self.random.random() < 0.4 else None)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the mesh's axes."""
        return ("a", "b", "c")[: len(self.mesh_shape)]

    def source(self) -> str:
        """The function, with the shape and the sharding of each argument."""
        names = ", ".join(str(each.value) for each in self.arguments)
        given = [
            f"    # {each.value}: {each.value.type}{list(each.value.shape)} {each.spec}"
            for each in self.arguments
        ]
        end = f"    return {', '.join(map(str, self.results))}{',' * (len(self.results) == 1)}"
        body = [f"    {line}" for line in self.lines]
        mesh = f"# mesh {dict(zip(self.axes, self.mesh_shape, strict=True))}, seed {self.seed}"
        return "\n".join([mesh, f"def f({names}):", *given, *body, end])

    def mesh(self) -> Any:
        """The mesh, on as many of JAX's devices as it has."""
        import jax
        import numpy as np

        devices = np.array(jax.devices()[: prod(self.mesh_shape)])
        return jax.sharding.Mesh(devices.reshape(self.mesh_shape), self.axes)

    def function(self, *, is_constrained: bool = True) -> Callable[..., tuple[Any, ...]]:
        """The function that `source` writes; otherwise without its sharding constraints."""
        names, source = self._names(), self.source()
        if not is_constrained:
            source = source.replace(_CONSTRAINT, "(lambda x, sharding: x)")
        exec(source, names)  # our own text
        found: Callable[..., tuple[Any, ...]] = names["f"]
        return found

    def arrays(self) -> list[Any]:
        """Arguments, split as drawn: integers, and multiples of an eighth."""
        import jax
        import numpy as np

        rng = np.random.default_rng(self.seed)
        arrays = []
        for each in self.arguments:
            drawn = rng.integers(-16, 17, each.value.shape)
            array = drawn if each.value.type == "int32" else drawn / 8
            arrays.append(jax.device_put(array.astype(each.value.type), self.named(each.spec)))
        return arrays

    def named(self, spec: str | None) -> Any:
        """The sharding that a text such as `P('a', None)` says; `None` for none."""
        import jax

        if spec is None:
            return None
        parsed = eval(spec, {"P": jax.sharding.PartitionSpec})  # our own text
        return jax.sharding.NamedSharding(self.mesh(), parsed)

    def out_shardings(self) -> tuple[Any, ...]:
        """One for each result; `None` where it is left open."""
        return tuple(map(self.named, self.out_specs))

    def argument(self, shape: Shape, type_: str = "float32") -> Value:
        """A new argument."""
        value = Value(f"x{len(self.arguments)}", shape, type_, is_exact=True)
        self.arguments.append(Argument(value, self.spec(shape)))
        self.values.append(value)
        return value

    def spec(self, shape: Shape) -> str:
        """A random split of a tensor of this shape, by axes that divide it."""
        split: list[list[str]] = [[] for _ in shape]
        left = list(shape)
        axes = list(zip(self.axes, self.mesh_shape, strict=True))
        self.random.shuffle(axes)
        for axis, size in axes:
            dim = self.random.randrange(len(shape)) if shape else 0
            if shape and left[dim] % size == 0 and self.random.random() < 0.8:
                left[dim] //= size
                split[dim].append(axis)
        return f"P({', '.join(repr(tuple(each)) if each else 'None' for each in split)})"

    def step(self, value: Value) -> Value | None:
        """One more line that reads `value`; `None` where none was found that JAX takes."""
        for _ in range(_TRIES):
            ((_, rows),) = self.random.choices(_ROWS, [weight for weight, _ in _ROWS])
            row = self.random.choice(rows)
            known = len(self.arguments), len(self.values)
            text = row.text(self, value)
            found = self.typed(text) if text and (value.is_exact or not row.jumps) else None
            if found is None:
                del self.arguments[known[0] :], self.values[known[1] :]
                continue
            is_exact = value.is_exact and row.is_exact
            new = Value(f"v{len(self.lines)}", *found, is_exact=is_exact)
            self.lines.append(f"{new} = {text}")
            self.values.append(new)
            return new
        return None

    def struct(self, value: Value) -> Any:
        """A value of which JAX is to know the shape only."""
        import jax

        made: Any = jax.ShapeDtypeStruct
        return made(value.shape, value.type)

    def typed(self, text: str, **more: Any) -> tuple[Shape, str] | None:
        """Shape and element type of an expression; `None` if JAX refuses it, or it is too large."""
        import jax

        known = {each.name: self.struct(each) for each in self.values} | more
        names = self._names()
        try:
            found = jax.eval_shape(lambda given: eval(text, {**names, **given}), known)
        except Exception:  # whatever JAX raises: it is no program
            return None
        if not hasattr(found, "shape") or prod(found.shape) > _MOST:
            return None
        return found.shape, str(found.dtype)

    def _names(self) -> dict[str, Any]:
        return {**_modules(), "mesh": self.mesh()}

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return self.random.choice(options)

    def dim(self, value: Value) -> int:
        """A dimension of the value, 0 where it has none."""
        return self.random.randrange(max(value.rank, 1))

    def other(self, shape: Shape) -> Value:
        """A value of this shape: one that there is, or a new argument."""
        found = [e for e in self.values if e.shape == shape and e.type == "float32"]
        if found and self.random.random() < 0.4:
            return self.random.choice(found)
        return self.argument(shape)

    def inside(self, value: Value, steps: int = 2) -> str:
        """An expression of `v`, which has the shape and the type of `value`."""
        text, struct = "v", self.struct(value)
        for _ in range(steps):
            row = self.random.choice(_INSIDE)
            now = self.typed(text, v=struct)
            if now is None:
                return text
            drawn = row.text(self, Value(f"({text})", *now, is_exact=False))
            if drawn and self.typed(drawn, v=struct):
                text = drawn
        return text


@functools.cache
def _modules() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import NamedSharding, PartitionSpec

    return {"jax": jax, "jnp": jnp, "lax": lax, "P": PartitionSpec, "NamedSharding": NamedSharding}


@dataclass(frozen=True)
class Row:
    """An expression of a value."""

    text: Callable[[JaxProgram, Value], str]
    """Empty where the value has none."""
    is_exact: bool = False
    """Whether it rounds nothing."""
    jumps: bool = False
    """Whether a small change of the operand may change the result a lot."""


def _unary(*texts: str) -> list[Row]:
    return [Row(lambda _, x, text=text: text.format(x=x)) for text in texts]  # type: ignore[misc]


def _shape(value: Value) -> str:
    return "(" + "".join(f"{size}, " for size in value.shape) + ")"


def _broadcast(p: JaxProgram, x: Value) -> Value:
    shape = tuple(p.pick(size, size, size, 1) for size in x.shape)
    return p.other(shape[p.pick(0, 0, 1) :] if shape else shape)


def _chosen(p: JaxProgram, x: Value) -> str:
    y = p.argument(_broadcast(p, x).shape)
    return str(p.pick("jnp.where({y} > 0, {x}, {y})", "jnp.where({y} > 0, {x}, 0)")).format(
        x=x, y=y
    )


def _binary(p: JaxProgram, x: Value) -> str:
    y = _broadcast(p, x)
    return str(
        p.pick(
            *("{x} + {y}", "{x} * {y}", "{x} - {y}", "{y} - {x}", "{x} / (1 + {y} * {y})"),
            *("jnp.maximum({x}, {y})", "jnp.hypot({x}, {y})"),
            *("jnp.arctan2({x}, {y} * {y} + 1)", "jnp.minimum({x}, {y})"),
        )
    ).format(x=x, y=y)


def _axes(p: JaxProgram, x: Value) -> str:
    dims = sorted(p.random.sample(range(x.rank), p.random.randint(1, x.rank))) if x.rank else []
    return "None" if not dims or p.random.random() < 0.1 else f"{tuple(dims)}"


def _reduction(p: JaxProgram, x: Value) -> str:
    function = p.pick("sum", "sum", "mean", "max", "min", "var", "std", "prod")
    kept = p.pick("", "", ", keepdims=True")
    scaled = f"jnp.tanh({x})" if function == "prod" else x
    return f"jnp.{function}({scaled}, axis={_axes(p, x)}{kept})"


def _cumulative(p: JaxProgram, x: Value) -> str:
    function = p.pick("jnp.cumsum", "lax.cummax", "lax.cumlogsumexp", "lax.cumsum")
    reverse = ", reverse=True" if function.startswith("lax") and p.pick(0, 1) else ""
    return f"{function}({x}, axis={p.dim(x)}{reverse})"


def _softmax(p: JaxProgram, x: Value) -> str:
    function = p.pick(
        "jax.nn.softmax", "jax.nn.log_softmax", "jax.nn.logsumexp", "jax.nn.standardize"
    )
    return f"{function}({x}, axis={p.dim(x)})"


def _matmul(p: JaxProgram, x: Value) -> str:
    if not x.rank:
        return ""
    size = p.pick(8, 16, 4)
    if x.rank > 2 and p.pick(0, 1):
        return f"{x} @ {p.other((*x.shape[:-2], x.shape[-1], size))}"
    return f"{x} @ {p.other((x.shape[-1], size))}"


def _einsum(p: JaxProgram, x: Value) -> str:
    """Contract some dimensions, batch some, keep some, in any order."""
    letters = "abcdefgh"[: x.rank]
    mine = [letter for letter in letters if p.pick(0, 1)] + ["z"] * p.pick(0, 1)
    p.random.shuffle(mine)
    sizes = {**dict(zip(letters, x.shape, strict=True)), "z": 8}
    out = [
        each for each in (*letters, "z") if (each in mine or each in letters) and p.pick(0, 1, 1)
    ]
    out = [each for each in out if each in letters or each in mine]
    p.random.shuffle(out)
    y = p.other(tuple(sizes[each] for each in mine))
    return f"jnp.einsum('{letters},{''.join(mine)}->{''.join(out)}', {x}, {y}) / 4"


def _conv(p: JaxProgram, x: Value) -> str:
    if x.rank not in (3, 4):
        return ""
    spatial = x.rank - 2
    group = p.pick(1, 1, 1, 2)
    if x.shape[1] % group:
        return ""
    y = p.other((p.pick(8, 4), x.shape[1] // group, *([p.pick(1, 2, 3)] * spatial)))
    strides = [p.pick(1, 1, 2)] * spatial
    padding = p.pick("'SAME'", "'VALID'", str([(1, 2)] * spatial))
    dilation = p.pick("", "", f", rhs_dilation={[2] * spatial}", f", lhs_dilation={[2] * spatial}")
    if "lhs" in dilation:
        padding = str([(1, 2)] * spatial)
    return (
        f"lax.conv_general_dilated({x}, {y}, {strides}, {padding}{dilation}, "
        f"feature_group_count={group}) / 4"
    )


def _reshape(p: JaxProgram, x: Value) -> str:
    sizes = list(x.shape)
    for _ in range(p.pick(1, 2)):
        if len(sizes) > 1 and p.pick(0, 1):
            at = p.random.randrange(len(sizes) - 1)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        elif sizes:
            at = p.random.randrange(len(sizes))
            by = p.pick(2, 4, 3)
            if sizes[at] % by == 0:
                sizes[at : at + 1] = p.pick([by, sizes[at] // by], [sizes[at] // by, by])
    return f"jnp.reshape({x}, {tuple(sizes)})"


def _slice(p: JaxProgram, x: Value) -> str:
    bounds = []
    for size in x.shape:
        begin = p.random.randrange(max(size, 1))
        bounds.append(
            p.pick(
                *(":", ":", f"{begin}:", f":{begin + 1}", "::2", "::-1", f"{-1 - begin // 2}:"),
                *(f"{begin}", f"{begin}:{begin + 2}", "None, :"),
            )
        )
    return f"{x}[{', '.join(bounds)}]" if bounds else ""


def _pad(p: JaxProgram, x: Value) -> str:
    widths = tuple(p.pick((0, 0), (0, 0), (1, 2), (0, 3), (2, 0)) for _ in x.shape)
    mode = p.pick("constant", "constant", "edge", "reflect", "wrap", "symmetric", "empty")
    more = f", constant_values={p.pick(0, 1.5)}" if mode == "constant" else ""
    return f"jnp.pad({x}, {widths}, mode='{mode}'{more})" if mode != "empty" else ""


def _lax_pad(p: JaxProgram, x: Value) -> str:
    widths = [p.pick((0, 0, 0), (1, 1, 0), (-1, 2, 0), (0, 1, 1), (2, -3, 0)) for _ in x.shape]
    return f"lax.pad({x}, jnp.array({p.pick(0, 2)}, {x}.dtype), {widths})"


def _moved(p: JaxProgram, x: Value) -> str:
    a, b = p.dim(x), p.dim(x)
    order = tuple(p.random.sample(range(x.rank), x.rank))
    shift = p.pick(1, 3, -2, 5)
    count = p.pick(2, 3)
    return str(
        p.pick(
            *(f"jnp.transpose({x}, {order})", f"jnp.swapaxes({x}, {a}, {b})"),
            *(f"jnp.flip({x}, {a})", f"jnp.roll({x}, {shift}, {a})", f"jnp.roll({x}, {shift})"),
            *(f"jnp.repeat({x}, {count}, {a})", f"jnp.tile({x}, {count})", f"jnp.ravel({x})"),
            *(f"jnp.expand_dims({x}, {a})", f"jnp.moveaxis({x}, {a}, {b})", f"jnp.rot90({x})"),
            *(f"jnp.split({x}, 2, {a})[{p.pick(0, 1)}]", f"jnp.tril({x}, {p.pick(0, 1, -2)})"),
            *(f"jnp.triu({x})", f"jnp.diagonal({x})", f"jnp.diag({x})", f"jnp.array({x})"),
            *(f"jnp.broadcast_to({x}, ({count}, *{x}.shape))", f"jnp.squeeze({x})"),
            *(f"jnp.take({x}, {p.random.randrange(4)}, {a})", f"jnp.trace({x})"),
            *(f"jnp.delete({x}, {p.random.randrange(4)}, {a})", f"jnp.diff({x}, axis={a})"),
            *(f"lax.stop_gradient({x})", f"lax.optimization_barrier({x})", f"lax.rev({x}, [{a}])"),
        )
    )


def _joined(p: JaxProgram, x: Value) -> str:
    dim = p.dim(x)
    shape = tuple(p.pick(size, 8, 3) if d == dim else size for d, size in enumerate(x.shape))
    y = p.other(shape)
    pair = p.pick(f"{x}, {y}", f"{y}, {x}", f"{x}, {y}, {x}")
    same = p.other(x.shape)
    return str(
        p.pick(
            f"jnp.concatenate([{pair}], {dim})",
            f"jnp.concatenate([{pair}], {dim})",
            f"jnp.stack([{x}, {same}], {dim})",
            f"jnp.kron({x}, jnp.array([1.0, 2.0]))",
        )
    )


def _indexed(p: JaxProgram, x: Value) -> str:
    if not x.rank or 0 in x.shape:
        return ""
    dim, count = p.dim(x), p.pick(4, 8, 5)
    at = p.argument((count,), "int32")
    where = ", ".join([":"] * dim + [f"{at} % {x.shape[dim]}"])
    start = p.argument((), "int32")
    update = tuple(p.pick(size, max(size // 2, 1), 1) for size in x.shape)
    pairs = zip(x.shape, update, strict=True)
    # In range: XLA's own partition clamps other starts in each shard.
    starts = ", ".join(p.pick("0", f"{start} % {size - part + 1}") for size, part in pairs)
    along = p.argument(tuple(count if d == dim else s for d, s in enumerate(x.shape)), "int32")
    begin = p.random.randrange(x.shape[dim])
    piece = ", ".join([":"] * dim + [p.pick(f"{begin}", f"{begin}:", "::2", f":{begin + 1}")])
    what = p.pick("set(1.5)", "add(2.0)", "multiply(0.5)", "max(0.25)", "min(0.25)")
    return str(
        p.pick(
            *(f"jnp.take({x}, {at} % {x.shape[dim]}, {dim})", f"{x}[{where}]"),
            f"jnp.take_along_axis({x}, {along} % {x.shape[dim]}, {dim})",
            f"lax.dynamic_slice({x}, ({starts},), {update})",
            f"lax.dynamic_update_slice({x}, {p.other(update)}, ({starts},))",
            *(f"{x}.at[{where}].{what}", f"{x}.at[{piece}].{what}", f"{x}.at[{piece}].{what}"),
            f"lax.dynamic_index_in_dim({x}, {start} % {x.shape[dim]}, {dim})",
            f"jax.ops.segment_sum({x}, {p.argument(x.shape[:1], 'int32')} % 5, 5)",
            f"jnp.zeros_like({x}).at[{where}].add({x}[{where}])",
        )
    )


def _window(p: JaxProgram, x: Value) -> str:
    sizes = tuple(p.pick(1, 2, 3) for _ in x.shape)
    strides = tuple(p.pick(1, 1, 2) for _ in x.shape)
    padding = p.pick("SAME", "VALID")
    kind = p.pick("lax.max, -jnp.inf", "lax.add, 0.0", "lax.min, jnp.inf")
    init, function = kind.split(", ")[1], kind.split(", ")[0]
    window = f"lax.reduce_window({{}}, {init}, {function}, {sizes}, {strides}, '{padding}')"
    return window.format(x)


def _window_gradient(p: JaxProgram, x: Value) -> str:
    """The gradient jumps where two elements of a window are equal."""
    window = _window(p, Value("v", x.shape, x.type, x.is_exact))
    return f"jax.grad(lambda v: jnp.sum({window} ** 2))({x})"


def _linalg(p: JaxProgram, x: Value) -> str:
    if x.rank < 2:
        return ""
    n = x.shape[-1]
    square = f"({x} @ jnp.swapaxes({x}, -1, -2) / {n} + 3 * jnp.eye({x.shape[-2]}))"
    side = p.other((*x.shape[:-1], 4))
    return str(
        p.pick(
            *(f"jnp.linalg.cholesky({square})", f"jnp.linalg.inv({square})"),
            *(f"jnp.linalg.solve({square}, {side})", f"jnp.linalg.det({square} / 8)"),
            *(f"jnp.linalg.norm({x}, axis=-1)", f"jnp.linalg.eigvalsh({square})"),
            f"jnp.linalg.svd({x}, compute_uv=False)",
            f"jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky({square}), {side}, lower=True)",
            f"jnp.abs(jnp.linalg.qr({square})[1])",
            f"jnp.linalg.slogdet({square})[1]",
        )
    )


def _fft(p: JaxProgram, x: Value) -> str:
    dim = p.dim(x)
    return str(
        p.pick(
            *(f"jnp.abs(jnp.fft.fft({x}, axis={dim}))", f"jnp.fft.rfft({x}, axis={dim}).real"),
            *(f"jnp.fft.ifft({x}, axis={dim}).imag", f"jnp.fft.irfft({x} + 0j, axis={dim})"),
            f"jnp.abs(jnp.fft.fft2({x}))",
        )
    )


def _drawn(p: JaxProgram, x: Value) -> str:
    key = f"jax.random.key({p.random.randrange(99)})"
    return str(
        p.pick(
            f"{x} + jax.random.normal({key}, {_shape(x)})",
            f"{x} * jax.random.uniform({key}, {_shape(x)})",
            f"jnp.where(jax.random.bernoulli({key}, 0.7, {_shape(x)}), {x} / 0.7, 0)",
            f"jax.random.permutation({key}, {x}, axis={p.dim(x)})",
            f"{x} + jax.random.randint({key}, {_shape(x)}, 0, 5)",
            f"{x} + jax.vmap(lambda k: jax.random.normal(k, {_shape(x)[:-1]}))"
            f"(jax.random.split({key}, 1))[0]",
        )
    )


def _jumping(p: JaxProgram, x: Value) -> str:
    dim = p.dim(x)
    return str(
        p.pick(
            *(f"jnp.argmax({x}, {dim})", f"jnp.argmin({x}, {dim})", f"jnp.argsort({x}, {dim})"),
            *(f"jnp.floor({x})", f"{x} > 0", f"jnp.round({x})", f"jnp.sign({x})"),
            *(f"jnp.any({x} > 1, {dim})", f"jnp.sum({x} > 0, {dim})", f"lax.top_k({x}, 3)[1]"),
            *(f"{x}.astype('int32')", f"jnp.sum({x}, {dim}, dtype='int32')"),
            *(f"jnp.searchsorted(jnp.sort(jnp.ravel({x})), {x})", f"jnp.mod({x}, 3)"),
            *(
                f"jnp.bincount(jnp.ravel({x}).astype('int32') + 2, length=6)",
                f"jnp.cumsum({x} > 0)",
            ),
            *(f"jnp.histogram({x}, bins=4, range=(-2, 2))[0]", f"jnp.unique({x}, size=5)"),
            f"jnp.where({x} > 0, {x}, -1)[..., None]",
            f"({x}.astype('bfloat16') * 3).astype('float32')",
        )
    )


def _sorted(p: JaxProgram, x: Value) -> str:
    dim = p.dim(x)
    return str(
        p.pick(
            *(f"jnp.sort({x}, {dim})", f"-jnp.sort(-{x}, {dim})", f"lax.top_k({x}, 3)[0]"),
            *(f"jnp.median({x}, {dim})", f"jnp.quantile({x}, 0.25, {dim})"),
        )
    )


def _control(p: JaxProgram, x: Value) -> str:
    if not x.rank:
        return ""
    part = Value("v", x.shape[1:], x.type, is_exact=False)
    return str(
        p.pick(
            f"lax.fori_loop(0, 3, lambda i, v: jnp.tanh({p.inside(x)}), {x})",
            f"lax.scan(lambda c, v: (c + {p.inside(part)}, c * v), 0 * {x}[0], {x})[1]",
            f"lax.scan(lambda c, v: (jnp.tanh(c + v), c), 0 * {x}[0], {x}, reverse=True)[0]",
            f"lax.cond(jnp.sum({x}) > 0, lambda v: v * 2, lambda v: {p.inside(x)}, {x})",
            f"lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.5), (0, {x}))[1]",
            f"lax.map(lambda v: {p.inside(part)}, {x})",
            f"jax.vmap(lambda v: {p.inside(part)}, in_axes={0})({x})",
            f"lax.switch(1, [lambda v: v, lambda v: {p.inside(x)}], {x})",
            f"lax.associative_scan(jnp.add, {x}, axis={p.dim(x)})",
        )
    )


def _transformed(p: JaxProgram, x: Value) -> str:
    inner = p.inside(x, 3)
    return str(
        p.pick(
            f"jax.grad(lambda v: jnp.sum(jnp.sin({inner})))({x})",
            f"jax.jvp(lambda v: {inner}, ({x},), ({x},))[1]",
            f"jax.grad(lambda v: jnp.sum(jax.checkpoint(lambda v: jnp.sin({inner}))(v)))({x})",
            f"jax.grad(lambda v: jnp.mean({inner} ** 2))({x})",
            f"jax.jit(lambda v: {inner})({x})",
        )
    )


_CONSTRAINT = "lax.with_sharding_constraint"


def _constrained(p: JaxProgram, x: Value) -> str:
    return f"{_CONSTRAINT}({x}, NamedSharding(mesh, {p.spec(x.shape)}))"


def _shard_map(p: JaxProgram, x: Value) -> str:
    axis, dim, spec = p.pick(*p.axes), p.dim(x), p.spec(x.shape)
    size = p.mesh_shape[p.axes.index(axis)]
    pairs = [(at, (at + 1) % size) for at in range(size)]
    body = p.pick(
        *("v * 2", f"lax.psum(v, '{axis}')", f"v + lax.axis_index('{axis}')"),
        f"lax.all_gather(v, '{axis}', axis={dim}, tiled=True)",
        f"lax.ppermute(v, '{axis}', {pairs})",
        f"lax.psum_scatter(v, '{axis}', scatter_dimension={dim}, tiled=True)",
        f"lax.all_to_all(v, '{axis}', {dim}, {p.dim(x)}, tiled=True)",
        f"lax.pmax(v, '{axis}')",
    )
    out = p.pick(spec, p.spec(x.shape))
    return f"jax.shard_map(lambda v: {body}, mesh=mesh, in_specs={spec}, out_specs={out})({x})"


_ELEMENTWISE = _unary(
    *("jnp.tanh({x})", "jnp.sin({x})", "jnp.exp(-jnp.abs({x}))", "jax.nn.gelu({x})", "-{x}"),
    *("jnp.sqrt(jnp.abs({x}) + 1)", "jnp.log1p(jnp.abs({x}))", "jax.nn.relu({x})", "{x} ** 2 / 4"),
    *("jax.nn.sigmoid({x})", "jnp.clip({x}, -1, 1)", "jax.lax.erf({x})", "jnp.abs({x}) * 0.5"),
    *("jnp.real({x} * 1j * {x})", "jnp.arctan({x})"),
)
_INSIDE = [*_ELEMENTWISE[:6], *map(Row, (_reduction, _moved, _reshape, _slice, _softmax))]
_ROWS = [
    (4, [*_ELEMENTWISE, *map(Row, (_binary, _binary, _chosen))]),
    (3, [Row(_reduction), Row(_reduction), Row(_cumulative), Row(_softmax)]),
    (3, [Row(_matmul), Row(_einsum), Row(_conv)]),
    (3, [Row(_moved, is_exact=True)]),
    (3, [Row(text, is_exact=True) for text in (_reshape, _slice, _pad, _lax_pad, _joined)]),
    (3, [Row(_indexed), Row(_window), Row(_window_gradient, jumps=True)]),
    (1, [Row(_sorted, is_exact=True), Row(_jumping, jumps=True)]),
    (2, [Row(_linalg), Row(_fft), Row(_drawn)]),
    (3, [Row(_control, jumps=True), Row(_transformed), Row(_transformed)]),
    (2, [Row(_constrained, is_exact=True), Row(_shard_map)]),
]
"""How often the rows of a kind are drawn, and the rows."""
