"""Programs of any size: `growing(name, n)` is the text of one, with `n` of what it has many of."""

from __future__ import annotations

from collections.abc import Callable

TYPE = "tensor<8x8xf32>"
ROWS = "{mesh.sharding = #mesh.shard<@g, [[0], []]>}"
COLUMNS_FOR_USERS = "{sharding = #mesh.shard<@g, [[], [0]]>, as_result = false}"
MESH = '"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=2]>, sym_name = "g"}> : () -> ()\n'
SPLIT = '#sdy.sharding<@g, [{"x"}, {?}]>'
EACH_SPLIT = '#sdy.sharding_per_value<[<@g, [{"x"}, {?}]>]>'

_PROGRAMS: dict[str, Callable[[int], str]] = {}


def growing(name: str, n: int) -> str:
    return _PROGRAMS[name](n)


def _program(make: Callable[[int], str]) -> Callable[[int], str]:
    _PROGRAMS[make.__name__] = make
    return make


def _cluster(*sizes: int) -> str:
    return (
        f'"mesh.cluster"() {{sym_name = "g", rank = {len(sizes)} : i64, '
        f"dim_sizes = {list(sizes)}}} : () -> ()\n"
    )


def _main(body: str, returned: str, arguments: str = f"%x: {TYPE} {ROWS}") -> str:
    return (
        f"{_cluster(2, 2)}func.func @main({arguments}) -> {TYPE} {{\n"
        f"%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
        f"%c = arith.constant true\n{body}return {returned} : {TYPE}\n}}\n"
    )


def _chain(n: int, op: Callable[[int, str], str], first: str = "%x") -> tuple[str, str]:
    """The ops, each of which makes `%v{i}` of the value before, and the last value."""
    lines, value = [], first
    for number in range(n):
        lines.append(op(number, value))
        value = f"%v{number}"
    return "\n".join(lines) + "\n", value


@_program
def nested_ifs(n: int) -> str:
    def inside(depth: int) -> str:
        if not depth:
            return f"%v0 = math.exp %x : {TYPE}\n"
        return (
            f"%v{depth} = scf.if %c -> {TYPE} {{\n{inside(depth - 1)}"
            f"scf.yield %v{depth - 1} : {TYPE}\n}} else {{\n"
            f"%e{depth} = math.tanh %x : {TYPE}\nscf.yield %e{depth} : {TYPE}\n}}\n"
        )

    return (
        _main(inside(n), f"%v{n}")
        .replace("%c = arith.constant true", "%c = tensor.extract %b[] : tensor<i1>")
        .replace(f"%x: {TYPE} {ROWS}", f"%x: {TYPE} {ROWS}, %b: tensor<i1>")
    )


@_program
def nested_fors(n: int) -> str:
    def inside(depth: int, value: str) -> str:
        if not depth:
            return f"%v0 = math.tanh {value} : {TYPE}\n"
        return (
            f"%v{depth} = scf.for %i{depth} = %c0 to %c1 step %c1 "
            f"iter_args(%a{depth} = {value}) -> ({TYPE}) {{\n{inside(depth - 1, f'%a{depth}')}"
            f"scf.yield %v{depth - 1} : {TYPE}\n}}\n"
        )

    return _main(inside(n, "%x"), f"%v{n}")


@_program
def nested_manual_computations(n: int) -> str:
    axes = ", ".join(f'"a{number}"=1' for number in range(n))

    def inside(depth: int, value: str) -> str:
        if depth == n:
            return f"%v{n} = stablehlo.tanh {value} : {TYPE}\n"
        lies = f'#sdy.sharding_per_value<[<@g, [{{"a{depth}"}}, {{?}}]>]>'
        return (
            f'%v{depth} = "sdy.manual_computation"({value}) <{{in_shardings = {lies}, '
            f'manual_axes = #sdy<manual_axes{{"a{depth}"}}>, out_shardings = {lies}}}> ({{\n'
            f"^bb0(%b{depth}: {TYPE}):\n{inside(depth + 1, f'%b{depth}')}"
            f'"sdy.return"(%v{depth + 1}) : ({TYPE}) -> ()\n}}) : ({TYPE}) -> {TYPE}\n'
        )

    mesh = f'"sdy.mesh"() <{{mesh = #sdy.mesh<[{axes}]>, sym_name = "g"}}> : () -> ()\n'
    return (
        f"{mesh}func.func @main(%x: {TYPE}) -> {TYPE} {{\n{inside(0, '%x')}return %v0 : {TYPE}\n}}"
    )


@_program
def arguments(n: int) -> str:
    given = ", ".join(
        f"%a{number}: {TYPE}{f' {ROWS}' if number % 2 else ''}" for number in range(n)
    )
    body, last = _chain(n, lambda i, value: f"%v{i} = arith.addf {value}, %a{i} : {TYPE}", "%a0")
    return _main(body, last, given)


@_program
def results(n: int) -> str:
    body, _ = _chain(n, lambda i, value: f"%v{i} = math.exp {value} : {TYPE}")
    types = ", ".join([TYPE] * n)
    values = ", ".join(f"%v{number}" for number in range(n))
    return (
        f"{_cluster(2, 2)}func.func @main(%x: {TYPE} {ROWS}) -> ({types}) {{\n"
        f"{body}return {values} : {types}\n}}"
    )


@_program
def functions(n: int) -> str:
    return _cluster(2, 2) + "".join(
        f"func.func @f{number}(%x: {TYPE} {ROWS}) -> {TYPE} {{\n"
        f"%0 = math.exp %x : {TYPE}\nreturn %0 : {TYPE}\n}}\n"
        for number in range(n)
    )


@_program
def chain(n: int) -> str:
    return _main(*_chain(n, lambda i, value: f"%v{i} = math.tanh {value} : {TYPE}"))


@_program
def mixed_chain(n: int) -> str:
    """With products, which move tensors, and a value that is used all along."""

    def op(number: int, value: str) -> str:
        return (
            f"%v{number} = "
            + (
                f"stablehlo.dot {value}, %x : ({TYPE}, {TYPE}) -> {TYPE}",
                f"stablehlo.transpose {value}, dims = [1, 0] : ({TYPE}) -> {TYPE}",
                f"stablehlo.add {value}, %x : {TYPE}",
            )[number % 3]
        )

    return _main(*_chain(n, op))


@_program
def annotations(n: int) -> str:
    def op(number: int, value: str) -> str:
        said = f"{{sharding = #mesh.shard<@g, [[{number % 2}], []]>, as_result = false}}"
        return f'%v{number} = "mesh.annotate"({value}) {said} : ({TYPE}) -> {TYPE}'

    return _main(*_chain(n, op))


@_program
def upstream_annotations(n: int) -> str:
    def op(number: int, value: str) -> str:
        return (
            f"%s{number} = shard.sharding @g split_axes = [[{number % 2}]] : !shard.sharding\n"
            f"%a{number} = shard.shard {value} to %s{number} : {TYPE}\n"
            f"%v{number} = math.tanh %a{number} : {TYPE}"
        )

    body, last = _chain(n, op)
    return (
        "shard.grid @g(shape = 2x2)\n"
        f"func.func @main(%x: {TYPE}) -> {TYPE} {{\n{body}return {last} : {TYPE}\n}}"
    )


@_program
def constraints_on_one_value(n: int) -> str:
    def op(number: int, value: str) -> str:
        return (
            f'%c{number} = "sdy.sharding_constraint"(%x) <{{sharding = {SPLIT}}}> '
            f": ({TYPE}) -> {TYPE}\n%v{number} = arith.addf {value}, %x : {TYPE}"
        )

    body, last = _chain(n, op)
    return f"{MESH}func.func @main(%x: {TYPE}) -> {TYPE} {{\n{body}return {last} : {TYPE}\n}}"


@_program
def uses_of_one_value(n: int) -> str:
    def op(number: int, value: str) -> str:
        return (
            f"%u{number} = math.exp %x : {TYPE}\n"
            f"%v{number} = arith.addf {value}, %u{number} : {TYPE}"
        )

    return _main(*_chain(n, op))


@_program
def products_with_one_weight(n: int) -> str:
    """As the steps of a recurrent network have, written one after the other."""
    return _main(
        *_chain(
            n, lambda i, value: f"%v{i} = stablehlo.dot {value}, %x : ({TYPE}, {TYPE}) -> {TYPE}"
        )
    )


@_program
def blocks(n: int) -> str:
    def op(number: int, value: str) -> str:
        return (
            f"cf.br ^b{number}({value} : {TYPE})\n^b{number}(%a{number}: {TYPE}):\n"
            f"%v{number} = math.tanh %a{number} : {TYPE}"
        )

    return _main(*_chain(n, op))


def _calls(n: int, body: Callable[[int], str]) -> str:
    """`@main` calls the last of `n` functions, each of which does what `body` gives it."""

    def function(number: int) -> str:
        inside = body(number - 1) if number else f"%v = math.tanh %x : {TYPE}\n"
        head = f"func.func private @f{number}(%x: {TYPE}) -> {TYPE}"
        return f"{head} {{\n{inside}return %v : {TYPE}\n}}\n"

    call = f"%v = func.call @f{n - 1}(%x) : ({TYPE}) -> {TYPE}\n"
    return "".join(map(function, range(n))) + _main(call, "%v")


@_program
def calls_in_calls(n: int) -> str:
    return _calls(n, lambda callee: f"%v = func.call @f{callee}(%x) : ({TYPE}) -> {TYPE}\n")


@_program
def calls_in_calls_twice(n: int) -> str:
    """Each function calls the next one for a tensor and for its transpose, which lies otherwise."""
    return _calls(
        n,
        lambda callee: (
            f"%a = func.call @f{callee}(%x) : ({TYPE}) -> {TYPE}\n"
            f"%t = stablehlo.transpose %x, dims = [1, 0] : ({TYPE}) -> {TYPE}\n"
            f"%b = func.call @f{callee}(%t) : ({TYPE}) -> {TYPE}\n%v = arith.addf %a, %b : {TYPE}\n"
        ),
    )


@_program
def calls_in_a_manual_computation(n: int) -> str:
    text = _calls(n, lambda callee: f"%v = func.call @f{callee}(%x) : ({TYPE}) -> {TYPE}\n")
    functions = text.split(_cluster(2, 2))[0]
    whole = "tensor<16x8xf32>"
    return f"""{MESH}{functions}func.func @main(%x: {whole}) -> {whole} {{
      %0 = "sdy.manual_computation"(%x) <{{in_shardings = {EACH_SPLIT},
          manual_axes = #sdy<manual_axes{{"x"}}>, out_shardings = {EACH_SPLIT}}}> ({{
      ^bb0(%a: {TYPE}):
        %b = func.call @f{n - 1}(%a) : ({TYPE}) -> {TYPE}
        "sdy.return"(%b) : ({TYPE}) -> ()
      }}) : ({whole}) -> {whole}
      return %0 : {whole}
    }}"""


@_program
def devices(n: int) -> str:
    """On a grid of n x n a product, whose result is to lie as a permutation could make it."""
    size = 8 * n
    whole = f"tensor<{size}x{size}xf32>"
    return f"""{_cluster(n, n)}func.func @main(
        %x: {whole} {{mesh.sharding = #mesh.shard<@g, [[0], [1]]>}}, %w: {whole}) -> {whole} {{
      %0 = stablehlo.dot %x, %w : ({whole}, {whole}) -> {whole}
      %1 = math.tanh %0 : {whole}
      %2 = "mesh.annotate"(%1) {{sharding = #mesh.shard<@g, [[1], [0]]>, as_result = false}}
        : ({whole}) -> {whole}
      return %2 : {whole}
    }}"""


@_program
def devices_with_halos(n: int) -> str:
    image = f"tensor<1x{8 * n}x6x2xf32>"
    lies = "{mesh.sharding = #mesh.shard<@g, [[], [0]]>}"
    return f"""{_cluster(n, n)}func.func @main(%x: {image} {lies}, %w: tensor<3x3x2x2xf32>)
        -> ({image} {lies}) {{
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
          window = {{pad = [[1, 1], [1, 1]]}}
          {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : ({image}, tensor<3x3x2x2xf32>) -> {image}
      return %0 : {image}
    }}"""


@_program
def devices_that_are_told_apart(n: int) -> str:
    return f"""{_cluster(n, n)}func.func @main()
        -> (tensor<{8 * n + 3}xf32> {{mesh.sharding = #mesh.shard<@g, [[0, 1]]>}}) {{
      %0 = stablehlo.iota dim = 0 : tensor<{8 * n + 3}xf32>
      return %0 : tensor<{8 * n + 3}xf32>
    }}"""
