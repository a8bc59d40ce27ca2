"""Samples of linalg's ops: those with loops, and the few without.

The names of convolutions and poolings have the order of dimensions:

conv_2d_nhwc_hwcf    an image [n, h, w, c], a kernel [h, w, c, f], and of both [n, h, w, f]
"""

from __future__ import annotations

from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.sample import Sample, Tensor


def started(draws: Draws, op: str, text: str, operands: list[Tensor], result: Tensor) -> Sample:
    """`%r = text outs(...)`: from a tensor of its own, or from one that is filled."""
    if draws.chance(0.5):
        init = len(operands)
        last = f"%r = {text} outs(%{init} : $r) -> $r"
        return Sample.of(op, [*operands, result], last, [result])
    zero = "0.0" if result.is_float else "0"
    before = (
        f"%z = arith.constant {zero} : {result.element}\n%e = tensor.empty() : $r\n"
        f"%f = linalg.fill ins(%z : {result.element}) outs(%e : $r) -> $r\n"
    )
    return Sample.of(op, operands, f"{before}%r = {text} outs(%f : $r) -> $r", [result])


def ins(count: int) -> str:
    positions = range(count)
    names, types = (", ".join(f"{sign}{number}" for number in positions) for sign in "%$")
    return f"ins({names} : {types})"


def map_(draws: Draws) -> Sample:
    x = draws.any()
    text = (
        "%r = linalg.map ins(%0, %1 : $0, $1) outs(%2 : $2) (%a: f32, %b: f32, %c: f32) {\n"
        "%s = arith.addf %a, %b : f32\nlinalg.yield %s : f32\n}"
    )
    return Sample.of("linalg.map", [x] * 3, text, [x])


def select(draws: Draws) -> Sample:
    x = draws.any()
    return started(draws, "linalg.select", f"linalg.select {ins(3)}", [x.of("i1"), x, x], x)


def div_unsigned(draws: Draws) -> Sample:
    x = draws.any("i32")
    text = (
        "%c = arith.constant dense<3> : $0\n"
        "%r = linalg.div_unsigned ins(%0, %c : $0, $0) outs(%0 : $0) -> $r"
    )
    return Sample.of("linalg.div_unsigned", [x], text, [x])


def _shaped(draws: Draws, dims: str, element: str, sizes: dict[str, int]) -> Tensor:
    """A tensor with a dimension for each letter; `sizes` are those of the letters so far."""
    tensor = draws.fits(element, *(sizes.get(letter) for letter in dims))
    sizes.update(zip(dims, tensor.shape, strict=True))
    return tensor


def contraction(name: str, spec: str, draws: Draws) -> Sample:
    a_dims, b_dims, dims = spec.split(" ")
    op = f"linalg.{name}"
    is_quantized = name.startswith("quantized")
    element = "i8" if is_quantized else "f32"
    sizes: dict[str, int] = {letter: draws.pick(2, 4) for letter in "xyz"}
    a, b = (_shaped(draws, each, element, sizes) for each in (a_dims, b_dims))
    result = Tensor(tuple(sizes[letter] for letter in dims), "i32" if is_quantized else "f32")
    if not is_quantized:
        return started(draws, op, f"{op} {ins(2)}", [a, b], result)
    text = (
        "%a = arith.constant 1 : i32\n%b = arith.constant 2 : i32\n"
        f"%r = {op} ins(%0, %1, %a, %b : $0, $1, i32, i32) outs(%2 : $2) -> $r"
    )
    return Sample.of(op, [a, b, result], text, [result])


def _maps(specs: list[str]) -> str:
    letters = sorted({letter for spec in specs for letter in spec})
    each = [f"affine_map<({', '.join(letters)}) -> ({', '.join(spec)})>" for spec in specs]
    return f"indexing_maps = [{', '.join(each)}]"


def contract(draws: Draws) -> Sample:
    """A product of two matrices, any of the three turned."""
    sizes: dict[str, int] = {}
    specs = [draws.pick(each, each[::-1]) for each in ("mk", "kn", "mn")]
    a, b = (_shaped(draws, each, "f32", sizes) for each in specs[:2])
    result = Tensor(tuple(sizes[letter] for letter in specs[2]))
    return started(
        draws, "linalg.contract", f"linalg.contract {_maps(specs)} {ins(2)}", [a, b], result
    )


_KINDS = {
    "f32": "addf mulf maximumf minimumf maxnumf",
    "i32": "addi muli maxsi minsi maxui andi xori",
}


def reduce(draws: Draws) -> Sample:
    element = draws.pick("f32", "f32", "i32")
    x = draws.any(element, least=1)
    dims = sorted(draws.order(len(x.shape))[: draws.number(1, len(x.shape))])
    result = x.without(*dims)
    combine = draws.pick(*_KINDS[element].split())
    text = f"%r = linalg.reduce {{arith.{combine}}} ins(%0 : $0) outs(%1 : $1) dimensions = {dims}"
    return Sample.of("linalg.reduce", [x, result], text, [result])


def broadcast(draws: Draws) -> Sample:
    x = draws.any(most=2)
    dim = draws.number(0, len(x.shape))
    result = Tensor((*x.shape[:dim], draws.size(), *x.shape[dim:]))
    text = (
        "%e = tensor.empty() : $r\n"
        f"%r = linalg.broadcast ins(%0 : $0) outs(%e : $r) dimensions = [{dim}]"
    )
    return Sample.of("linalg.broadcast", [x], text, [result])


def transpose(draws: Draws) -> Sample:
    x = draws.any(least=1)
    order = draws.order(len(x.shape))
    result = Tensor(tuple(x.shape[dim] for dim in order))
    text = (
        "%e = tensor.empty() : $r\n"
        f"%r = linalg.transpose ins(%0 : $0) outs(%e : $r) permutation = {order}"
    )
    return Sample.of("linalg.transpose", [x], text, [result])


def fill(draws: Draws) -> Sample:
    x = draws.any()
    text = (
        "%c = tensor.extract %1[] : $1\n%e = tensor.empty() : $0\n"
        "%f = linalg.fill ins(%c : f32) outs(%e : $0) -> $0\n%r = arith.addf %0, %f : $0"
    )
    return Sample.of("linalg.fill", [x, Tensor(())], text, [x])


def fill_rng_2d(draws: Draws) -> Sample:
    result = draws.fits("f64", None, None)
    text = (
        "%a = arith.constant 0.0 : f64\n%b = arith.constant 1.0 : f64\n"
        "%s = arith.constant 3 : i32\n"
        "%r = linalg.fill_rng_2d ins(%a, %b, %s : f64, f64, i32) outs(%0 : $0) -> $r"
    )
    return Sample.of("linalg.fill_rng_2d", [result], text, [result])


def softmax(draws: Draws) -> Sample:
    x = draws.any(least=1)
    text = f"%r = linalg.softmax dimension({draws.dim(x)}) ins(%0 : $0) outs(%1 : $1) -> $r"
    return Sample.of("linalg.softmax", [x, x], text, [x])


def _packed(draws: Draws) -> tuple[Tensor, Tensor, str, bool]:
    """A matrix, the same in tiles, how, and whether the last tiles reach beyond it."""
    x = draws.fits("f32", None, None)
    tile = draws.pick(2, 4)
    outer = [-(-x.shape[0] // tile), x.shape[1]]
    order = draws.order(2)
    result = Tensor((*(outer[dim] for dim in order), tile))
    attributes = f"outer_dims_perm = {order} inner_dims_pos = [0] inner_tiles = [{tile}]"
    return x, result, attributes, x.shape[0] % tile != 0


def pack(draws: Draws) -> Sample:
    x, result, attributes, pads = _packed(draws)
    value = "padding_value(%z : f32) " if pads else ""
    text = (
        f"%z = arith.constant 0.5 : f32\n%r = linalg.pack %0 {value}{attributes} into %1 : $0 -> $1"
    )
    return Sample.of("linalg.pack", [x, result], text, [result])


def unpack(draws: Draws) -> Sample:
    x, tiled, attributes, _ = _packed(draws)
    return Sample.of(
        "linalg.unpack", [tiled, x], f"%r = linalg.unpack %0 {attributes} into %1 : $0 -> $1", [x]
    )


def winograd(name: str, draws: Draws) -> Sample:
    """Of 3x3 filters and 6x6 points: F(4, 3)."""
    n, c, f = (draws.size() for _ in range(3))
    shapes = {
        "filter": ((f, 3, 3, c), (6, 6, c, f)),
        "input": ((n, 6, 6, c), (6, 6, 1, 1, n, c)),
        "output": ((6, 6, 1, 1, n, f), (n, 4, 4, f)),
    }
    x, result = map(Tensor, shapes[name])
    op = f"linalg.winograd_{name}_transform"
    return started(draws, op, f"{op} fmr(F_4_3) {ins(1)}", [x], result)


_INDEX = (
    "%i = linalg.index {} : index\n%n = arith.index_cast %i : index to i32\n"
    "%x = arith.sitofp %n : i32 to f32\n%s = arith.addf %a, %x : f32\nlinalg.yield %s : f32"
)


def generic(draws: Draws) -> Sample:
    """Of three loops: each operand has some in any order, what the result lacks is reduced."""
    letters = "ijk"
    sizes = {letter: draws.size() for letter in letters}
    result = [letters[number] for number in draws.order(3)[: draws.number(0, 3)]]
    inputs = [
        [letters[number] for number in draws.order(3)[: draws.number(1, 3)]]
        for _ in range(draws.number(1, 2))
    ]
    inputs[0] += sorted(set(letters).difference(result, *inputs))
    specs = ["".join(each) for each in (*inputs, result)]
    tensors = [Tensor(tuple(sizes[letter] for letter in spec)) for spec in specs]
    kinds = ['"parallel"' if letter in result else '"reduction"' for letter in letters]
    count = len(inputs)
    block = ", ".join(f"%{'abc'[number]}: f32" for number in range(count + 1))
    reads_index = len(result) == 3 and draws.chance(0.3)
    first = "%s = arith.addf %a, %b : f32\n" if count == 2 else ""
    value, init = "%s" if first else "%a", f"%{'abc'[count]}"
    last = f"%t = arith.{draws.pick(*_KINDS['f32'].split())} {value}, {init} : f32"
    inside = (
        _INDEX.format(draws.number(0, 2))
        if reads_index
        else f"{first}{last}\nlinalg.yield %t : f32"
    )
    text = (
        f"%r = linalg.generic {{{_maps(specs)}, iterator_types = [{', '.join(kinds)}]}} "
        f"{ins(count)} outs(%{count} : ${count}) {{\n^bb0({block}):\n{inside}\n}} -> $r"
    )
    return Sample.of("linalg.generic", tensors, text, tensors[-1:])


_SPACE = "dhw"


def _layouts(name: str) -> tuple[str, str, str]:
    """The letters of the image, of the kernel, and of the result."""
    parts = name.replace("depthwise_", "").split("_")
    if parts[0] == "pooling":
        image = parts[1]
        return image, "".join(letter for letter in image if letter in _SPACE), image
    if len(parts) == 2:
        plain = _SPACE[3 - int(parts[1][0]) :]
        return plain, plain, plain
    image, kernel = parts[2:4]
    if name.startswith("depthwise"):
        return image, kernel, image + "m" * ("m" in kernel)
    return image, kernel, image.replace("c", "f")


def windowed(name: str, draws: Draws) -> Sample:
    """A sample of the op, with windows that overlap or not."""
    image, kernel, result = _layouts(name)
    few = dict.fromkeys(image + kernel, 0)
    window, stride = draws.pick((3, 1), (2, 2), (1, 1), (3, 2))
    sizes = {letter: draws.size() for letter in few}
    reads = {letter: window if letter in _SPACE else sizes[letter] for letter in kernel}
    if len(image) > 4:  # so that there are not too many elements
        sizes |= {letter: draws.pick(2, 4) for letter in few if letter in "ngcfm"}
        reads |= {letter: sizes[letter] for letter in kernel if letter not in _SPACE}
    gives = sizes | {
        letter: draws.pick(2, 4) if len(image) > 4 else draws.size() for letter in _SPACE
    }
    takes = sizes | {
        letter: (gives[letter] - 1) * stride + window for letter in image if letter in _SPACE
    }
    elements = "i8" if name.endswith("_q") else "i32" if "unsigned" in name else "f32"
    x = Tensor(tuple(takes[letter] for letter in image), elements)
    w = Tensor(tuple(reads[letter] for letter in kernel), elements)
    r = Tensor(tuple(gives[letter] for letter in result), "i32" if elements == "i8" else elements)
    rank = sum(letter in _SPACE for letter in image)
    attributes = (
        f"{{strides = dense<{stride}> : tensor<{rank}xi64>}} "
        if stride > 1 and len(image) > rank
        else ""
    )
    if attributes == "" and stride > 1:
        x = Tensor(tuple(gives[letter] + window - 1 for letter in image), elements)
    zeros, inputs = "", "ins(%0, %1 : $0, $1)"
    if elements == "i8":
        zeros = "%a = arith.constant 1 : i32\n%b = arith.constant 2 : i32\n"
        inputs = "ins(%0, %1, %a, %b : $0, $1, i32, i32)"
    text = f"{zeros}%r = linalg.{name} {attributes}{inputs} outs(%2 : $2) -> $r"
    return Sample.of(f"linalg.{name}", [x, w, r], text, [r])
