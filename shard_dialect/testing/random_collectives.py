"""Random programs whose collectives are written by hand, each with the program without them.

In the RFC's words, on distributed tensors: pairs that cancel and gathers that nobody reads are
among them, and partial sums in its plain list. In upstream's, on the shards of one device: roots,
sources and destinations are numbers, operands that are constants, or computed as the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random

from shard_dialect.testing.random_draws import chance

COLLECTIVE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "add",
        "concatenate",
        "dot_general",
        "maximum",
        "multiply",
        "sine",
        "slice",
        "tanh",
    )
)
"""The ops of these programs, and of those without collectives."""
_GRIDS = ((2,), (3,), (4,), (2, 2), (2, 3), (2, 2, 2))
_SIZE = 12
"""Divided by the axes of every grid, one at a time and all together but for 2x2x2."""
_Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Value:
    """A matrix; `plain` is its name in the program without collectives."""

    name: str
    plain: str
    split: tuple[_Axes, _Axes]
    partial: _Axes = ()
    kind: str = "sum"

    @property
    def used(self) -> _Axes:
        return (*self.split[0], *self.split[1], *self.partial)


_PLAIN = f"tensor<{_SIZE}x{_SIZE}xf32>"


@dataclass
class _Written:
    """A function under construction."""

    draw: Random
    grid: tuple[int, ...]
    is_local: bool
    lines: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    values: list[_Value] = field(default_factory=list)
    count: int = 0

    def fresh(self, letter: str = "v") -> str:
        self.count += 1
        return f"%{letter}{self.count}"

    def pick(self, *, whole: bool = True) -> _Value:
        """One of the latest values, without partial sums unless `whole` is false."""
        return self.draw.choice([each for each in self.values if not (whole and each.partial)][-4:])

    def counts(self, split: Sequence[_Axes]) -> list[int]:
        return [prod(self.grid[axis] for axis in axes) for axes in split]

    def type(self, split: Sequence[_Axes], partial: _Axes = (), kind: str = "sum") -> str:
        if self.is_local:
            sizes = [_SIZE // count for count in self.counts(split)]
            return f"tensor<{sizes[0]}x{sizes[1]}xf32>"
        return _distributed(split, partial, kind)

    def type_of(self, value: _Value) -> str:
        return self.type(value.split, value.partial, value.kind)

    def op(self, text: str, operands: Sequence[_Value], split: tuple[_Axes, _Axes]) -> _Value:
        """Add an op to both programs: `text` with its operands' names and types."""
        name = self.fresh()
        types = {f"t{number}": self.type_of(each) for number, each in enumerate(operands)}
        plain_types = dict.fromkeys((*types, "t"), _PLAIN)
        sharded = text.format(*(each.name for each in operands), t=self.type(split), **types)
        unsharded = text.format(*(each.plain for each in operands), **plain_types)
        self.lines.append(f"{name} = {sharded}")
        self.plain.append(f"{name} = {unsharded}")
        return self.add(name, name, split)

    def add(
        self,
        name: str,
        plain: str,
        split: tuple[_Axes, _Axes],
        partial: _Axes = (),
        kind: str = "sum",
    ) -> _Value:
        self.values.append(_Value(name, plain, split, partial, kind))
        return self.values[-1]

    def collective(
        self,
        value: _Value,
        text: str,
        split: tuple[_Axes, _Axes],
        partial: _Axes = (),
        kind: str = "sum",
    ) -> _Value:
        """Add a collective that changes where a tensor is, and nothing of it."""
        name = self.fresh()
        target = self.type(split, partial, kind)
        self.lines.append(f"{name} = {text} : {self.type_of(value)} -> {target}")
        return self.add(name, value.plain, split, partial, kind)

    def blocks(self, value: _Value, count: int, dim: int = 0) -> list[str]:
        """Slices of the plain matrix, one for each shard along a dimension."""
        names, size = [], _SIZE // count
        for number in range(count):
            bounds = [f"0:{_SIZE}", f"0:{_SIZE}"]
            bounds[dim] = f"{number * size}:{(number + 1) * size}"
            names.append(self.fresh())
            type_ = _block(size, dim)
            text = f"stablehlo.slice {value.plain} [{', '.join(bounds)}] : ({_PLAIN}) -> {type_}"
            self.plain.append(f"{names[-1]} = {text}")
        return names

    def joined(self, blocks: Sequence[str], dim: int = 0) -> str:
        name, type_ = self.fresh(), _block(_SIZE // len(blocks), dim)
        types = ", ".join([type_] * len(blocks))
        text = f"stablehlo.concatenate {', '.join(blocks)}, dim = {dim} : ({types}) -> {_PLAIN}"
        self.plain.append(f"{name} = {text}")
        return name

    def free(self, value: _Value) -> list[int]:
        """The axes that do nothing with a value, and may split it once more."""
        return [axis for axis in range(len(self.grid)) if axis not in value.used]

    def step(self) -> None:
        self.draw.choice(_LOCAL if self.is_local else _DISTRIBUTED)(self)


def _distributed(split: Sequence[_Axes], partial: _Axes = (), kind: str = "sum") -> str:
    lists = [str(list(axes)) for axes in split]
    if partial:
        lists.append(str(list(partial)) if kind == "sum" else f"{{{kind} = {list(partial)}}}")
    return f"tensor<{_SIZE}x{_SIZE}xf32, #mesh.shard<@g, [{', '.join(lists)}]>>"


def _block(size: int, dim: int) -> str:
    shape = (size, _SIZE) if dim == 0 else (_SIZE, size)
    return f"tensor<{shape[0]}x{shape[1]}xf32>"


def _moved(split: Sequence[_Axes], dim: int, axes: _Axes) -> tuple[_Axes, _Axes]:
    return (axes, split[1]) if dim == 0 else (split[0], axes)


def _elementwise(program: _Written) -> None:
    a = program.pick()
    alike = [each for each in program.values if (each.split, each.partial) == (a.split, ())]
    name = program.draw.choice(("add", "multiply", "maximum", "tanh", "sine"))
    operands = [a, program.draw.choice(alike)] if name in ("add", "multiply", "maximum") else [a]
    listed = ", ".join(["{}"] * len(operands))
    program.op(f"stablehlo.{name} {listed} : {{t0}}", operands, a.split)


# On distributed tensors


def _gathered(program: _Written) -> _Value | None:
    value = program.pick()
    kept = tuple(axes[: program.draw.randint(0, len(axes))] for axes in value.split)
    taken = [axes[len(left) :] for axes, left in zip(value.split, kept, strict=True)]
    if not any(taken):
        return None
    lists = f"[{', '.join(str(list(axes)) for axes in taken)}]"
    text = f"mesh.all_gather {value.name} {{mesh_axis = {lists}}}"
    return program.collective(value, text, (kept[0], kept[1]))


def _split(program: _Written, value: _Value | None = None) -> None:
    value = value or program.pick()
    axes, dim = tuple(program.free(value)[:2]), program.draw.randrange(2)
    if not axes or _SIZE % program.counts([(*value.split[dim], *axes)])[0]:
        return
    lists = ["[]", "[]"]
    lists[dim] = str(list(axes))
    text = f"mesh.local_split {value.name} {{sharding = [{', '.join(lists)}]}}"
    program.collective(value, text, _moved(value.split, dim, (*value.split[dim], *axes)))


def _cancelled(program: _Written) -> None:
    """A gather, and a split again, along the same axes or others."""
    gathered = _gathered(program)
    if gathered is not None:
        _split(program, gathered)


def _unused(program: _Written) -> None:
    if _gathered(program) is not None:
        program.values.pop()


def _exchanged(program: _Written) -> None:
    value, dim = program.pick(), program.draw.randrange(2)
    if not value.split[dim]:
        return
    axis, split = value.split[dim][-1:], list(value.split)
    split[dim], split[1 - dim] = split[dim][:-1], (*split[1 - dim], *axis)
    if _SIZE % program.counts(split)[1 - dim]:
        return
    text = (
        f"mesh.all_to_all {value.name} {{mesh_axis = {list(axis)}, "
        f"split_axis = {1 - dim} : i64, concat_axis = {dim} : i64}}"
    )
    program.collective(value, text, (split[0], split[1]))


def _masked(program: _Written) -> None:
    value = program.pick()
    axes = tuple(program.free(value)[:1])
    if axes:
        kind = program.draw.choice(("sum", "sum", "max"))
        text = f'mesh.mask {value.name} {{mesh_axis = {list(axes)}, reduction = "{kind}"}}'
        program.collective(value, text, value.split, axes, kind)


def _product(program: _Written) -> None:
    """A product along a split dimension, which is partial; the second matrix is split to fit."""
    a = program.pick()
    rows = [each for each in program.values if each.split == (a.split[1], ()) and not each.partial]
    if not rows or not a.split[1]:
        return
    b, name = program.draw.choice(rows), program.fresh()
    for lines, operands, type_ in (
        (program.lines, (a.name, b.name), program.type((a.split[0], ()), a.split[1])),
        (program.plain, (a.plain, b.plain), _PLAIN),
    ):
        types = [_PLAIN] * 2 if type_ == _PLAIN else [program.type_of(each) for each in (a, b)]
        lines.append(
            f"{name} = stablehlo.dot_general {operands[0]}, {operands[1]}, contracting_dims = "
            f"[1] x [0] : ({', '.join(types)}) -> {type_}"
        )
    program.add(name, name, (a.split[0], ()), a.split[1])
    _reduced(program)


def _reduced(program: _Written) -> None:
    """All partial values are reduced, or scattered over a dimension."""
    partial = [each for each in program.values if each.partial]
    if not partial:
        return
    value, dim = partial[-1], program.draw.randrange(2)
    attributes = f'mesh_axis = {list(value.partial)}, reduction = "{value.kind}"'
    new = (*value.split[dim], *value.partial)
    if chance(program.draw, 0.5) or _SIZE % program.counts([new])[0]:
        program.collective(value, f"mesh.all_reduce {value.name} {{{attributes}}}", value.split)
    else:
        text = f"mesh.reduce_scatter {value.name} {{{attributes}, tensor_axis = {dim} : i64}}"
        program.collective(value, text, _moved(value.split, dim, new))


def _permuted(program: _Written) -> None:
    """Shards of the rows change places."""
    value = program.pick()
    if len(value.split[0]) != 1:
        return
    axes, count = list(value.split[0]), program.counts(value.split)[0]
    to = program.draw.sample(range(count), count)
    text = (
        f"mesh.collective_permute {value.name} {{mesh_axis = {axes}, "
        f"permutation = array<i64: {', '.join(map(str, to))}>}}"
    )
    made, blocks = program.collective(value, text, value.split), program.blocks(value, count)
    plain = program.joined([blocks[to.index(at)] for at in range(count)])
    program.values[-1] = _Value(made.name, plain, value.split)


# On shards


def _member(program: _Written, axis: int) -> tuple[str, str]:
    """A member of a group, as it is written, and the types of what that reads."""
    count, name = program.grid[axis], program.fresh("k")
    at = program.draw.randrange(count)
    kind = program.draw.randrange(3)
    if kind == 0:
        return f"[{at}]", ""
    if kind == 1:
        program.lines.append(f"{name} = arith.constant {at} : index")
    else:
        program.lines += [
            f"{name}n = arith.constant {count} : index",
            f"{name} = arith.remui %place, {name}n : index",
        ]
    return f"[{name}]", ", index"


def _along(program: _Written, value: _Value, dim: int) -> int | None:
    """The only axis that splits a dimension."""
    return value.split[dim][0] if len(value.split[dim]) == 1 else None


def _to_root_and_back(program: _Written) -> None:
    """A gather, or a reduction, to a root that passes it on to all."""
    value, dim = program.pick(), program.draw.randrange(2)
    axis = _along(program, value, dim)
    if axis is None:
        return
    (root, more), split = _member(program, axis), _moved(value.split, dim, ())
    on = f"on @g grid_axes = [{axis}]"
    type_, name = program.type_of(value), program.fresh()
    count = program.counts(value.split)[dim]
    if chance(program.draw, 0.5):
        target, plain = program.type(split), value.plain
        made = f"shard.gather {value.name} {on} gather_axis = {dim} root = {root}"
    else:
        target, plain, blocks = type_, "", program.blocks(value, count, dim)
        made = f"shard.reduce {value.name} {on} reduction = max root = {root}"
        for block in blocks:
            name_of_most = program.fresh()
            text = f"stablehlo.maximum {plain}, {block} : {_block(_SIZE // count, dim)}"
            program.plain += [f"{name_of_most} = {text}"] * bool(plain)
            plain = name_of_most if plain else block
        plain = program.joined([plain] * count, dim)
    program.lines += [
        f"{name}r = {made} : ({type_}{more}) -> {target}",
        f"{name} = shard.broadcast {name}r {on} root = {root} : ({target}{more}) -> {target}",
    ]
    if target == type_ and plain != value.plain:  # every shard is the largest of all
        program.add(name, plain, value.split)
    else:
        program.add(name, plain, split)


def _scattered(program: _Written) -> None:
    value, dim = program.pick(), program.draw.randrange(2)
    free = program.free(value)
    if not free or value.split[dim]:
        return
    axis, split = free[0], _moved(value.split, dim, (free[0],))
    root, more = _member(program, axis)
    name = program.fresh()
    program.lines.append(
        f"{name} = shard.scatter {value.name} on @g grid_axes = [{axis}] scatter_axis = {dim} "
        f"root = {root} : ({program.type_of(value)}{more}) -> {program.type(split)}"
    )
    program.add(name, value.plain, split)


def _ring(program: _Written) -> None:
    """Each device sends its rows to one after it, and takes those of one before."""
    value = program.pick()
    axis = _along(program, value, 0)
    if axis is None:
        return
    count, by, name = program.grid[axis], program.draw.randrange(1, 3), program.fresh()
    type_ = program.type_of(value)
    on = f"on @g grid_axes = [{axis}]"
    if chance(program.draw, 0.4):
        made = f"shard.shift {value.name} {on} shift_axis = {axis} offset = {by} rotate"
        program.lines.append(f"{name} = {made} : {type_} -> {type_}")
    else:
        program.lines += [
            f"{name}i = shard.process_multi_index on @g axes = [{axis}] : index",
            f"{name}n = arith.constant {count} : index",
            f"{name}b = arith.constant {by % count} : index",
            f"{name}a = arith.constant {-by % count} : index",
            f"{name}t = arith.addi {name}i, {name}b : index",
            f"{name}s = arith.addi {name}i, {name}a : index",
            f"{name}u = arith.remui {name}t, {name}n : index",
            f"{name}v = arith.remui {name}s, {name}n : index",
            f"{name}z = shard.send {value.name} {on} destination = [{name}u] "
            f": ({type_}, index) -> {type_}",
            f"{name} = shard.recv {value.name} {on} source = [{name}v] "
            f": ({type_}, index) -> {type_}",
        ]
    blocks = program.blocks(value, count)
    plain = program.joined([blocks[(at - by) % count] for at in range(count)])
    program.add(name, plain, value.split)


def _all(program: _Written) -> None:
    """Of all devices: gathered, sliced, exchanged."""
    value, dim = program.pick(), program.draw.randrange(2)
    axis, free = _along(program, value, dim), program.free(value)
    if axis is None:
        if free and not value.split[dim]:
            split = _moved(value.split, dim, (free[0],))
            on = f"on @g grid_axes = [{free[0]}]"
            text = f"shard.all_slice {value.name} {on} slice_axis = {dim}"
            program.collective(value, text, split)
        return
    on = f"on @g grid_axes = [{axis}]"
    if chance(program.draw, 0.5) or value.split[1 - dim]:
        text = f"shard.all_gather {value.name} {on} gather_axis = {dim}"
        program.collective(value, text, _moved(value.split, dim, ()))
    else:
        text = f"shard.all_to_all {value.name} {on} split_axis = {1 - dim} concat_axis = {dim}"
        program.collective(value, text, (value.split[1], value.split[0]))


_DISTRIBUTED: tuple[Callable[[_Written], object], ...] = (
    *(_elementwise, _elementwise, _gathered, _split, _cancelled, _unused, _exchanged, _masked),
    *(_reduced, _product, _product, _permuted),
)
_LOCAL: tuple[Callable[[_Written], object], ...] = (
    *(_elementwise, _elementwise, _to_root_and_back, _to_root_and_back, _scattered, _ring, _all),
)


def collective_program(draw: Random) -> tuple[str, str]:
    """A module with a function `main`, and the same without collectives."""
    program = _Written(draw, draw.choice(_GRIDS), is_local=chance(draw, 0.5))
    heads, plain_heads = [], []
    for number in range(draw.randint(1, 3)):
        split: list[_Axes] = [(), ()]
        for axis in range(len(program.grid)):
            dim = draw.randrange(-1, 2)
            if dim >= 0 and not (split[dim] and (program.is_local or len(program.grid) == 3)):
                split[dim] += (axis,)
        value = program.add(f"%a{number}", f"%a{number}", (split[0], split[1]))
        type_ = program.type_of(value)
        said = f" {{mesh.argument = {_distributed(value.split)}}}" if program.is_local else ""
        heads.append(f"{value.name}: {type_}{said}")
        plain_heads.append(f"{value.name}: {_PLAIN}")
    whole = "tensor<1xi32>"
    said = f" {{mesh.argument = {whole}}}" if program.is_local else ""
    heads.append(f"%p: {whole}{said}")
    plain_heads.append(f"%p: {whole}")
    for _ in range(draw.randint(3, 10)):
        program.step()
    while program.values[-1].partial:
        _reduced(program)
    returned = [each for each in program.values if not each.partial][-draw.randint(1, 2) :]
    results = [
        program.type_of(each) + f" {{mesh.result = {_distributed(each.split)}}}" * program.is_local
        for each in returned
    ]
    types = ", ".join(map(program.type_of, returned))
    place = [
        "%zero = arith.constant 0 : index",
        f"%at = tensor.extract %p[%zero] : {whole}",
        "%place = arith.index_castui %at : i32 to index",
    ]
    form = ' attributes {mesh.form = "local"}' * program.is_local
    sizes = list(program.grid)
    module = [
        f"shard.grid @g(shape = {'x'.join(map(str, sizes))})"
        if program.is_local
        else f'"mesh.cluster"() {{sym_name = "g", rank = {len(sizes)} : i64, '
        f"dim_sizes = {sizes}}} : () -> ()",
        f"func.func @main({', '.join(heads)}) -> ({', '.join(results)}){form} {{",
        *(place if program.is_local else ()),
        *program.lines,
        f"return {', '.join(each.name for each in returned)} : {types}",
        "}",
    ]
    types = ", ".join([_PLAIN] * len(returned))
    plain = [
        f"func.func @main({', '.join(plain_heads)}) -> ({types}) {{",
        *program.plain,
        f"return {', '.join(each.plain for each in returned)} : {types}",
        "}",
    ]
    return "\n".join(module) + "\n", "\n".join(plain) + "\n"
