"""A module as plain values: all that the prover reads of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from shard_dialect.errors import choose_function
from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.diagnostics import error_at, location_text, name_in
from shard_dialect.proof.tiles import listed_shardings

_LARGEST = {"f64": 1.7976931348623157e308, "f16": 65504.0, "bf16": 3.3895313892515355e38}
_LARGEST_F32 = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a tensor, or of a scalar, which has no `shape`; a size that is open is -1.

    `kind` is `float`, `complex`, `signed`, `unsigned`, `index`, or `other` for what is no number.
    An `i1` is signed here, and its values are 0 and 1.
    """

    text: str
    shape: tuple[int, ...] = ()
    kind: str = "other"
    width: int = 0
    largest: float = 0.0
    """The largest finite float."""
    sharding: Any = None
    """The attribute of a tensor type's encoding."""

    @property
    def is_float(self) -> bool:
        """Whether values are elements of the field."""
        return self.kind in ("float", "complex")

    @property
    def is_integer(self) -> bool:
        """Whether values are integers."""
        return self.kind in ("signed", "unsigned", "index")

    @property
    def is_bit(self) -> bool:
        """Whether values are 0 or 1."""
        return self.width == 1


@dataclass(frozen=True)
class Op:
    """An op: `operands` and `results` are numbers of values, `attributes` as `_plain` has them.

    `maps` are the indexing maps of an op of linalg that has loops.
    """

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    operand_types: tuple[Type, ...]
    types: tuple[Type, ...]
    attributes: Mapping[str, Any]
    maps: tuple[Map, ...]
    regions: tuple[Block, ...]
    location: ir.Location

    @property
    def type(self) -> Type:
        """The type of its one result."""
        return self.types[0]

    @property
    def body(self) -> Block:
        """The block of its first region."""
        return self.regions[0]

    @property
    def place(self) -> str:
        """Where it stands in its file, as in errors."""
        with self.location.context:
            return location_text(self.location) or ""

    @cached_property
    def meaning(self) -> str:
        """What determines what it does, but for its operands, types and regions, as text."""
        own = sorted(
            (name, value)
            for name, value in self.attributes.items()
            if name == "mhlo.backend_config" or not ("." in name or name in _NO_MEANING)
            if not _is_default(name, value)
        )
        return f"{self.name} {own}"

    @cached_property
    def function(self) -> str:
        """What determines which function of elements it is: its meaning, and the kinds of these.

        Floats of all widths are one, but for their bits.
        """
        counts = "bitcast" in self.name
        kinds = [
            (each.kind, each.width if counts or each.is_integer else 0)
            for each in (*self.operand_types, *self.types)
        ]
        return f"{self.meaning} {kinds}"


def _is_default(name: str, value: Any) -> bool:
    """Whether an attribute may as well be left out, as printers do."""
    return (name, value) == ("api_version", 1) or (
        isinstance(value, tuple | bool | str) and not value
    )


_NO_MEANING = ("sharding", "precision_config", "fastmath", "result_accuracy")


@dataclass(frozen=True, slots=True)
class Block:
    """The ops of a region's one block, and its arguments."""

    arguments: tuple[int, ...]
    types: tuple[Type, ...]
    ops: tuple[Op, ...]

    def walk(self) -> Iterator[Op]:
        """All ops, each before those in its regions."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()


@dataclass(frozen=True, slots=True)
class Function:
    """A function; attributes of arguments and results are the bindings' own."""

    name: str
    body: Block
    argument_attributes: Sequence[Mapping[str, ir.Attribute]]
    result_attributes: Sequence[Mapping[str, ir.Attribute]]
    result_types: Sequence[Type]
    argument_names: Sequence[str]
    is_private: bool
    form: str
    location: ir.Location


@dataclass(frozen=True, slots=True)
class Grid:
    """The sizes of a grid's axes, and the numbers of its devices by their place in row-major order.

    Devices of all grids with one number are one device.
    """

    shape: tuple[int, ...]
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A box of a grid."""

    grid: str
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


_SOME = 16
"""Numbers of an array that are among those by which a program may choose."""


@dataclass(frozen=True, slots=True)
class Program:
    """A module: its functions, its grids, and the parts of these."""

    functions: Mapping[str, Function]
    grids: Mapping[str, Grid]
    parts: Mapping[str, Part]
    axis_names: Mapping[str, tuple[str, ...]]
    """The names of a mesh's axes, for meshes of Shardy."""

    def entry(self, name: str | None = None) -> Function:
        """The function to judge: the one named so, `main`, or the only public one."""
        public = [key for key, each in self.functions.items() if not each.is_private]
        return self.functions[choose_function(name, public, list(self.functions))]

    def ops(self) -> Iterator[Op]:
        """All ops of all functions."""
        for each in self.functions.values():
            yield from each.body.walk()

    def names(self) -> set[str]:
        """The names of all ops."""
        return {op.name for op in self.ops()}

    def constants(self) -> set[float]:
        """Finite numbers that ops have as attributes, a few of each array."""
        found = set[float]()
        for op in self.ops():
            array = np.asarray(op.attributes.get("value", op.attributes.get("values")))
            if array.dtype.kind in "iuf":
                some = array.reshape(-1)[:_SOME].astype(np.float64)
                found.update(some[np.isfinite(some)].tolist())
        return found

    @property
    def grid(self) -> Grid:
        """The grid with most devices, of these with most axes; one device without a grid."""
        return max(
            self.grids.values(),
            key=lambda grid: (prod(grid.shape), len(grid.shape)),
            default=Grid((), (0,)),
        )

    def numbered(self) -> dict[str, Grid]:
        """A grid of one axis that has the devices of the largest grid by their numbers."""
        count = len(self.grid.devices)
        return {"": Grid((count,), tuple(range(count)))} if count > 1 else {}


def read_program(module: ir.Module) -> Program:
    """Read all of a module. Raises a located `ShardError` for what has no plain form."""
    with module.context:
        return _read(module)


def _read(module: ir.Module) -> Program:
    functions, grids, parts, names = {}, {}, {}, {}
    resources = _Resources(module)
    for view in module.body.operations:
        op = view.operation
        if op.name == "func.func" and len(op.regions[0].blocks) > 0:
            function = _Reader(resources).function(op)
            functions[function.name] = function
        elif op.name in ("shard.grid", "mesh.cluster", "sdy.mesh"):
            grids[op.attributes["sym_name"].value] = _grid(op)
            text = str(op.attributes["mesh"]) if op.name == "sdy.mesh" else ""
            axes = tuple(re.findall(r'"([^"]*)"\s*=', text))
            names[op.attributes["sym_name"].value] = axes
        elif op.name == "mesh.sub_cluster":
            values = (_plain(op.attributes[key]) for key in ("cluster", "offsets", "sizes"))
            parts[op.attributes["sym_name"].value] = Part(*values)
    attributes = module.operation.attributes
    if _XLA_ARGUMENTS in attributes and "main" in functions:
        functions["main"] = _with_tiles(functions["main"], attributes)
    return Program(functions, grids, parts, names)


_XLA_ARGUMENTS, _XLA_RESULTS = "mhlo.spmd_parameters_shardings", "mhlo.spmd_output_sharding"
"""What XLA notes at a module that it has partitioned."""


def _with_tiles(function: Function, attributes: Any) -> Function:
    """A function that XLA has partitioned: its boundary is noted at the module."""
    given = [each.value for each in attributes[_XLA_ARGUMENTS]]
    made = attributes[_XLA_RESULTS].value if _XLA_RESULTS in attributes else "{replicated}"
    results = listed_shardings(made, len(function.result_types))
    return replace(
        function,
        form="local",
        argument_attributes=[{"tiles": ir.StringAttr.get(text)} for text in given],
        result_attributes=[{"tiles": ir.StringAttr.get(text)} for text in results],
    )


def _grid(op: ir.Operation) -> Grid:
    if op.name == "sdy.mesh":
        text = str(op.attributes["mesh"])
        shape = tuple(map(int, re.findall(r'"[^"]*"\s*=\s*(\d+)', text)))
        listed = re.search(r"device_ids\s*=\s*\[([\d, ]*)\]", text)
        devices = tuple(map(int, listed[1].split(","))) if listed and listed[1] else ()
    else:
        key = "shape" if op.name == "shard.grid" else "dim_sizes"
        shape = tuple(_plain(op.attributes[key])) if key in op.attributes else ()
        listed = op.attributes.get("device_ids")
        devices = tuple(_plain(listed)) if listed is not None else ()
    return Grid(shape, devices or tuple(range(prod(size for size in shape if size > 0))))


@dataclass
class _Resources:
    """The elements that the text has at its end, under names that another parse may change."""

    module: ir.Module

    @cached_property
    def elements(self) -> dict[str, str]:
        """For each name a digest of the elements, which the bindings do not give."""
        text = self.module.operation.get_asm()
        found = _RESOURCE.findall(text, text.rfind("{-#"))
        return {name: sha256(digits.encode()).hexdigest() for name, digits in found}

    def named(self, attribute: ir.Attribute) -> str:
        """What stands for the elements of a resource: their digest, and their type."""
        name, _, type_ = str(attribute).removeprefix("dense_resource<").partition("> : ")
        return f"{self.elements.get(name, name)} : {type_}"


_RESOURCE = re.compile(r"""^ *([\w$.-]+|"[^"]*"): "(0x[0-9A-Fa-f]*)",?$""", re.MULTILINE)


@dataclass
class _Reader:
    """Numbers the values of a function."""

    resources: _Resources
    numbers: dict[ir.Value, int] = field(default_factory=dict)
    types: dict[ir.Type, Type] = field(default_factory=dict)
    attributes: dict[ir.Attribute, Any] = field(default_factory=dict)

    def function(self, op: ir.Operation) -> Function:
        type_ = op.attributes["function_type"].value
        visibility, form = op.attributes.get("sym_visibility"), op.attributes.get("mesh.form")
        return Function(
            op.attributes["sym_name"].value,
            self.region(op.regions[0], op),
            _entries(op, "arg_attrs", len(type_.inputs)),
            _entries(op, "res_attrs", len(type_.results)),
            [self.type(each) for each in type_.results],
            [name_in(each.location) or "" for each in op.regions[0].blocks[0].arguments],
            visibility is not None and visibility.value == "private",
            "" if form is None else form.value,
            op.location,
        )

    def region(self, region: ir.Region, op: ir.Operation) -> Block:
        blocks = list(region.blocks)
        if len(blocks) > 1:
            raise error_at(
                op.location, f"'{op.name}' op has several blocks: nothing is proven of it"
            )
        if not blocks:
            return Block((), (), ())
        arguments = tuple(self.number(each) for each in blocks[0].arguments)
        types = tuple(self.type(each.type) for each in blocks[0].arguments)
        ops = tuple(self.op(each.operation) for each in blocks[0].operations)
        return Block(arguments, types, ops)

    def op(self, op: ir.Operation) -> Op:
        has_loops = op.name.startswith("linalg.") and len(op.regions) > 0
        maps = linalg_queries.get_indexing_maps(op) if has_loops else None
        operands, results = list(op.operands), list(op.results)
        attributes = op.attributes
        return Op(
            op.name,
            tuple([self.number(each) for each in operands]),
            tuple([self.number(each) for each in results]),
            tuple([self.type(each.type) for each in operands]),
            tuple([self.type(each.type) for each in results]),
            {name: self.plain(attributes[name]) for name in attributes},
            tuple(self.plain(each) for each in maps or ()),
            tuple([self.region(each, op) for each in op.regions]),
            op.location,
        )

    def number(self, value: ir.Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def type(self, type_: ir.Type) -> Type:
        if type_ not in self.types:
            self.types[type_] = read_type(type_)
        return self.types[type_]

    def plain(self, attribute: ir.Attribute) -> Any:
        if attribute not in self.attributes:
            plain = _plain(attribute)
            if plain is attribute and str(plain).startswith("dense_resource<"):
                plain = self.resources.named(attribute)
            self.attributes[attribute] = plain
        return self.attributes[attribute]


def _entries(op: ir.Operation, key: str, count: int) -> list[dict[str, ir.Attribute]]:
    if key not in op.attributes:
        return [{} for _ in range(count)]
    return [{named.name: named.attr for named in entry} for entry in op.attributes[key]]


def read_type(type_: ir.Type) -> Type:
    """A type as a plain value."""
    if not isinstance(type_, ir.RankedTensorType):
        return Type(str(type_), (), *_element(type_))
    sizes = [-1 if type_.is_dynamic_dim(d) else type_.get_dim_size(d) for d in range(type_.rank)]
    return Type(str(type_), tuple(sizes), *_element(type_.element_type), type_.encoding)


def _element(type_: ir.Type) -> tuple[str, int, float]:
    text = str(type_)
    if isinstance(type_, ir.IntegerType):
        return "unsigned" if type_.is_unsigned else "signed", type_.width, 0.0
    if isinstance(type_, ir.IndexType):
        return "index", 64, 0.0
    if isinstance(type_, ir.FloatType):
        return "float", type_.width, _LARGEST.get(text, _LARGEST_F32)
    return "complex" if text.startswith("complex<") else "other", 0, 0.0


def _plain(attribute: ir.Attribute) -> Any:
    """Numbers, strings, tuples, arrays, maps and types; other attributes as they are."""
    if isinstance(attribute, ir.StringAttr):
        return attribute.value_bytes.decode(errors="backslashreplace")  # a call may have any bytes
    if isinstance(attribute, _WITH_VALUES):
        return attribute.value
    if isinstance(attribute, ir.DenseElementsAttr):
        return _dense(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(_plain(each) for each in attribute)
    if isinstance(attribute, ir.AffineMapAttr):
        return Map.read(attribute.value)
    if isinstance(attribute, ir.TypeAttr):
        return read_type(attribute.value)
    if isinstance(attribute, ir.UnitAttr):
        return True
    if isinstance(attribute, ir.DictAttr):
        return {named.name: _plain(named.attr) for named in attribute}
    if isinstance(attribute, _ARRAYS):
        return tuple(attribute)
    return attribute


_WITH_VALUES = ir.IntegerAttr, ir.FloatAttr, ir.BoolAttr, ir.FlatSymbolRefAttr
_ARRAYS = tuple(
    getattr(ir, f"Dense{kind}ArrayAttr")
    for kind in ("Bool", "I8", "I16", "I32", "I64", "F32", "F64")
)


def _dense(attribute: ir.DenseElementsAttr) -> NDArray[Any] | str:
    """The elements; text where they are no real numbers."""
    type_ = ir.ShapedType(attribute.type)
    element = str(type_.element_type)
    if element.startswith("complex"):
        return _complex(str(attribute), type_.shape, "<f8" if "f64" in element else "<f4")
    if attribute.is_splat:
        return np.broadcast_to(attribute.get_splat_value().value, type_.shape)
    try:
        return np.array(attribute)
    except TypeError:
        return _narrow(str(attribute), element, type_.shape)


def _complex(text: str, shape: Sequence[int], part: str) -> NDArray[Any] | str:
    def number(word: str) -> float:
        is_bits = word.strip().startswith("0x")  # of infinity, or what is no number
        bits = int(word, 16).to_bytes(8, "little") if is_bits else b""
        return float(np.frombuffer(bits, part)[0] if is_bits else word)

    pairs = re.findall(r"\(([^,()]+),([^,()]+)\)", text)
    numbers = np.array([complex(number(real), number(imaginary)) for real, imaginary in pairs])
    if not len(numbers):
        return text
    return np.broadcast_to(numbers[0], shape) if len(numbers) == 1 else numbers.reshape(shape)


_NARROW = {
    "bf16": ml_dtypes.bfloat16,
    "i4": np.int8,
    "ui4": np.uint8,
    "i2": np.int8,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


def _narrow(text: str, element: str, shape: Sequence[int]) -> NDArray[Any] | str:
    """Elements of types that the bindings give no buffers of."""
    if element not in _NARROW:
        return text
    inside = text[len("dense<") : text.rindex(">", 0, text.rindex(" : "))]
    if inside.startswith('"0x'):
        numbers = np.frombuffer(bytes.fromhex(inside[3:-1]), _NARROW[element])
    else:
        words = re.findall(r"0x[0-9A-Fa-f]+|-?[0-9][0-9.eE+-]*", inside)
        numbers = np.array([_number(word, element) for word in words])
    exact = np.float64 if numbers.dtype.kind not in "iu" else np.int64
    return numbers.astype(exact).reshape(shape)


def _number(word: str, element: str) -> float | int:
    if word.startswith("0x"):
        bits = int(word, 16).to_bytes(2, "little")
        dtype = np.dtype(_NARROW[element])
        return float(np.frombuffer(bits[: dtype.itemsize], dtype)[0])
    return int(word) if "i" in element else float(word)


Expression = tuple[Any, ...]
"""`("d", 1)`, `("s", 0)`, `("c", 3)`, or an operation and two expressions."""


@dataclass(frozen=True, slots=True)
class Map:
    """An affine map of loops to positions."""

    loops: int
    results: tuple[Expression, ...]

    @classmethod
    def read(cls, given: ir.AffineMap) -> Map:
        """From the bindings' map."""
        return cls(given.n_dims, tuple(_expression(each) for each in given.results))

    @property
    def dims(self) -> tuple[int, ...] | None:
        """The loop of each result where each is one loop, and none twice; else `None`."""
        dims = [each[1] for each in self.results if each[0] == "d"]
        return tuple(dims) if len(set(dims)) == len(self.results) else None


def evaluated(expression: Expression, dims: Sequence[Any], symbols: Sequence[Any] = ()) -> Any:
    """The value of an expression for these values of the loops, numbers or arrays."""
    kind, *parts = expression
    if kind in "ds":
        return (dims if kind == "d" else symbols)[parts[0]]
    if kind == "c":
        return parts[0]
    left, right = (evaluated(part, dims, symbols) for part in parts)
    return _OPERATIONS[kind](left, right)


_OPERATIONS = {
    "Add": lambda a, b: a + b,
    "Mul": lambda a, b: a * b,
    "Mod": lambda a, b: a % b,
    "FloorDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: -(-a // b),
}


def loops_in(expression: Expression) -> set[int]:
    """The loops that an expression reads."""
    kind, *parts = expression
    if kind in "dsc":
        return {parts[0]} if kind == "d" else set()
    return loops_in(parts[0]) | loops_in(parts[1])


def _expression(given: ir.AffineExpr) -> Expression:
    name = type(given).__name__.removeprefix("Affine").removesuffix("Expr")
    if name in ("Dim", "Symbol"):
        return name[0].lower(), given.position
    if name == "Constant":
        return "c", given.value
    return name, _expression(given.lhs), _expression(given.rhs)
