"""Random programs, which `pipeline` divides, give the numbers that they gave before."""

import random

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.extras import needs

X, W, V = "tensor<8x4xf32>", "tensor<4x4xf32>", "tensor<4xf32>"
"""What has a batch, what has none, and what is reduced over a batch."""
REDUCTIONS = (("add", "0.0"), ("maximum", "0xFF800000"), ("minimum", "0x7F800000"))


class _Program:
    """A function under construction: its values by their type."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.values: dict[str, list[str]] = {X: [], W: [], V: []}
        self.annotated: set[str] = set()

    def emit(self, type_: str, text: str) -> None:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        self.values[type_].append(name)

    def any_of(self, type_: str) -> str:
        return self.draw.choice(self.values[type_])

    def elementwise(self) -> None:
        type_ = self.draw.choice([each for each in (X, W, V) if self.values[each]])
        name = self.draw.choice(("add", "multiply", "subtract", "maximum"))
        self.emit(type_, f"stablehlo.{name} {self.any_of(type_)}, {self.any_of(type_)} : {type_}")

    def product(self) -> None:
        of = self.draw.choice((X, X, X, W))
        made = f"stablehlo.dot_general {self.any_of(of)}, {self.any_of(W)}"
        self.emit(of, f"{made}, contracting_dims = [1] x [0] : ({of}, {W}) -> {of}")
        self.emit(of, f"stablehlo.tanh {self.values[of][-1]} : {of}")

    def to_and_fro(self) -> None:
        turned = f"%t{len(self.lines)}"
        made = f"stablehlo.transpose {self.any_of(X)}, dims = [1, 0] : ({X}) -> tensor<4x8xf32>"
        self.lines.append(f"  {turned} = {made}")
        made = f"stablehlo.dot_general {turned}, {self.any_of(W)}, contracting_dims = [0] x [1]"
        self.emit(X, f"{made} : (tensor<4x8xf32>, {W}) -> {X}")

    def reduction(self, given: str = "") -> None:
        name, start = self.draw.choice(REDUCTIONS)
        init = f"%z{len(self.lines)}"
        self.lines.append(f"  {init} = stablehlo.constant dense<{start}> : tensor<f32>")
        made = f"stablehlo.reduce({given or self.any_of(X)} init: {init}) applies stablehlo.{name} "
        self.emit(V, f"{made}across dimensions = [0] : ({X}, tensor<f32>) -> {V}")

    def gradient(self) -> None:
        made = f"stablehlo.dot_general {self.any_of(X)}, {self.any_of(X)}"
        self.emit(W, f"{made}, contracting_dims = [0] x [0] : ({X}, {X}) -> {W}")

    def repeated(self) -> None:
        """A loop, which reads one value as a capture."""
        type_ = self.draw.choice([each for each in (W, W, V) if self.values[each]])
        begin = self.draw.choice([self.any_of(type_), f"%k{'W' if type_ == W else 'V'}"])
        self.emit(
            type_,
            f"scf.for %i = %c0 to %c3 step %c1 iter_args(%r = {begin}) -> ({type_}) {{\n"
            f"    %m = stablehlo.multiply %r, {self.any_of(type_)} : {type_}\n"
            f"    %n = stablehlo.tanh %m : {type_}\n    scf.yield %n : {type_}\n  }}",
        )

    def barrier(self) -> None:
        """What JAX writes where a layer is computed again: its weights and a microbatch."""
        types = [each for each in (X, W, V) if self.values[each]]
        self.draw.shuffle(types)
        values, name = map(self.any_of, types), f"%b{len(self.lines)}"
        made = f"stablehlo.optimization_barrier {', '.join(values)} : {', '.join(types)}"
        self.lines.append(
            f"  {name}:{len(types)} = {made}" if len(types) > 1 else f"  {name} = {made}"
        )
        for number, type_ in enumerate(types):
            self.values[type_].append(f"{name}#{number}" if len(types) > 1 else name)

    def scaled(self) -> None:
        """A product with a total of an argument's batch, as the number of tokens is one."""
        given = self.draw.choice([each for each in self.values[X] if each.startswith("%a")])
        self.reduction(given)
        total = self.values[V].pop()
        made = f"stablehlo.broadcast_in_dim {total}, dims = [1] : ({V}) -> {X}"
        self.lines.append(f"  %s{len(self.lines)} = {made}")
        self.emit(X, f"stablehlo.multiply {self.any_of(X)}, %s{len(self.lines) - 1} : {X}")

    def annotation(self) -> None:
        value = self.any_of(X)
        if value not in self.annotated:
            self.annotated.add(value)
            split = self.draw.choice(("[[1]]", "[[], [1]]"))
            made = f'"mesh.annotate"({value}) {{sharding = #mesh.shard<@grid, {split}>}}'
            self.emit(X, f"{made} : ({X}) -> {X}")
            self.annotated.add(self.values[X][-1])


def pipelined_program(seed: int) -> tuple[str, str]:
    """A module with one function, and options of `pipeline` for it."""
    draw = random.Random(seed)
    program = _Program(draw)
    types = [X, *draw.choices((X, W, W), k=draw.randint(1, 5)), W]
    for number, type_ in enumerate(types):
        program.values[type_].append(f"%a{number}")
    steps = [program.product, program.product, program.elementwise, program.to_and_fro]
    steps += [program.repeated, program.annotation, program.barrier, program.scaled]
    late = [program.reduction, program.gradient, program.elementwise, program.repeated]
    for _ in range(draw.randint(2, 9)):
        draw.choice(steps)()
    for _ in range(draw.randint(0, 4)):
        draw.choice(late)()
    values = [(value, type_) for type_, each in program.values.items() for value in each]
    returned = [values[0], *draw.sample(values, draw.randint(1, min(4, len(values))))]
    arguments = ", ".join(f"%a{number}: {type_}" for number, type_ in enumerate(types))
    names = ", ".join(value for value, _ in returned)
    of_types = ", ".join(type_ for _, type_ in returned)
    constants = [f"  %c{number} = arith.constant {number} : index" for number in (0, 1, 3)]
    for name, type_ in (("W", W), ("V", V)):
        constants.append(f"  %k{name} = stablehlo.constant dense<0.5> : {type_}")
    stages = draw.choice((1, 2, 2, 4))
    batched = ",".join(str(number) for number, type_ in enumerate(types) if type_ == X)
    options = (
        f"stages={stages} chunks={draw.choice((1, 1, 2, 3))} "
        f"microbatches={draw.choice((1, 2, 4, 8))} arguments='{batched}' "
        f"schedule={draw.choice(('gpipe', '1f1b', 'zero-bubble'))}"
    )
    lines = "\n".join([*constants, *program.lines])
    return (
        f"shard.grid @grid(shape = {draw.choice((stages, 4))}x2)\n"
        f"func.func @main({arguments}) -> ({of_types}) {{\n{lines}\n"
        f"  return {names} : {of_types}\n}}\n",
        options,
    )


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")  # of idle stages
@needs("jax")
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("seed", range(90))
def test_a_pipeline_computes_what_the_function_did(seed: int) -> None:
    text, options = pipelined_program(seed)
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, f"pipeline{{{options}}}")
        made = str(module)
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{text}\n{options}\n{made}"
