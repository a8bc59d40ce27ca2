"""Ten programs written in JAX for which `benchmarks/search.py` has a search find the shardings.

    python -m benchmarks.searched_programs decoder [--grid 2x4] [--zero] > decoder.mlir

Without a grid they have no annotations. With one they have an expert's: the batch is split along
the first axis, the weights along the second as in Megatron, with sequence parallelism between
blocks, and with `--zero` also along the first one, as in ZeRO-3. New weights and moments come out
sharded as the old ones come in.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

Array = jax.Array
Weights = Any
Between = Callable[[Array], Array]
"""What stands between blocks: an expert's constraint, or nothing."""
DEVICES = 8
GRIDS = ((8, 1), (4, 2), (2, 4), (1, 8))
RATE = 1e-2


@dataclass(frozen=True)
class Program:
    """A model: its loss or output, the shapes of its weights and data, and Megatron's splits."""

    model: Callable[[Weights, Any, Between], Array]
    weights: Any
    data: tuple[Any, ...]
    megatron: dict[str, int]
    """The dimension that is split, by the name of the weight; others are replicated."""
    optimizer: str = ""
    """`sgd`, `adam`, or none: then only the model is run."""


def shape(*sizes: int, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
    """A tensor."""
    return jax.ShapeDtypeStruct(sizes, dtype)


def norm(x: Array, scale: Array) -> Array:
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def layer_norm(x: Array, scale: Array, bias: Array) -> Array:
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale + bias


def attend(y: Array, to: Array, w: Weights, mask: bool = False, bias: Array | None = None) -> Array:
    q = jnp.einsum("bse,ehd->bshd", y, w["q"])
    k, v = (jnp.einsum("bse,ehd->bshd", to, w[name]) for name in "kv")
    scores = jnp.einsum("bshd,bthd->bhst", q, k) / q.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias
    if mask:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    return jnp.einsum("bhst,bthd,hde->bse", jax.nn.softmax(scores, axis=-1), v, w["o"])


def attention_weights(width: int, heads: int) -> dict[str, Any]:
    size = width // heads
    return {name: shape(width, heads, size) for name in "qkv"} | {"o": shape(heads, size, width)}


HEADS = {"q": 1, "k": 1, "v": 1, "o": 0}
MLP = {"up": 1, "up_bias": 0, "gate": 1, "down": 0}


def cross_entropy(logits: Array, targets: Array) -> Array:
    found = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(found, targets[..., None], -1))


def decoder() -> Program:
    """Four decoder layers in a scan, each rematerialized, with an untied head; SGD."""
    width, layers, heads, hidden, vocabulary = 512, 4, 8, 2048, 4096

    def block(x: Array, w: Weights, between: Between) -> Array:
        y = norm(x, w["n1"])
        x = between(x + attend(y, y, w, mask=True))
        return between(x + jax.nn.gelu(norm(x, w["n2"]) @ w["up"]) @ w["down"])

    def model(ws: Weights, data: Any, between: Between) -> Array:
        x = between(ws["embed"][data[0]])
        one = jax.checkpoint(lambda x, w: (block(x, w, between), None))
        x, _ = lax.scan(one, x, ws["layers"])
        return cross_entropy(x @ ws["head"], data[1])

    one = {
        **attention_weights(width, heads),
        "n1": shape(width),
        "n2": shape(width),
        "up": shape(width, hidden),
        "down": shape(hidden, width),
    }
    stacked = {name: shape(layers, *each.shape) for name, each in one.items()}
    ws = {
        "embed": shape(vocabulary, width),
        "head": shape(width, vocabulary),
        "layers": stacked,
    }
    tokens = shape(16, 128, dtype=np.int32)
    splits = {name: dim + 1 for name, dim in (HEADS | MLP).items()}
    return Program(model, ws, (tokens, tokens), splits | {"embed": 0, "head": 1}, "sgd")


def llama() -> Program:
    """Two unrolled layers with rotary embeddings, grouped heads and a gated MLP; Adam."""
    width, layers, heads, groups, hidden = 512, 2, 16, 8, 1536
    size = width // heads

    def rotate(x: Array) -> Array:
        half = size // 2
        angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
        sin, cos = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None]
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def attention(y: Array, w: Weights) -> Array:
        q = rotate(jnp.einsum("bse,ehd->bshd", y, w["q"]))
        k = rotate(jnp.einsum("bse,ehd->bshd", y, w["k"]))
        v = jnp.einsum("bse,ehd->bshd", y, w["v"])
        q = q.reshape(*q.shape[:2], groups, heads // groups, size)
        scores = jnp.einsum("bsgrd,btgd->bgrst", q, k) / size**0.5
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
        y = jnp.einsum("bgrst,btgd->bsgrd", jax.nn.softmax(scores, axis=-1), v)
        return jnp.einsum("bshd,hde->bse", y.reshape(*y.shape[:2], heads, size), w["o"])

    def model(ws: Weights, data: Any, between: Between) -> Array:
        x = between(data[0])
        for w in ws:
            x = between(x + attention(norm(x, w["n1"]), w))
            y = norm(x, w["n2"])
            x = between(x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"])
        return jnp.mean((x - data[1]) ** 2)

    one = {
        "q": shape(width, heads, size),
        "k": shape(width, groups, size),
        "v": shape(width, groups, size),
        "o": shape(heads, size, width),
        "n1": shape(width),
        "n2": shape(width),
        "gate": shape(width, hidden),
        "up": shape(width, hidden),
        "down": shape(hidden, width),
    }
    x = shape(8, 256, width)
    return Program(model, [one] * layers, (x, x), HEADS | MLP, "adam")


def vit() -> Program:
    """A vision transformer of two blocks: patches by a convolution; forward."""
    width, layers, heads, hidden, classes = 512, 2, 8, 2048, 1024

    def model(ws: Weights, data: Any, between: Between) -> Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        x = lax.conv_general_dilated(
            data[0], ws["patch"], (8, 8), "VALID", dimension_numbers=numbers
        )
        x = between(x.reshape(x.shape[0], -1, width) + ws["places"])
        for w in ws["layers"]:
            y = layer_norm(x, w["s1"], w["b1"])
            x = between(x + attend(y, y, w))
            y = layer_norm(x, w["s2"], w["b2"])
            x = between(x + jax.nn.gelu(y @ w["up"] + w["up_bias"]) @ w["down"] + w["down_bias"])
        return jax.nn.softmax(jnp.mean(x, axis=1) @ ws["classify"])

    one = attention_weights(width, heads)
    one |= {name: shape(width) for name in ("s1", "b1", "s2", "b2", "down_bias")}
    one |= {"up": shape(width, hidden), "up_bias": shape(hidden), "down": shape(hidden, width)}
    ws = {
        "patch": shape(8, 8, 3, width),
        "places": shape(256, width),
        "classify": shape(width, classes),
        "layers": [one] * layers,
    }
    return Program(model, ws, (shape(16, 128, 128, 3),), HEADS | MLP | {"classify": 1})


def experts() -> Program:
    """Two layers of eight experts, with one expert a token and capacities, as in GShard; SGD."""
    width, hidden, number, capacity = 512, 1024, 8, 64

    def model(ws: Weights, data: Any, between: Between) -> Array:
        x = between(data[0])
        for w in ws:
            y = norm(x, w["n"])
            gates = jax.nn.softmax(y @ w["router"])
            chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), number)
            place = jnp.cumsum(chosen, axis=1) * chosen - 1
            dispatch = chosen[..., None] * jax.nn.one_hot(place, capacity)
            inside = jnp.einsum("gsec,gsm->egcm", dispatch, y)
            inside = jax.nn.relu(jnp.einsum("egcm,emh->egch", inside, w["w1"]))
            inside = jnp.einsum("egch,ehm->egcm", inside, w["w2"])
            combine = dispatch * jnp.max(gates, axis=-1)[..., None, None]
            x = between(x + jnp.einsum("gsec,egcm->gsm", combine, inside))
        return jnp.mean((x - data[1]) ** 2)

    one = {
        "n": shape(width),
        "router": shape(width, number),
        "w1": shape(number, width, hidden),
        "w2": shape(number, hidden, width),
    }
    x = shape(8, 256, width)
    return Program(model, [one] * 2, (x, x), {"w1": 0, "w2": 0}, "sgd")


def unet() -> Program:
    """Two levels of a U-Net, with group norms and a skip connection; SGD."""
    channels = 128

    def convolve(x: Array, w: Array, stride: int = 1) -> Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        strides = (stride, stride)
        return lax.conv_general_dilated(x, w, strides, "SAME", dimension_numbers=numbers)

    def normed(x: Array, scale: Array) -> Array:
        y = x.reshape(*x.shape[:3], 8, -1)
        y = y - jnp.mean(y, axis=(1, 2, 4), keepdims=True)
        y = y * lax.rsqrt(jnp.mean(y * y, axis=(1, 2, 4), keepdims=True) + 1e-5)
        return jax.nn.silu(y.reshape(x.shape) * scale)

    def block(x: Array, w: Weights) -> Array:
        y = convolve(normed(x, w["s1"]), w["first"])
        return x + convolve(normed(y, w["s2"]), w["second"])

    def model(ws: Weights, data: Any, between: Between) -> Array:
        top = block(convolve(data[0], ws["in"]), ws["top"])
        x = block(convolve(top, ws["narrow"], 2), ws["middle"])
        x = jax.image.resize(x, (*top.shape[:3], x.shape[3]), "nearest")
        x = jnp.concatenate([top, convolve(x, ws["widen"])], axis=-1)
        return jnp.mean((convolve(x, ws["out"]) - data[1]) ** 2)

    def kernel(i: int, o: int) -> Any:
        return shape(3, 3, i, o)

    def weights(n: int) -> Any:
        return {"s1": shape(n), "s2": shape(n), "first": kernel(n, n), "second": kernel(n, n)}

    ws = {
        "in": kernel(4, channels),
        "top": weights(channels),
        "narrow": kernel(channels, 2 * channels),
        "middle": weights(2 * channels),
        "widen": kernel(2 * channels, channels),
        "out": kernel(2 * channels, 4),
    }
    x = shape(16, 32, 32, 4)
    return Program(model, ws, (x, x), {"first": 3, "second": 2}, "sgd")


def lstm() -> Program:
    """Two LSTM layers over a scan of 32 steps, and a head; SGD."""
    width, vocabulary = 512, 2048

    def model(ws: Weights, data: Any, between: Between) -> Array:
        x = ws["embed"][data[0]].transpose(1, 0, 2)
        for w in ws["layers"]:

            def step(carry: Any, x: Array, w: Weights = w) -> Any:
                h, c = carry
                gates = jnp.einsum("bi,igh->bgh", x, w["wx"]) + w["bias"]
                gates = gates + jnp.einsum("bi,igh->bgh", h, w["wh"])
                i, f, g, o = (gates[:, n] for n in range(4))
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h

            zeros = jnp.zeros((x.shape[1], width))
            _, x = lax.scan(step, (zeros, zeros), x)
        return cross_entropy(x @ ws["head"], data[1].T)

    one = {
        "wx": shape(width, 4, width),
        "wh": shape(width, 4, width),
        "bias": shape(4, width),
    }
    ws = {"embed": shape(vocabulary, width), "head": shape(width, vocabulary), "layers": [one] * 2}
    tokens = shape(64, 32, dtype=np.int32)
    splits = {"wx": 2, "wh": 2, "bias": 1, "embed": 1, "head": 1}
    return Program(model, ws, (tokens, tokens), splits, "sgd")


def mixer() -> Program:
    """Two blocks of an MLP-mixer; Adam."""
    width, places, hidden, classes = 512, 128, 2048, 1024

    def model(ws: Weights, data: Any, between: Between) -> Array:
        x = between(data[0])
        for w in ws["layers"]:
            y = layer_norm(x, w["s1"], w["b1"]).transpose(0, 2, 1)
            x = between(x + (jax.nn.gelu(y @ w["mix"]) @ w["back"]).transpose(0, 2, 1))
            y = layer_norm(x, w["s2"], w["b2"])
            x = between(x + jax.nn.gelu(y @ w["up"]) @ w["down"])
        return cross_entropy(jnp.mean(x, axis=1) @ ws["classify"], data[1])

    one = {name: shape(width) for name in ("s1", "b1", "s2", "b2")}
    one |= {"mix": shape(places, 4 * places), "back": shape(4 * places, places)}
    one |= {"up": shape(width, hidden), "down": shape(hidden, width)}
    ws = {"layers": [one] * 2, "classify": shape(width, classes)}
    data = (shape(32, places, width), shape(32, dtype=np.int32))
    splits = {"mix": 1, "back": 0, "up": 1, "down": 0, "classify": 1}
    return Program(model, ws, data, splits, "adam")


def graph() -> Program:
    """Two layers that pass messages along the edges of a graph; SGD."""
    nodes, edges, width = 4096, 16384, 256

    def model(ws: Weights, data: Any, between: Between) -> Array:
        x, senders, receivers, target = data
        for w in ws:
            messages = jax.nn.relu(x[senders] @ w["message"])
            sums = jax.ops.segment_sum(messages, receivers, num_segments=nodes)
            x = x + jax.nn.relu((x @ w["self"] + sums) @ w["up"]) @ w["down"]
        return jnp.mean((x - target) ** 2)

    one = {
        "message": shape(width, width),
        "self": shape(width, width),
        "up": shape(width, 4 * width),
        "down": shape(4 * width, width),
    }
    data = (
        shape(nodes, width),
        shape(edges, dtype=np.int32),
        shape(edges, dtype=np.int32),
        shape(nodes, width),
    )
    return Program(model, [one] * 2, data, {"up": 1, "down": 0}, "sgd")


def tied() -> Program:
    """An embedding that is the head, too, around one block; Adam."""
    width, hidden, vocabulary = 512, 2048, 16384

    def model(ws: Weights, data: Any, between: Between) -> Array:
        x = between(ws["embed"][data[0]] + ws["places"])
        x = between(x + jax.nn.relu(norm(x, ws["n"]) @ ws["up"]) @ ws["down"])
        return cross_entropy(x @ ws["embed"].T, data[1])

    ws = {
        "embed": shape(vocabulary, width),
        "places": shape(64, width),
        "n": shape(width),
        "up": shape(width, hidden),
        "down": shape(hidden, width),
    }
    tokens = shape(16, 64, dtype=np.int32)
    return Program(model, ws, (tokens, tokens), {"embed": 0, "up": 1, "down": 0}, "adam")


def t5() -> Program:
    """An encoder layer and a decoder layer that attends to it, with biases of positions; SGD."""
    width, heads, hidden = 512, 8, 2048

    def mlp(x: Array, w: Weights) -> Array:
        return jax.nn.relu(norm(x, w["n"]) @ w["up"]) @ w["down"]

    def model(ws: Weights, data: Any, between: Between) -> Array:
        source, x, target = data
        source, x, w = between(source), between(x), ws["encoder"]
        y = norm(source, w["n1"])
        source = between(source + attend(y, y, w["self"], bias=ws["bias"]))
        source = between(source + mlp(source, w))
        w = ws["decoder"]
        y = norm(x, w["n1"])
        x = between(x + attend(y, y, w["self"], mask=True, bias=ws["bias"]))
        x = between(x + attend(norm(x, w["n2"]), source, w["cross"]))
        return jnp.mean((between(x + mlp(x, w)) - target) ** 2)

    one = {
        "self": attention_weights(width, heads),
        "up": shape(width, hidden),
        "down": shape(hidden, width),
        "n": shape(width),
        "n1": shape(width),
    }
    other = one | {"cross": attention_weights(width, heads), "n2": shape(width)}
    ws = {"encoder": one, "decoder": other, "bias": shape(heads, 128, 128)}
    x = shape(16, 128, width)
    return Program(model, ws, (x, x, x), HEADS | MLP | {"bias": 0}, "sgd")


PROGRAMS: dict[str, Callable[[], Program]] = {
    each.__name__: each
    for each in (decoder, llama, vit, experts, unet, lstm, mixer, graph, tied, t5)
}


def step_of(program: Program, between: Between) -> Callable[..., Any]:
    """The function of the state and the data: a step of training, or the model itself."""

    def loss(ws: Weights, data: Any) -> Array:
        return program.model(ws, data, between)

    def sgd(state: Any, data: Any) -> Any:
        found, gradients = jax.value_and_grad(loss)(state[0], data)
        return (jax.tree.map(lambda w, g: w - RATE * g, state[0], gradients),), found

    def adam(state: Any, data: Any) -> Any:
        ws, first, second = state
        found, gradients = jax.value_and_grad(loss)(ws, data)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        new = jax.tree.map(lambda w, m, v: w - RATE * m / (jnp.sqrt(v) + 1e-8), ws, first, second)
        return (new, first, second), found

    steps = {"sgd": sgd, "adam": adam, "": lambda state, data: loss(state[0], data)}
    return steps[program.optimizer]


def module(name: str, grid: tuple[int, int] | None = None, zero: bool = False) -> str:
    """The text that JAX lowers a program to, with an expert's annotations where there is a grid."""
    program = PROGRAMS[name]()
    state = (program.weights,) * (3 if program.optimizer == "adam" else 1)
    if grid is None:
        lowered = jax.jit(step_of(program, lambda x: x)).trace(state, program.data)
        return str(lowered.lower(lowering_platforms=("cpu",)).as_text())
    mesh = AbstractMesh(grid, ("data", "model"))

    def of_weight(path: Any, each: Any) -> NamedSharding:
        split: list[Any] = [None] * len(each.shape)
        dim = program.megatron.get(str(path[-1].key))
        if dim is not None and each.shape[dim] % grid[1] == 0:
            split[dim] = "model"
        sizes = [0 if axis or n % grid[0] else n for n, axis in zip(each.shape, split, strict=True)]
        if zero and max(sizes):
            split[int(np.argmax(sizes))] = "data"
        return NamedSharding(mesh, P(*split))

    def between(x: Array) -> Array:
        return lax.with_sharding_constraint(x, NamedSharding(mesh, P("data", "model", None)))

    shardings = jax.tree_util.tree_map_with_path(of_weight, state)
    rows = jax.tree.map(lambda _: NamedSharding(mesh, P("data")), program.data)
    results = (shardings, NamedSharding(mesh, P())) if program.optimizer else rows[0]
    step = jax.jit(step_of(program, between), in_shardings=(shardings, rows), out_shardings=results)
    return str(step.trace(state, program.data).lower(lowering_platforms=("cpu",)).as_text())


def main() -> None:
    """Print one module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--grid")
    parser.add_argument("--zero", action="store_true")
    options = parser.parse_args()
    grid = None
    if options.grid:
        first, second = map(int, options.grid.split("x"))
        grid = first, second
    print(module(options.name, grid, options.zero), end="")


if __name__ == "__main__":
    main()
