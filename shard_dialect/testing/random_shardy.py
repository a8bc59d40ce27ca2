"""Random programs in Shardy's vocabulary, each with the same program without shardings.

Several meshes of one set of devices, maximal and smaller ones; the collectives and constraints that
Shardy's passes print; manual computations, whose unsharded meaning their text does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from random import Random

from shard_dialect.errors import as_symbol
from shard_dialect.testing.random_draws import chance

ELEMENTWISE = ("add", "subtract", "multiply", "maximum")
SHARDY = frozenset(
    f"stablehlo.{name}"
    for name in (*ELEMENTWISE, "dot_general", "reduce", "sine", "slice", "tanh", "transpose")
)
"""The ops of these programs, besides calls."""
_Axes = tuple[str, ...]
_MESHES: tuple[dict[str, int], ...] = (
    *({"x": 2}, {"x": 4}, {"x": 2, "y": 2}, {"x": 2, "y": 4}, {"x": 3, "y": 2}),
    {"x": 2, "y": 2, "z": 2},
)
_SMALLER: tuple[dict[str, int], ...] = ({"s": 2}, {"s": 2}, {"s": 3}, {"s": 2, "t": 2}, {"s": 4})
_SIZES = (24, 24, 48, 10, 7)
_TRIES = 4
"""The most draws of axes for a manual computation, whose devices must divide each shard again."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A tensor of the program; `plain` is its name in the unsharded one."""

    name: str
    plain: str
    shape: tuple[int, ...]
    split: tuple[_Axes, ...] | None = None
    """The axes that split each dimension on the first mesh, where they were just annotated."""

    @property
    def type(self) -> str:
        return _type(self.shape)


def _type(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, 'f32')))}>"


def _axes(axes: Sequence[str]) -> str:
    return ", ".join(f'"{axis}"' for axis in axes)


def _lists(split: Sequence[_Axes]) -> str:
    return f"[{', '.join(f'{{{_axes(each)}}}' for each in split)}]"


@dataclass
class _Shardy:
    """A function under construction."""

    draw: Random
    axes: Mapping[str, int]
    """Those of the first mesh, `@m`."""
    others: Mapping[str, Mapping[str, int]]
    """The axes of other meshes by their names; none for a maximal mesh."""
    size: int
    reordered: Sequence[str]
    """The meshes whose devices have another order."""
    lines: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    arguments: list[_Value] = field(default_factory=list)
    values: list[_Value] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pick(self, rank: int | None = None) -> _Value:
        """A value, one of the latest in most cases; of this rank."""
        values = [each for each in self.values if rank in (None, len(each.shape))]
        return self.draw.choice(values[-4:] if chance(self.draw, 0.7) else values)

    def op(self, text: str, operands: Sequence[_Value], shape: tuple[int, ...]) -> _Value:
        """Add an op to both programs: `text` with its operands' names."""
        name = self.fresh()
        self.lines.append(f"{name} = {text.format(*(each.name for each in operands))}")
        self.plain.append(f"{name} = {text.format(*(each.plain for each in operands))}")
        self.values.append(_Value(name, name, shape))
        return self.values[-1]

    def said(
        self, op: str, value: _Value, attributes: str, split: tuple[_Axes, ...] | None = None
    ) -> _Value:
        """Add an op of Shardy's, which the unsharded program does not have."""
        name = self.fresh()
        self.lines.append(
            f'{name} = "sdy.{op}"({value.name}) <{{{attributes}}}> : ({value.type}) -> {value.type}'
        )
        self.values.append(replace(value, name=name, split=split))
        return self.values[-1]

    # Shardings

    def split(self, rank: int, free: Sequence[str] = ()) -> tuple[_Axes, ...]:
        """Some of the first mesh's axes, other than `free`, split some dimensions."""
        found: list[_Axes] = [()] * rank
        for axis in self.draw.sample(sorted(self.axes), len(self.axes)):
            dim = self.draw.randrange(-1, rank)
            if dim >= 0 and axis not in free:
                found[dim] += (axis,)
        return tuple(found)

    def sharding(self, rank: int, *, closed: bool = False) -> str:
        """A sharding on one of the meshes, as `@m, [...]`; `closed`: without `?`, on the first."""
        name = "m" if closed or chance(self.draw, 0.7) else self.draw.choice([*self.others, "m"])
        axes = self.axes if name == "m" else self.others[name]
        if not axes:
            return f"{as_symbol(name)}, []"
        unused, dims = self.draw.sample(sorted(axes), len(axes)), []
        for _ in range(rank):
            taken = [unused.pop() for _ in range(self.draw.randint(0, len(unused)))]
            texts = [self.reference(each, axes[each]) for each in taken]
            is_open = not closed and chance(self.draw, 0.3)
            priority = (
                f"p{self.draw.randint(0, 2)}"
                if not closed and texts and chance(self.draw, 0.1)
                else ""
            )
            dims.append(f"{{{', '.join([*texts, *['?'] * is_open])}}}{priority}")
        rest = (
            f", replicated={{{_axes(sorted(unused[:1]))}}}"
            if unused and chance(self.draw, 0.2)
            else ""
        )
        return f"{as_symbol(name)}, [{', '.join(dims)}]{rest}"

    def reference(self, axis: str, size: int) -> str:
        """An axis, or a half of one of four."""
        half = size == 4 and chance(self.draw, 0.2)
        return f'"{axis}":({self.draw.choice((1, 2))})2' if half else f'"{axis}"'

    def out(self, split: Sequence[_Axes], more: str = "") -> str:
        return f"out_sharding = #sdy.sharding<@m, {_lists(split)}{more}>"

    def settled(self, value: _Value) -> _Value:
        """The value with a known sharding on the first mesh."""
        if value.split is not None:
            return value
        split = self.split(len(value.shape))
        return self.said("reshard", value, f"sharding = #sdy.sharding<@m, {_lists(split)}>", split)

    def step(self) -> None:
        self.draw.choice(_STEPS)(self)


def _elementwise(program: _Shardy) -> None:
    a = program.pick()
    b = program.pick(len(a.shape))
    name = program.draw.choice((*ELEMENTWISE, "tanh", "sine"))
    if name in ELEMENTWISE:
        program.op(f"stablehlo.{name} {{}}, {{}} : {a.type}", [a, b], a.shape)
    else:
        program.op(f"stablehlo.{name} {{}} : {a.type}", [a], a.shape)


def _dot(program: _Shardy) -> None:
    a, b = program.pick(2), program.pick()
    _tanh(program, _product(program, a, b))


def _product(program: _Shardy, a: _Value, b: _Value) -> _Value:
    types = f"({a.type}, {b.type}) -> {_type(b.shape)}"
    text = f"stablehlo.dot_general {{}}, {{}}, contracting_dims = [1] x [0] : {types}"
    return program.op(text, [a, b], b.shape)


def _tanh(program: _Shardy, value: _Value) -> _Value:
    return program.op(f"stablehlo.tanh {{}} : {value.type}", [value], value.shape)


def _transpose(program: _Shardy) -> None:
    a = program.pick(2)
    program.op(f"stablehlo.transpose {{}}, dims = [1, 0] : ({a.type}) -> {a.type}", [a], a.shape)


def _reduce(program: _Shardy) -> None:
    a, dim = program.pick(2), program.draw.randrange(2)
    program.op(
        f"stablehlo.reduce({{}} init: %zero) applies stablehlo.add across dimensions = [{dim}] "
        f": ({a.type}, tensor<f32>) -> {_type(a.shape[:1])}",
        [a],
        a.shape[:1],
    )


def _constraint(program: _Shardy) -> None:
    value = program.pick()
    op = program.draw.choice(("sharding_constraint", "reshard"))
    sharding = program.sharding(len(value.shape))
    program.said(op, value, f"sharding = #sdy.sharding<{sharding}>")


def _barrier(program: _Shardy) -> None:
    direction = program.draw.choice((0, 1, 2))
    program.said("propagation_barrier", program.pick(), f"allowed_direction = {direction} : i32")


def _edge(program: _Shardy) -> None:
    """What Shardy's propagation puts at the ends of regions: the value itself, with a sharding."""
    value = program.pick()  # an op between: what is annotated already would have to agree
    value = _tanh(program, value)
    sharding = f"sharding = #sdy.sharding<{program.sharding(len(value.shape))}>"
    program.said("data_flow_edge", value, sharding)


def _constant(program: _Shardy) -> None:
    """A constant in Shardy's form, which an op reads."""
    value, name = program.pick(), program.fresh()
    number = f"dense<{program.draw.randint(-8, 8) / 4}> : {value.type}"
    program.lines.append(f'{name} = "sdy.constant"() <{{value = {number}}}> : () -> {value.type}')
    program.plain.append(f"{name} = stablehlo.constant {number}")
    constant = _Value(name, name, value.shape)
    program.op(f"stablehlo.add {{}}, {{}} : {value.type}", [value, constant], value.shape)


def _group(program: _Shardy) -> None:
    rank = program.draw.choice((1, 2))
    for value in (program.pick(rank), program.pick(rank)):
        program.lines.append(
            f'"sdy.sharding_group"({value.name}) <{{group_id = {rank} : i64}}> '
            f": ({value.type}) -> ()"
        )


def _gathered(program: _Shardy) -> None:
    """`all_gather` of the minor axes of each dimension."""
    value = program.settled(program.pick())
    kept = [each[: program.draw.randint(0, len(each))] for each in value.split or ()]
    taken = [each[len(left) :] for each, left in zip(value.split or (), kept, strict=True)]
    if any(taken):
        axes = f"gathering_axes = #sdy<list_of_axis_ref_lists{_lists(taken)}>"
        program.said("all_gather", value, f"{axes}, {program.out(kept)}", tuple(kept))


def _sliced(program: _Shardy) -> None:
    """`all_slice` by axes that do not split the value yet."""
    value = program.settled(program.pick())
    split = value.split or ()
    more = program.split(len(split), free=[axis for each in split for axis in each])
    if any(more):
        after = tuple(a + b for a, b in zip(split, more, strict=True))
        axes = f"slicing_axes = #sdy<list_of_axis_ref_lists{_lists(more)}>"
        program.said("all_slice", value, f"{axes}, {program.out(after)}", after)


def _exchanged(program: _Shardy) -> None:
    """`all_to_all` of the minor axes of one dimension, which split the other after it."""
    value = program.settled(program.pick(2))
    source = program.draw.randrange(2)
    after = list(value.split or ())
    if not after[source]:
        return
    at = program.draw.randrange(len(after[source]))
    after[source], moved = after[source][:at], after[source][at:]
    after[1 - source] += moved
    params = f"params = #sdy<all_to_all_param_list[{{{_axes(moved)}}}: {source}->{1 - source}]>"
    program.said("all_to_all", value, f"{params}, {program.out(after)}", tuple(after))


def _permuted(program: _Shardy) -> None:
    """`collective_permute`: axes of equal size change places."""
    value = program.settled(program.pick())
    names = {each: each for each in program.axes}
    for size in {*program.axes.values()}:
        alike = [name for name in program.axes if program.axes[name] == size]
        names |= dict(zip(alike, program.draw.sample(alike, len(alike)), strict=True))
    after = tuple(tuple(names[axis] for axis in each) for each in value.split or ())
    program.said("collective_permute", value, program.out(after), after)


def _reduced(program: _Shardy) -> None:
    """A product of operands that axes split along its sum, and the reduction of its parts."""
    a, b = program.pick(2), program.pick(2)
    axes = tuple(
        program.draw.sample(sorted(program.axes), program.draw.randint(1, len(program.axes)))
    )
    left, right = (
        program.said("reshard", each, f"sharding = #sdy.sharding<@m, {_lists(split)}>")
        for each, split in ((a, ((), axes)), (b, (axes, ())))
    )
    made = _product(program, left, right)
    if chance(program.draw, 0.5):
        attributes = f"reduction_axes = #sdy<axis_ref_list{{{_axes(axes)}}}>"
        split: tuple[_Axes, ...] = ((), ())
        made = program.said("all_reduce", made, f"{attributes}, {program.out(split)}", split)
    else:
        split = program.draw.choice(((axes, ()), ((), axes)))
        attributes = f"reduce_scatter_axes = #sdy<list_of_axis_ref_lists{_lists(split)}>"
        made = program.said("reduce_scatter", made, f"{attributes}, {program.out(split)}", split)
    _tanh(program, made)


def _unreduced(program: _Shardy) -> None:
    """Axes that replicated or split a value hold parts of it after this."""
    value = program.settled(program.pick())
    split, used = value.split or (), [axis for each in value.split or () for axis in each]
    free = [axis for axis in program.axes if axis not in used]
    if free and chance(program.draw, 0.5):
        axis = program.draw.choice(free)
        axes = f"axes = #sdy<axis_ref_list{{{_axes([axis])}}}>"
        more = f", unreduced={{{_axes([axis])}}}"
        program.said("replicated_to_unreduced", value, f"{axes}, {program.out(split, more)}")
    elif used:
        taken = [each[-1:] for each in split]
        kept = [each[:-1] for each in split]
        axes = f"axes = #sdy<list_of_axis_ref_lists{_lists(taken)}>"
        more = f", unreduced={{{_axes(sorted(axis for each in taken for axis in each))}}}"
        program.said("sharded_to_unreduced", value, f"{axes}, {program.out(kept, more)}")


def _called(program: _Shardy) -> None:
    """A call of a function whose boundary may be annotated."""
    value, number = program.pick(), len(program.functions)
    argument, result = (
        f" {{sdy.sharding = #sdy.sharding<{program.sharding(len(value.shape))}>}}"
        if chance(program.draw, 0.4)
        else ""
        for _ in range(2)
    )
    program.functions.append(
        f"func.func private @f{number}(%x: {value.type}{argument}) -> ({value.type}{result}) {{\n"
        f"  %0 = stablehlo.sine %x : {value.type}\n  return %0 : {value.type}\n}}"
    )
    name = program.fresh()
    program.lines.append(f"{name} = call @f{number}({value.name}) : ({value.type}) -> {value.type}")
    program.plain.append(f"{name} = stablehlo.sine {value.plain} : {value.type}")
    program.values.append(_Value(name, name, value.shape))


def _named(program: _Shardy) -> None:
    value = program.pick()
    inside, outside = (
        f"{each}_shardings = #sdy.sharding_per_value<[<{program.sharding(len(value.shape))}>]>"
        for each in ("in", "out")
    )
    name = program.fresh()
    program.lines.append(
        f'{name} = "sdy.named_computation"({value.name}) <{{{inside}, name = "f", '
        f"{outside}}}> ({{\n"
        f"^bb0(%x: {value.type}):\n  {name}i = stablehlo.tanh %x : {value.type}\n"
        f'  "sdy.return"({name}i) : ({value.type}) -> ()\n}}) : ({value.type}) -> {value.type}'
    )
    program.plain.append(f"{name} = stablehlo.tanh {value.plain} : {value.type}")
    program.values.append(_Value(name, name, value.shape))


@dataclass(frozen=True, slots=True)
class _Manual:
    """What a manual computation is on: some axes of a mesh."""

    mesh: str
    sizes: Mapping[str, int]
    """The size of each axis of the mesh."""
    axes: _Axes

    @property
    def count(self) -> int:
        return prod(self.sizes[axis] for axis in self.axes)

    def groups(self) -> list[list[int]]:
        """The devices that differ in these axes alone, in the order of the axes."""
        names = list(self.sizes)
        around = [range(1 if name in self.axes else size) for name, size in self.sizes.items()]

        def number(at: Mapping[str, int]) -> int:
            result = 0
            for name, size in self.sizes.items():
                result = result * size + at[name]
            return result

        return [
            [
                number(
                    dict(zip(names, outer, strict=True)) | dict(zip(self.axes, inner, strict=True))
                )
                for inner in product(*(range(self.sizes[axis]) for axis in self.axes))
            ]
            for outer in product(*around)
        ]

    def replica_groups(self) -> str:
        groups = self.groups()
        return f"replica_groups = dense<{groups}> : tensor<{len(groups)}x{len(groups[0])}xi64>"


def _manual(program: _Shardy) -> None:
    """A manual computation with a collective along some axes."""
    meshes = {"m": program.axes} | {name: each for name, each in program.others.items() if each}
    for _ in range(_TRIES):
        name = "m" if chance(program.draw, 0.6) else program.draw.choice(sorted(meshes))
        sizes = meshes[name]
        axes = tuple(program.draw.sample(sorted(sizes), program.draw.randint(1, len(sizes))))
        manual = _Manual(name, sizes, axes)
        if name not in program.reordered and program.size % manual.count**2 == 0:
            program.draw.choice(_BODIES)(program, manual)
            return


def _in_manual(
    program: _Shardy,
    manual: _Manual,
    operands: Sequence[_Value],
    splits: Sequence[tuple[_Axes, ...]],
    body: Sequence[str],
    local: tuple[int, ...],
    out: tuple[_Axes, ...],
) -> str:
    """Add a manual computation; its operands are `%a0`, `%a1` inside, its result `%r`."""
    name = program.fresh()
    shape = operands[0].shape

    def local_type(value: _Value, split: tuple[_Axes, ...]) -> str:
        counts = [prod(manual.sizes[axis] for axis in each) for each in split]
        return _type([size // count for size, count in zip(value.shape, counts, strict=True)])

    shown = [
        f"%a{number}: {local_type(value, split)}"
        for number, (value, split) in enumerate(zip(operands, splits, strict=True))
    ]
    ins = ", ".join(f"<{as_symbol(manual.mesh)}, {_lists(each)}>" for each in splits)
    inside = "\n".join(body).replace("%", f"{name}_").replace(f"{name}_zero", "%zero")
    heads = ", ".join(shown).replace("%", f"{name}_")
    program.lines.append(
        f'{name} = "sdy.manual_computation"({", ".join(each.name for each in operands)}) <{{'
        f"in_shardings = #sdy.sharding_per_value<[{ins}]>, manual_axes = #sdy<manual_axes{{"
        f"{_axes([each for each in manual.sizes if each in manual.axes])}}}>, out_shardings = "
        f"#sdy.sharding_per_value<[<{as_symbol(manual.mesh)}, {_lists(out)}>]>}}> ({{\n"
        f"^bb0({heads}):\n{inside}\n"
        f'"sdy.return"({name}_r) : ({_type(local)}) -> ()\n}}) : '
        f"({', '.join(each.type for each in operands)}) -> {_type(shape)}"
    )
    return name


_CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
_SUM = (
    "({\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n%s = stablehlo.add %p, %q : tensor<f32>\n"
    "stablehlo.return %s : tensor<f32>\n})"
)


def _ring(program: _Shardy, manual: _Manual) -> None:
    """Each device passes its rows on: the unsharded rows are rolled by a shard."""
    axes, count = manual.axes, manual.count
    a, by = program.pick(2), program.draw.randrange(1, count)
    shard = program.size // count
    local = _type((shard, program.size))
    pairs = [
        [group[at], group[(at + by) % count]] for group in manual.groups() for at in range(count)
    ]
    body = [
        f"%t = stablehlo.sine %a0 : {local}",
        f'%r = "stablehlo.collective_permute"(%t) <{{{_CHANNEL}, source_target_pairs = '
        f"dense<{pairs}> : tensor<{len(pairs)}x2xi64>}}> : ({local}) -> {local}",
    ]
    split = (axes, ())
    name = _in_manual(program, manual, [a], [split], body, (shard, program.size), split)
    at = program.size - by * shard
    first, rest = _type((program.size - at, program.size)), _type((at, program.size))
    program.plain += [
        f"{name}a = stablehlo.sine {a.plain} : {a.type}",
        f"{name}b = stablehlo.slice {name}a [{at}:{program.size}, 0:{program.size}] "
        f": ({a.type}) -> {first}",
        f"{name}c = stablehlo.slice {name}a [0:{at}, 0:{program.size}] : ({a.type}) -> {rest}",
        f"{name} = stablehlo.concatenate {name}b, {name}c, dim = 0 : ({first}, {rest}) -> {a.type}",
    ]
    program.values.append(_Value(name, name, a.shape))


def _summed(program: _Shardy, manual: _Manual) -> None:
    """Products of shards, added up on all devices or scattered over the rows."""
    a, b, size = program.pick(2), program.pick(2), program.size
    axes, count = manual.axes, manual.count
    left, right, whole = _type((size, size // count)), _type((size // count, size)), a.type
    is_scattered = chance(program.draw, 0.5)
    local = (size // count if is_scattered else size, size)
    op = "reduce_scatter" if is_scattered else "all_reduce"
    dim = ", scatter_dimension = 0 : i64" if is_scattered else ""
    body = [
        f"%t = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] "
        f": ({left}, {right}) -> {whole}",
        f'%o = "stablehlo.{op}"(%t) <{{{_CHANNEL}, {manual.replica_groups()}{dim}, '
        f"use_global_device_ids}}> {_SUM} : ({whole}) -> {_type(local)}",
        f"%r = stablehlo.tanh %o : {_type(local)}",
    ]
    out = (axes if is_scattered else (), ())
    name = _in_manual(program, manual, [a, b], [((), axes), (axes, ())], body, local, out)
    program.plain += [
        f"{name}a = stablehlo.dot_general {a.plain}, {b.plain}, contracting_dims = [1] x [0] "
        f": ({whole}, {whole}) -> {whole}",
        f"{name} = stablehlo.tanh {name}a : {whole}",
    ]
    program.values.append(_Value(name, name, a.shape))


def _turned(program: _Shardy, manual: _Manual) -> None:
    """Rows are split before, columns after; or all is gathered."""
    a, size, axes, count = program.pick(2), program.size, manual.axes, manual.count
    local = _type((size // count, size))
    groups = manual.replica_groups()
    if chance(program.draw, 0.5):
        shape, out = (size, size // count), ((), axes)
        text = (
            f'"stablehlo.all_to_all"(%t) <{{{_CHANNEL}, concat_dimension = 0 : i64, {groups}, '
            f"split_count = {count} : i64, split_dimension = 1 : i64}}>"
        )
    else:
        shape, out = (size, size), ((), ())
        text = (
            f'"stablehlo.all_gather"(%t) <{{all_gather_dim = 0 : i64, {_CHANNEL}, {groups}, '
            "use_global_device_ids}>"
        )
    body = [
        f"%t = stablehlo.sine %a0 : {local}",
        f"%r = {text} : ({local}) -> {_type(shape)}",
    ]
    name = _in_manual(program, manual, [a], [(axes, ())], body, shape, out)
    program.plain.append(f"{name} = stablehlo.sine {a.plain} : {a.type}")
    program.values.append(_Value(name, name, a.shape))


_BODIES = (_ring, _summed, _turned)
_STEPS: tuple[Callable[[_Shardy], None], ...] = (
    *(_elementwise, _elementwise, _elementwise, _dot, _transpose, _reduce, _constraint),
    *(_constraint, _constraint, _barrier, _edge, _constant, _group, _gathered, _sliced),
    *(_exchanged, _permuted),
    *(_reduced, _unreduced, _called, _named, _manual, _manual),
)


def _other_meshes(draw: Random, devices: int) -> dict[str, tuple[dict[str, int], list[int]]]:
    """Axes and the order of devices of other meshes: of the same devices, fewer, or one."""
    meshes: dict[str, tuple[dict[str, int], list[int]]] = {}
    if chance(draw, 0.3):
        order = draw.sample(range(devices), devices) if chance(draw, 0.3) else []
        meshes["flat"] = ({"d": devices}, order)
    if chance(draw, 0.4):
        for device in draw.sample(range(devices), draw.randint(1, 2)):
            meshes[f"one{device}"] = ({}, [device])
    smaller = [each for each in _SMALLER if prod(each.values()) < devices]
    if smaller and chance(draw, 0.25):
        meshes["small"] = (draw.choice(smaller), [])
    return meshes


def shardy_program(draw: Random) -> tuple[str, str]:
    """A module with a function `main`, and the same without Shardy's ops and attributes."""
    axes = draw.choice(_MESHES)
    devices = prod(axes.values())
    others = _other_meshes(draw, devices)
    order = draw.sample(range(devices), devices) if chance(draw, 0.15) else []
    reordered = [*["m"] * bool(order), *(name for name, (_, ids) in others.items() if ids)]
    sizes = {name: each for name, (each, _) in others.items()}
    program = _Shardy(draw, axes, sizes, draw.choice(_SIZES), reordered)
    heads, plain_heads = [], []
    for number in range(draw.randint(2, 4)):
        value = _Value(f"%a{number}", f"%a{number}", (program.size,) * (2 if number < 2 else 1))
        program.values.append(value)
        has = chance(draw, 0.6)
        text = (
            f" {{sdy.sharding = #sdy.sharding<{program.sharding(len(value.shape))}>}}"
            if has
            else ""
        )
        heads.append(f"{value.name}: {value.type}{text}")
        plain_heads.append(f"{value.name}: {value.type}")
    if program.values[-1].shape != (program.size,):
        heads.append(f"%b: {_type([program.size])}")
        plain_heads.append(heads[-1])
        program.values.append(_Value("%b", "%b", (program.size,)))
    for _ in range(draw.randint(2, 9)):
        program.step()
    returned = program.values[-draw.randint(1, 3) :]
    results = [
        each.type
        + (
            f" {{sdy.sharding = #sdy.sharding<{program.sharding(len(each.shape))}>}}"
            * chance(draw, 0.4)
        )
        for each in returned
    ]
    zero = "%zero = stablehlo.constant dense<0.0> : tensor<f32>"
    types = ", ".join(each.type for each in returned)

    def mesh(name: str, axes: Mapping[str, int], order: Sequence[int]) -> str:
        sizes = ", ".join(f'"{axis}"={size}' for axis, size in axes.items())
        ids = f", device_ids={list(order)}" if order else ""
        return (
            f'"sdy.mesh"() <{{mesh = #sdy.mesh<[{sizes}]{ids}>, sym_name = "{name}"}}> : () -> ()'
        )

    module = [
        mesh("m", axes, order),
        *(mesh(name, each, ids) for name, (each, ids) in others.items()),
        f"func.func @main({', '.join(heads)}) -> ({', '.join(results)}) {{",
        zero,
        *program.lines,
        f"return {', '.join(each.name for each in returned)} : {types}",
        "}",
        *program.functions,
    ]
    plain = [
        f"func.func @main({', '.join(plain_heads)}) -> ({types}) {{",
        zero,
        *program.plain,
        f"return {', '.join(each.plain for each in returned)} : {types}",
        "}",
    ]
    return "\n".join(module) + "\n", "\n".join(plain) + "\n"
