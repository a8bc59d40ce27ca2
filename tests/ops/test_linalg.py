"""Each linalg op, cut in every way its rule allows and at random, against the unsharded op."""

import random
import re

import pytest

from tests.ops.placed import (
    Case,
    at_random,
    case,
    check_every_split,
    check_means_the_same,
    rule_text,
)

pytestmark = pytest.mark.usefixtures("unoptimized")


def named(
    op: str, inputs: str, made: str, attributes: str = "", element: str = "f32", out: str = ""
) -> Case:
    """An op on arguments of these shapes, that starts from one more."""
    shapes = inputs.split()
    types = [f"tensor<{shape}x{element}>" for shape in shapes]
    types.append(f"tensor<{made}x{out or element}>" if made else f"tensor<{out or element}>")
    names = [f"%{number}" for number in range(len(types))]
    ins = f"ins({', '.join(names[:-1])} : {', '.join(types[:-1])})"
    text = f"%r = linalg.{op} {attributes} {ins} outs({names[-1]} : {types[-1]}) -> {types[-1]}"
    return Case(f"linalg.{op}", tuple(types), text, (types[-1],))


UNARY = "abs ceil copy erf exp floor log negf reciprocal round rsqrt sqrt square tanh"
BINARY = "add div max min mul powf sub"

ELEMENTWISE = {
    **{name: named(name, "4x8", "4x8") for name in UNARY.split()},
    **{f"{name} of two": named(name, "4x8 4x8", "4x8") for name in BINARY.split()},
    "elementwise": named("elementwise", "4x8 4x8", "4x8", "kind = #linalg.elementwise_kind<add>"),
    "map": case(
        "linalg.map",
        "4x8xf32 4x8xf32 4x8xf32",
        "%r = linalg.map ins(%0, %1 : $0, $1) outs(%2 : $2) (%a: f32, %b: f32, %c: f32) {\n"
        "%s = arith.addf %a, %b : f32\nlinalg.yield %s : f32\n}",
        "4x8xf32",
    ),
    "select": case(
        "linalg.select",
        "4x8xi1 4x8xf32 4x8xf32 4x8xf32",
        "%r = linalg.select ins(%0, %1, %2 : $0, $1, $2) outs(%3 : $3) -> $r",
        "4x8xf32",
    ),
    "div_unsigned": case(
        "linalg.div_unsigned",
        "4x8xi32",
        "%c = arith.constant dense<3> : $0\n"
        "%r = linalg.div_unsigned ins(%0, %c : $0, $0) outs(%0 : $0) -> $r",
        "4x8xi32",
    ),
}

CONTRACTIONS = {
    "matmul": named("matmul", "4x8 8x6", "4x6"),
    "matmul of i32": named("matmul", "4x8 8x6", "4x6", element="i32"),
    "batch_matmul": named("batch_matmul", "2x4x8 2x8x4", "2x4x4"),
    "batch_matvec": named("batch_matvec", "2x4x8 2x8", "2x4"),
    "batch_mmt4d": named("batch_mmt4d", "2x2x4x2x2 2x4x4x2x2", "2x2x4x2x2"),
    "batch_reduce_matmul": named("batch_reduce_matmul", "2x4x8 2x8x4", "4x4"),
    "batch_vecmat": named("batch_vecmat", "2x8 2x8x4", "2x4"),
    "contract": named(
        "contract",
        "4x8 8x4",
        "4x4",
        "indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,"
        " affine_map<(m, n, k) -> (m, n)>]",
    ),
    "dot": named("dot", "8 8", ""),
    "matvec": named("matvec", "4x8 8", "4"),
    "mmt4d": named("mmt4d", "2x4x2x4 4x4x2x4", "2x4x2x2"),
    "quantized_matmul": case(
        "linalg.quantized_matmul",
        "4x8xi8 8x4xi8 4x4xi32",
        "%a = arith.constant 1 : i32\n%b = arith.constant 2 : i32\n%r = linalg.quantized_matmul"
        " ins(%0, %1, %a, %b : $0, $1, i32, i32) outs(%2 : $2) -> $r",
        "4x4xi32",
    ),
    "vecmat": named("vecmat", "8 8x4", "4"),
}

MAPS_OF = "indexing_maps = [{}], iterator_types = [{}]"


def generic(arguments: str, maps: str, loops: str, inside: str, results: str) -> Case:
    """A generic op: of `maps` "ij->i", the last ones are of its outs, as many as results.

    Its loops are parallel (`p`) or reduce (`r`); the region's arguments are %a, %b, ...
    """
    shapes = arguments.split()
    count = len(results.split())
    names = sorted(set(re.findall("[i-z]", maps)))
    texts = [
        f"affine_map<({', '.join(names)}) -> ({', '.join(_indices(each))})>"
        for each in maps.split()
    ]
    kinds = ", ".join('"parallel"' if loop == "p" else '"reduction"' for loop in loops)
    ins, outs = (
        ", ".join(f"%{n}" for n in places) + " : " + ", ".join(f"${n}" for n in places)
        for places in (
            range(len(shapes) - count),
            range(len(shapes) - count, len(shapes)),
        )
    )
    block = ", ".join(
        f"%{chr(ord('a') + n)}: {each.split('x')[-1]}" for n, each in enumerate(shapes)
    )
    several = f":{count}" if count > 1 else ""
    made = "$r" if count == 1 else "$r, $s"
    given = f"ins({ins}) " if len(shapes) > count else ""
    return case(
        "linalg.generic",
        arguments,
        f"%r{several} = linalg.generic {{{MAPS_OF.format(', '.join(texts), kinds)}}} {given}"
        f"outs({outs}) {{\n^bb0({block}):\n{inside}\n}} -> {made if count == 1 else f'({made})'}",
        results,
    )


def _indices(text: str) -> list[str]:
    """`ij`, `i.j` and `2*i+j` as lists."""
    return list(text) if text.isalpha() else [each for each in text.split(".") if each]


BOTH = "%s = arith.addf %a, %b : f32\n%t = arith.{}f %a, %c : f32\nlinalg.yield %s, %t : f32, f32"
INDEX = (
    "%i = linalg.index 1 : index\n%n = arith.index_cast %i : index to i32\n"
    "%x = arith.sitofp %n : i32 to f32\n"
)
ARGMAX = (
    "%j = linalg.index 1 : index\n%n = arith.index_cast %j : index to i32\n"
    "%p = arith.cmpf ogt, %a, %b : f32\n%s = arith.select %p, %a, %b : f32\n"
    "%t = arith.select %p, %n, %c : i32\nlinalg.yield %s, %t : f32, i32"
)
COMPLEX = (
    "%e = tensor.empty() : tensor<4x8xcomplex<f32>>\n"
    "%f = linalg.map ins(%0, %1 : $0, $1) outs(%e : tensor<4x8xcomplex<f32>>)"
    " (%a: f32, %b: f32, %c: complex<f32>) {\n%z = complex.create %a, %b : complex<f32>\n"
    "%y = complex.mul %z, %z : complex<f32>\nlinalg.yield %y : complex<f32>\n}\n"
    "%h = tensor.empty() : $r\n"
    "%r = linalg.map ins(%f : tensor<4x8xcomplex<f32>>) outs(%h : $r)"
    " (%a: complex<f32>, %b: f32) {\n%y = complex.abs %a : complex<f32>\nlinalg.yield %y : f32\n}"
)
FILTER, POINTS = "8x3x3x4", "2x6x6x4"

OTHERS = {
    "broadcast": case(
        "linalg.broadcast",
        "4x8xf32 4x2x8xf32",
        "%r = linalg.broadcast ins(%0 : $0) outs(%1 : $1) dimensions = [1]",
        "4x2x8xf32",
    ),
    "transpose": case(
        "linalg.transpose",
        "4x8x2xf32 2x4x8xf32",
        "%r = linalg.transpose ins(%0 : $0) outs(%1 : $1) permutation = [2, 0, 1]",
        "2x4x8xf32",
    ),
    **{
        f"reduce by {op}": case(
            "linalg.reduce",
            f"4x8x2x{element} 8x{element}",
            f"%r = linalg.reduce {{arith.{op}}} ins(%0 : $0) outs(%1 : $1) dimensions = [0, 2]",
            f"8x{element}",
        )
        for element, ops in {
            "f32": "addf mulf maximumf minimumf maxnumf",
            "i32": "addi muli maxsi minsi maxui andi xori",
            "i1": "addi ori",
        }.items()
        for op in ops.split()
    },
    "fill": case(
        "linalg.add",
        "4x8xf32",
        "%c = arith.constant 2.0 : f32\n%e = tensor.empty() : $0\n"
        "%f = linalg.fill ins(%c : f32) outs(%e : $0) -> $0\n"
        "%r = linalg.add ins(%0, %f : $0, $0) outs(%e : $0) -> $0",
        "4x8xf32",
    ),
    "fill_rng_2d": case(
        "linalg.fill_rng_2d",
        "4x8xf64",
        "%a = arith.constant 0.0 : f64\n%b = arith.constant 1.0 : f64\n"
        "%s = arith.constant 3 : i32\n"
        "%r = linalg.fill_rng_2d ins(%a, %b, %s : f64, f64, i32) outs(%0 : $0) -> $r",
        "4x8xf64",
    ),
    "softmax": case(
        "linalg.softmax",
        "4x8xf32 4x8xf32",
        "%r = linalg.softmax dimension(1) ins(%0 : $0) outs(%1 : $1) -> $r",
        "4x8xf32",
    ),
    "pack": case(
        "linalg.pack",
        "8x8xf32 4x2x2x4xf32",
        "%r = linalg.pack %0 outer_dims_perm = [0, 1] inner_dims_pos = [0, 1] inner_tiles = [2, 4]"
        " into %1 : $0 -> $1",
        "4x2x2x4xf32",
    ),
    "pack of one dimension, turned": case(
        "linalg.pack",
        "8x8xf32 8x4x2xf32",
        "%r = linalg.pack %0 outer_dims_perm = [1, 0] inner_dims_pos = [0] inner_tiles = [2]"
        " into %1 : $0 -> $1",
        "8x4x2xf32",
    ),
    "pack that pads": case(
        "linalg.pack",
        "7x8xf32 4x8x2xf32",
        "%z = arith.constant 0.0 : f32\n%r = linalg.pack %0 padding_value(%z : f32)"
        " inner_dims_pos = [0] inner_tiles = [2] into %1 : $0 -> $1",
        "4x8x2xf32",
    ),
    "unpack": case(
        "linalg.unpack",
        "4x2x2x4xf32 8x8xf32",
        "%r = linalg.unpack %0 inner_dims_pos = [0, 1] inner_tiles = [2, 4] into %1 : $0 -> $1",
        "8x8xf32",
    ),
    "unpack that drops": case(
        "linalg.unpack",
        "4x8x2xf32 7x8xf32",
        "%r = linalg.unpack %0 inner_dims_pos = [0] inner_tiles = [2] into %1 : $0 -> $1",
        "7x8xf32",
    ),
    "winograd_filter_transform": named(
        "winograd_filter_transform", FILTER, "6x6x4x8", "fmr(F_4_3)"
    ),
    "winograd_input_transform": named(
        "winograd_input_transform", POINTS, "6x6x1x1x2x4", "fmr(F_4_3)"
    ),
    "winograd_output_transform": named(
        "winograd_output_transform", "6x6x1x1x2x8", "2x4x4x8", "fmr(F_4_3)"
    ),
    "generic that broadcasts": generic(
        "8xf32 4x8xf32", "j ij", "pp", "linalg.yield %a : f32", "4x8xf32"
    ),
    "generic that reads an index": generic(
        "4x8xf32 4x8xf32",
        "ij ij",
        "pp",
        INDEX + "%s = arith.addf %a, %x : f32\nlinalg.yield %s : f32",
        "4x8xf32",
    ),
    "generic sum of two kinds": generic(
        "4x8xf32 4xf32 4xf32", "ij i i", "pr", BOTH.format("maximum"), "4xf32 4xf32"
    ),
    "generic sum twice": generic(
        "4x8xf32 4xf32 4xf32", "ij i i", "pr", BOTH.format("add"), "4xf32 4xf32"
    ),
    "generic sum twice, once from zero": case(
        "linalg.generic",
        "4x8xf32 4xf32",
        "%z = arith.constant 0.0 : f32\n%e = tensor.empty() : $1\n"
        "%f = linalg.fill ins(%z : f32) outs(%e : $1) -> $1\n"
        "%r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,"
        " affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>], iterator_types ="
        ' ["parallel", "reduction"]} ins(%0 : $0) outs(%1, %f : $1, $1) {\n'
        f"^bb0(%a: f32, %b: f32, %c: f32):\n{BOTH.format('add')}\n}} -> ($r, $s)",
        "4xf32 4xf32",
    ),
    "generic sum, and not": generic(
        "4x8xf32 4xf32 4x8xf32", "ij i ij", "pr", BOTH.format("add"), "4xf32 4x8xf32"
    ),
    "generic argmax": generic("4x8xf32 4xf32 4xi32", "ij i i", "pr", ARGMAX, "4xf32 4xi32"),
    "generic diagonal": generic("8x8xf32 8xf32", "ii i", "p", "linalg.yield %a : f32", "8xf32"),
    "generic that reverses": generic(
        "8xf32 8xf32", "-i+7 i", "p", "linalg.yield %a : f32", "8xf32"
    ),
    "generic that slices": generic("8xf32 4xf32", "i+2 i", "p", "linalg.yield %a : f32", "4xf32"),
    "generic that takes each second": generic(
        "8xf32 4xf32", "2*i i", "p", "linalg.yield %a : f32", "4xf32"
    ),
    "generic that splits": generic(
        "8xf32 4x2xf32", "2*i+j i.j", "pp", "linalg.yield %a : f32", "4x2xf32"
    ),
    "complex": case("linalg.map", "4x8xf32 4x8xf32", COMPLEX, "4x8xf32"),
}


def any_generic(seed: int) -> Case:
    """A generic op of three loops: each operand has some, in any order; the rest is reduced."""
    rng = random.Random(seed)
    sizes = {"i": 4, "j": 8, "k": 2}
    element = rng.choice(("f32", "i32"))
    kinds = {"f32": "addf mulf maximumf minimumf", "i32": "addi muli maxsi minsi"}
    made = rng.sample("ijk", rng.randint(0, 3))
    inputs = [rng.sample("ijk", rng.randint(1, 3)) for _ in range(rng.randint(1, 2))]
    inputs[0] += sorted(set("ijk").difference(made, *inputs))
    types = ["x".join([*(str(sizes[loop]) for loop in each), element]) for each in (*inputs, made)]
    init = "abc"[len(inputs)]
    join = f"%s = arith.{'addf' if element == 'f32' else 'addi'} %a, %b : {element}\n"
    value = "%s" if len(inputs) == 2 else "%a"
    inside = (
        f"{join if len(inputs) == 2 else ''}"
        f"%t = arith.{rng.choice(kinds[element].split())} {value}, %{init} : {element}\n"
        f"linalg.yield %t : {element}"
    )
    maps = " ".join(".".join(each) or "." for each in (*inputs, made))
    loops = "".join("p" if loop in made else "r" for loop in "ijk")
    return generic(" ".join(types), maps, loops, inside, types[-1])


SPLIT_IN_NO_WAY = {
    "fill_rng_2d",
    "generic diagonal",
    "generic that reverses",
}
CASES = CONTRACTIONS | OTHERS


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_every_split_is_reached(name: str) -> None:
    assert (check_every_split(CASES[name], runs=2) == 0) == (name in SPLIT_IN_NO_WAY)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_placed_at_random_it_means_the_same(name: str, seed: int) -> None:
    check_means_the_same(at_random(CASES[name], seed))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_ops_mean_the_same(name: str) -> None:
    assert rule_text(ELEMENTWISE[name]).endswith("-> ([a, b])")
    check_means_the_same(at_random(ELEMENTWISE[name], 0))


@pytest.mark.parametrize("seed", range(20))
def test_random_generics_mean_the_same(seed: int) -> None:
    check_every_split(any_generic(seed), runs=3)
    check_means_the_same(at_random(any_generic(seed), seed))


RULES_AS_TEXT = {
    "reduce by maxnumf": "([a, b, c], [b]) -> ([b]) whole={a, c}",
    "softmax": "([a, b], [a, b]) -> ([a, b]) whole={b}",
    "pack": "([ab, cd], [a, c, b, d]) -> ([a, c, b, d]) whole={b, d}",
    "pack that pads": "([1, a], [1, a, 1], -) -> ([1, a, 1])",
    "unpack": "([a, c, b, d], [ab, cd]) -> ([ab, cd]) whole={b, d}",
    "generic that reads an index": "([a, b], [a, b]) -> ([a, b])",
    "generic sum of two kinds": "([a, b], [a], [a]) -> ([a], [a]) whole={b}",
    "generic sum twice": "([a, b], [a], [a]) -> ([a], [a]) reduction={b: sum}",
    "generic sum, and not": "([a, b], [a], [a, b]) -> ([a], [a, b]) whole={b}",
    "generic argmax": "([a, b], [a], [a]) -> ([a], [a]) whole={b}",
    "generic diagonal": "([1, 1], [a]) -> ([a]) whole={a}",
    "generic that slices": "([a], [a]) -> ([a]) permuted={a}",
    "generic that splits": "([ab], [a, b]) -> ([a, b])",
}


@pytest.mark.parametrize("name", RULES_AS_TEXT)
def test_the_rule_is(name: str) -> None:
    assert rule_text(CASES[name]) == RULES_AS_TEXT[name]
