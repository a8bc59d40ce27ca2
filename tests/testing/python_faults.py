"""Faults in emitted Python programs, one at a time: another op, group, number, copy, ...

    python -m tests.testing.python_faults --programs 100

prints what the prover says of random programs in Python, and of these with a fault.
"""

import argparse
import ast
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tabulate import tabulate

from shard_dialect.backends.python.python_module import TARGETS, emit_python
from shard_dialect.backends.python.writer import Target
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.proof.prove import Proof
from shard_dialect.proof.written.session import Session
from shard_dialect.runtime.confirmed_proof import Unsharded, confirmed_proof_of_python
from shard_dialect.testing.random_program import Program, any_program

_OTHER = {ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.Add(), ast.Div: ast.Mult()}
_NAMES = {"maximum": "minimum", "minimum": "maximum", "sum": "max", "exp": "tanh", "tanh": "exp"}
_COMPARISONS = {ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt(),
                ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq()}  # fmt: skip
_NARROWER = {"int64": "int16", "int32": "int8", "uint32": "uint8", "float32": "int32"}
_COPIES = ("{} * (rank != 0)", "{} * (1 - 2 * (rank == 1))", "{} + {} * (rank == 1)", "{}[::-1]")
"""What one rank has in place of a result."""
_DROPPED = ("all_reduce", "permute", "update_halo", "mask", "broadcast_from", "reduce_to")


def emitted(text: str, target: Target = "mpi4py") -> "str | None":
    """The program in Python; `None` where it is refused."""
    try:
        with make_context():
            module = Source.of(text).parse()
            run_pipeline(module, "spmd")
            return emit_python(module, target)
    except ShardError:
        return None


def faults_in(text: str) -> "list[tuple[str, str]]":
    """What is wrong, and the program with it, for each place."""
    tree = ast.parse(text)
    groups = [each for each in _assigned(tree) if each.startswith("along_")]
    found: list[tuple[str, str]] = []
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and function.name not in _AROUND:
            for node in ast.walk(function):
                for kind, at, name, value in _changes(node, groups):
                    before = getattr(at, name)
                    setattr(at, name, value)
                    found.append((kind, ast.unparse(tree)))
                    setattr(at, name, before)
    return found


_AROUND = ("main", "take", "put", "shard_slices", "draw", "join")


def _changes(node: ast.AST, groups: "list[str]") -> "Iterator[tuple[str, ast.AST, str, Any]]":
    """Kinds of faults at a node: which field of what is another one."""
    yield from _other_words(node)
    yield from _other_numbers(node)
    yield from _other_calls(node)
    match node:
        case ast.Name(id=name) if name in groups:
            yield from (("another group", node, "id", each) for each in groups if each != name)
        case ast.Return(value=ast.Tuple(elts=[first, *rest])):
            for form in _COPIES:
                own = ast.unparse(first)
                other = ast.parse(form.format(own, own), mode="eval").body
                yield "another copy", node, "value", ast.Tuple([other, *rest], ast.Load())


def _other_words(node: ast.AST) -> "Iterator[tuple[str, ast.AST, str, Any]]":
    match node:
        case ast.BinOp(op=op) if type(op) in _OTHER:
            yield "another op", node, "op", _OTHER[type(op)]
        case ast.Compare(ops=[compared]) if type(compared) in _COMPARISONS:
            yield "another comparison", node, "ops", [_COMPARISONS[type(compared)]]
        case ast.Attribute(attr=name) if name in _NAMES:
            yield "another function", node, "attr", _NAMES[name]
        case ast.Attribute(attr=name) if name in _NARROWER:
            yield "a narrower type", node, "attr", _NARROWER[name]
        case ast.Attribute(attr="rank"):
            yield "another rank", node, "attr", "size"


def _other_numbers(node: ast.AST) -> "Iterator[tuple[str, ast.AST, str, Any]]":
    match node:
        case ast.Slice(lower=ast.Constant(value=int(low)) as end):
            yield "a slice off by one", end, "value", low + 1
        case ast.Constant(value=float(number)):
            yield "another number", node, "value", number + 0.5
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            yield "off by one", node, "value", number + 1


def _other_calls(node: ast.AST) -> "Iterator[tuple[str, ast.AST, str, Any]]":
    match node:
        case ast.Assign(value=ast.Call(func=ast.Name(id=name), args=[first, *_])) if (
            name in _DROPPED
        ):
            yield "no collective", node, "value", first
        case ast.Call(func=ast.Name(id="range"), args=[*args, last]):
            yield "a turn less", node, "args", [*args, ast.BinOp(last, ast.Sub(), ast.Constant(1))]
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="wait" | "Wait" | "Waitall"))):
            yield "no wait", node, "value", ast.Constant(None)


def _assigned(tree: ast.Module) -> "list[str]":
    return [
        each.targets[0].id
        for each in tree.body
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    ]


def proof_of(program: Program, python: str, folder: Path) -> Proof:
    """What the prover says of a program in Python."""
    path = folder / "program.py"
    path.write_text(python)
    with make_context():
        whole = Unsharded.of(Source.of(program.unsharded or program.text).parse(), None)
        return confirmed_proof_of_python(whole, str(path))


def give_the_same(program: Program, one: str, other: str, folder: Path) -> bool:
    """Whether two programs in Python give the same numbers, to the last bit."""
    from shard_dialect.runtime.compile import compile_reference
    from shard_dialect.runtime.random_inputs import random_inputs

    with make_context():
        source = Source.of(program.unsharded or program.text)
        whole = Unsharded.of(source.parse(), None).program
        inputs = random_inputs(compile_reference(source, whole.entry().name).arguments, 1)
    request = {"kind": "numbers", "dtypes": [str(each.dtype) for each in inputs]}
    given = [each.astype(np.float32) if each.dtype.kind == "V" else each for each in inputs]
    results = []
    for text in (one, other):
        path = folder / "other.py"
        path.write_text(text)
        session = Session(str(path), len(whole.grid.devices))
        try:
            results.append(session.ask(request, given)[1])
        except ShardError:
            return False
        finally:
            session.end()
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*results, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=TARGETS, default="mpi4py")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ShardWarning)
    rows = dict[str, Counter[str]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed in range(options.seed, options.seed + options.programs):
            program = any_program(Random(seed))
            python = emitted(program.text, options.target)
            if python is None:
                continue
            try:
                right = proof_of(program, python, folder)
            except ShardError as error:
                print(f"seed {seed}: {error}", flush=True)
                continue
            rows.setdefault("none: right programs", Counter())[right.answer] += 1
            if right.answer != "proven":
                print(f"seed {seed}: right, {right}", flush=True)
                continue
            faults = faults_in(python)
            if not faults:
                continue
            kind, wrong = Random(seed).choice(faults)
            try:
                proof = proof_of(program, wrong, folder)
            except ShardError:
                rows.setdefault(kind, Counter())["unknown"] += 1
                continue
            if proof.answer == "proven" and give_the_same(program, python, wrong, folder):
                continue
            rows.setdefault(kind, Counter())[proof.answer] += 1
            if proof.answer == "proven":
                print(f"seed {seed}: {kind}, {proof}", flush=True)
    answers = ("proven", "refuted", "unknown")
    listed = [[kind, *(count[each] for each in answers)] for kind, count in sorted(rows.items())]
    print(tabulate(listed, ["fault", *answers], "github"))


if __name__ == "__main__":
    main()
