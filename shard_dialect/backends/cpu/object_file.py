"""Programs as object files, with a header by which C and C++ call them under MPI.

    int layer_start(MPI_Comm communicator);
    void layer_run(const float *x, const float *w, float *result0, void *arena);

The object calls MPI, and products of matrices, through a table of addresses (`machine_code`), and
gets its handles as numbers (`mpi_code`): what fills in both is C in the header, so that one object
serves any implementation of MPI.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from shard_dialect.abi.lowered_program import Boundary, Handle, Program, choose_entry, find_function
from shard_dialect.abi.tensor_types import FLOATS_OF_A_BYTE
from shard_dialect.backends.cpu.machine_code import BIND, Code, Engine, to_llvm
from shard_dialect.errors import ShardError, as_symbol, shown
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, refuse_form, refuse_program_of_device, rename_symbols
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ir.walk import body, operations
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.lower.mpi.mpi_code import BIND as MPI_BIND
from shard_dialect.passes.lower.mpi.mpi_code import FAILED, FUNCTIONS

_ELEMENTS = {
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "f32": "float",
    "f64": "double",
    "i1": "uint8_t",
    "complex<f32>": "float",
    "complex<f64>": "double",
    **{f"i{bits}": f"int{max(bits, 8)}_t" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{max(bits, 8)}_t" for bits in (2, 4, 8, 16, 32, 64)},
    **dict.fromkeys(FLOATS_OF_A_BYTE, "uint8_t"),
}
"""C's types of elements: complex numbers are two of them, and of 16 bits and less the bits."""
_MPI_TYPES = {
    **{f"i{bits}": f"MPI_INT{bits}_T" for bits in (8, 16, 32, 64)},
    "f32": "MPI_FLOAT",
    "f64": "MPI_DOUBLE",
    "complex<f32>": "MPI_C_FLOAT_COMPLEX",
    "complex<f64>": "MPI_C_DOUBLE_COMPLEX",
}
_MPI_OPS = {
    "sum": "MPI_SUM",
    "product": "MPI_PROD",
    "max": "MPI_MAX",
    "min": "MPI_MIN",
    "bitwise_and": "MPI_BAND",
    "bitwise_or": "MPI_BOR",
    "bitwise_xor": "MPI_BXOR",
}
_NUMBERS = {"rank": "rank", "no_one": "MPI_PROC_NULL", "anyone": "MPI_ANY_SOURCE"}
HEADER_START = "/* The program @"
_RUN = "run"
_PRODUCT = re.compile("(?:scipy_)?cblas_([sd])gemm(64_)?")
_KEYWORDS = frozenset(
    "auto bool break case catch char class const continue default delete do double else enum "
    "export extern false float for friend goto if inline int long mutable namespace new operator "
    "private protected public register restrict return short signed sizeof static struct switch "
    "template this throw true try typedef typename union unsigned using virtual void volatile "
    "while arena".split()
)


@dataclass(frozen=True)
class ObjectFile:
    """A compiled program, and the text of its header."""

    code: bytes
    header: str


def object_file(module: ir.Module, entry: str | None, name: str) -> ObjectFile:
    """Compile a module in the local form, which is consumed, or lowered for MPI.

    All that the object defines begins with `name`. Raises `ShardError`.
    """
    if not Engine.has_object():
        raise ShardError("an object file needs Linux, and files without a largest size (ulimit -f)")
    chosen = choose_entry(module.operation, entry)
    function = find_function(module.operation, chosen)
    if form_of(function) == "local" or declares_no_grid(module.operation):  # then all are one
        refuse_program_of_device(function, "in an object all devices run one")
        run_pipeline(module, "lower{target=mpi}")
    elif form_of(function) != "lowered":
        raise refuse_form(function, ": the local form (--spmd) is compiled to an object")
    code = to_llvm(module, chosen)
    for call in code.program.library_calls.values():
        raise ShardError(
            f"{as_symbol(chosen)} calls {as_symbol(call.target)}, a function of a Python library: "
            "an object cannot"
        )
    unknown = [each for each in code.names if each not in FUNCTIONS and not _PRODUCT.match(each)]
    if unknown:
        raise ShardError(
            f"{as_symbol(chosen)} calls back into the runtime "
            f"({unknown[0].removeprefix('_mlir_ciface_')}): lower it for MPI (lower{{target=mpi}})"
        )
    with module.context, ir.Location.unknown():
        _prefix(module.operation, f"{name}.", code.symbol)
        engine = Engine(module, f"{name}.{_RUN}")
    with engine.object_file() as memory:
        return ObjectFile(memory.read(), _header(code, name))


def _prefix(module: ir.Operation, prefix: str, entry: str) -> None:
    """Let all that is defined begin with a prefix: a program may be linked with others.

    The entry gets a name that C can spell.
    """
    defined = {
        op.attributes["sym_name"].value: op
        for op in operations(body(module))
        if op.name == "llvm.mlir.global" or (op.name == "llvm.func" and list(op.regions[0].blocks))
    }
    renamed = {name: prefix + (_RUN if name == entry else name) for name in defined}
    for name, op in defined.items():
        op.attributes["sym_name"] = ir.StringAttr.get(renamed[name])
    rename_symbols(module, renamed)


def _header(code: Code, name: str) -> str:
    program = code.program
    parameters = _parameters(program.argument_names(), program.arguments, program.results)
    guard = f"{name.upper()}_H"
    lines = [
        f"{HEADER_START}{_in_comment(program.entry)} of {program.devices} devices.",
        " *",
        f" * Each rank of a communicator of {program.devices} calls {name}_start, once, then",
        f" * {name}_run as often as it likes, with its own shards, one call at a time.",
        *_described(parameters, program),
        f" * The arena is {code.arena} bytes, aligned to 64, which {name}_run may write to.",
        " */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <mpi.h>",
        "#include <stdint.h>",
        "#include <stdlib.h>",
        "#ifdef SHARD_CBLAS",
        "#include <cblas.h>",
        "#endif",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        f"#define {name.upper()}_ARENA ((size_t){code.arena})",
        "",
        *_declared(name, "bind_table", BIND),
        *(_declared(name, "bind_numbers", MPI_BIND) if program.handles else ()),
        *_declared(name, "code", _RUN),
        "",
        f"static inline void {name}_failed(int error) {{ MPI_Abort(MPI_COMM_WORLD, error); }}",
        "",
        *chain(*(_product(name, each) for each in code.names if _PRODUCT.match(each))),
        *_start(code, name),
        "",
        *_run(name, parameters),
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _parameters(
    names: Sequence[Sequence[str]], arguments: Sequence[Boundary], results: Sequence[Boundary]
) -> dict[str, str]:
    """The declarations of the parameters of `run`, by their names in C."""
    found: dict[str, str] = {}
    for own, each in zip(names, arguments, strict=True):
        fits = [name for name in own[::-1] if re.fullmatch("[A-Za-z]\\w*", name, re.ASCII)]
        free = (name for name in fits if name not in _KEYWORDS and name not in found)
        name = next(free, f"argument_{len(found)}")
        found[name] = f"const {_ELEMENTS[each.local.element]} *{name}"
    for number, each in enumerate(results):
        name = f"result{number}"
        name = f"{name}_" if name in found else name
        found[name] = f"{_ELEMENTS[each.local.element]} *{name}"
    return found


def _described(parameters: Mapping[str, str], program: Program) -> Iterator[str]:
    for name, each in zip(parameters, (*program.arguments, *program.results), strict=True):
        text, sharding = f"{each.local}, whole", each.sharding
        if sharding is not None:
            split = f"{sharding.text(program.grids[sharding.grid])} on {as_symbol(sharding.grid)}"
            text = f"{each.local}, a shard of {each.global_type}, {_in_comment(split)}"
        yield f" *   {name}: {text}"
    used = {each.sharding.grid for each in (*program.arguments, *program.results) if each.sharding}
    for grid in (grid for name, grid in program.grids.items() if name in used):
        axes = " by ".join(
            f"{size} along {grid.axes_text([axis])}" for axis, size in enumerate(grid.shape)
        )
        order = f"in the order {list(grid.device_ids)}" if grid.device_ids else "in order"
        text = f"{as_symbol(grid.name)}: {axes or 'no axes'}, ranks {order}, the last axis fastest"
        yield f" * {_in_comment(text)}."


def _in_comment(text: str) -> str:
    return shown(text).replace("*/", "* /").replace("/*", "/ *")


def _declared(name: str, short: str, symbol: str) -> list[str]:
    """A function of the object, which takes pointers to its arguments."""
    return [f'void {name}_{short}(void **arguments) __asm__("_mlir_{name}.{symbol}");']


def _product(name: str, called: str) -> list[str]:
    """A product of matrices of rows: by loops, or with `SHARD_CBLAS` by a BLAS."""
    match = _PRODUCT.match(called)
    assert match, "a product"
    letter, is_long = match.groups()
    element = {"s": "float", "d": "double"}[letter]
    size = "int64_t" if is_long else "int"
    matrix = f"const {element} *"
    return f"""static inline void {name}_{letter}gemm(
    int rows_first, int a_kind, int b_kind, {size} m, {size} n, {size} k, {element} alpha,
    {matrix}a, {size} lda, {matrix}b, {size} ldb, {element} beta, {element} *c, {size} ldc) {{
#ifdef SHARD_CBLAS
  (void)rows_first;
  cblas_{letter}gemm(CblasRowMajor, a_kind == 112 ? CblasTrans : CblasNoTrans,
              b_kind == 112 ? CblasTrans : CblasNoTrans, m, n, k, alpha, a, lda, b, ldb, beta, c,
              ldc);
#else
  {size} i, j, p;
  (void)rows_first;
  for (i = 0; i < m; ++i) {{
    for (j = 0; j < n; ++j) c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
    for (p = 0; p < k; ++p) {{
      const {element} x = alpha * (a_kind == 112 ? a[p * lda + i] : a[i * lda + p]);
      for (j = 0; j < n; ++j) c[i * ldc + j] += x * (b_kind == 112 ? b[j * ldb + p] : b[p * ldb + j]);
    }}
  }}
#endif
}}
""".splitlines()  # noqa: E501  # C


def _start(code: Code, name: str) -> list[str]:
    """The function that gives the object its table, and its numbers."""

    def address(called: str) -> str:
        if called == FAILED:
            return f"{name}_failed"
        product = _PRODUCT.match(called)
        return f"{name}_{product[1]}gemm" if product else called

    handles = code.program.handles
    table = "".join(f"      (void *){address(each)},\n" for each in code.names)
    groups = [each for each in handles if each.group]
    numbers = ", ".join(f"(int64_t)(intptr_t){_number(each, groups)}" for each in handles)
    devices = code.program.devices
    lines = [
        f"/* 0, or the error of MPI; the communicator has {devices} ranks. */",
        f"static inline int {name}_start(MPI_Comm communicator) {{",
        f"  static void *table[] = {{\n{table}      NULL}};",
        "  void *at = table, *arguments[1];",
        "  int rank, size, error;",
        "  arguments[0] = &at;",
        f"  {name}_bind_table(arguments);",
        "  if ((error = MPI_Comm_rank(communicator, &rank))) return error;",
        "  if ((error = MPI_Comm_size(communicator, &size))) return error;",
        f"  if (size != {devices}) return MPI_ERR_COMM;",
    ]
    if handles:
        lines += ["  {"]
        for number, each in enumerate(groups):
            lines += _split(number, each, devices)
        lines += [
            f"    int64_t numbers[] = {{{numbers}}};",
            f"    void *slots[{len(handles)}];",
            f"    for (int i = 0; i < {len(handles)}; ++i) slots[i] = &numbers[i];",
            f"    {name}_bind_numbers(slots);",
            "  }",
        ]
    return [*lines, "  return 0;", "}"]


def _number(handle: Handle, groups: Sequence[Handle]) -> str:
    if handle.group:
        return f"group{groups.index(handle)}"
    if handle.kind in _NUMBERS:
        return _NUMBERS[handle.kind]
    return (_MPI_OPS if handle.kind == "op" else _MPI_TYPES)[handle.name]


def _split(number: int, handle: Handle, devices: int) -> list[str]:
    """The communicator of a group: the ranks of each, in its order; none for other ranks."""
    assert handle.group, "of a group"
    grid, axes = handle.group
    colors, keys = ["MPI_UNDEFINED"] * devices, ["0"] * devices
    for color, ranks in enumerate(grid.groups(axes)):
        for key, rank in enumerate(ranks):
            colors[rank], keys[rank] = str(color), str(key)
    return [
        f"    static const int color{number}[] = {{{', '.join(colors)}}};",
        f"    static const int key{number}[] = {{{', '.join(keys)}}};",
        f"    MPI_Comm group{number};",
        f"    error = MPI_Comm_split(communicator, color{number}[rank], key{number}[rank],"
        f" &group{number});",
        "    if (error) return error;",
    ]


def _run(name: str, parameters: Mapping[str, str]) -> list[str]:
    pointers = "".join(f"(void *){each}, " for each in parameters)
    return [
        f"static inline void {name}_run({', '.join([*parameters.values(), 'void *arena'])}) {{",
        f"  void *pointers[{len(parameters) + 1}] = {{{pointers}arena}};",
        "  void *frame = pointers, *arguments[1];",
        "  arguments[0] = &frame;",
        f"  {name}_code(arguments);",
        "}",
    ]
