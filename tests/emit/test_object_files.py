"""Object files under MPI, from C and from C++: the same results as from Python."""

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.backends.cpu.object_file import object_file
from shard_dialect.opt import main
from shard_dialect.runtime.random_inputs import random_inputs
from tests.conftest import ROOT, run_child

BIN = Path(sys.executable).parent
COMPILERS = {"mpicc": ("c", "-std=c99"), "mpicxx": ("cpp", "-std=c++11")}
pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or not (BIN / "mpicc").exists(), reason="no compiler for MPI"
)
ELEMENTS = """
shard.grid @g(shape = 2x2)
func.func @main(%0: tensor<6x8xbf16> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>},
                %new: tensor<6x8xi1> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>},
                %c: tensor<5xcomplex<f32>> {mesh.sharding = #mesh.shard<@g, [[1]]>},
                %d: tensor<8x3xf64> {mesh.sharding = #mesh.shard<@g, [[1], []]>})
    -> (tensor<6xbf16>, tensor<5xcomplex<f32>>, tensor<6x3xf64>, tensor<6x8xi32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %1 = stablehlo.select %new, %0, %0 : tensor<6x8xi1>, tensor<6x8xbf16>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<6x8xbf16>, tensor<bf16>) -> tensor<6xbf16>
  %3 = stablehlo.multiply %c, %c : tensor<5xcomplex<f32>>
  %4 = stablehlo.convert %1 : (tensor<6x8xbf16>) -> tensor<6x8xf64>
  %5 = stablehlo.dot_general %4, %d, contracting_dims = [1] x [0]
    : (tensor<6x8xf64>, tensor<8x3xf64>) -> tensor<6x3xf64>
  %6 = stablehlo.convert %new : (tensor<6x8xi1>) -> tensor<6x8xi32>
  return %2, %3, %5, %6 : tensor<6xbf16>, tensor<5xcomplex<f32>>, tensor<6x3xf64>, tensor<6x8xi32>
}
"""
PROGRAMS = {
    **{
        name: (ROOT / "examples" / f"{name}.mlir").read_text()
        for name in ("megatron", "mlp_2d", "convolution", "pipeline_mlp", "training_step")
    },
    "elements": ELEMENTS,
    "alone": "func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }",
    "names": """shard.grid @"*/ #error" (shape = 2)
func.func @"a\\22\\5C*/ #error /*\\0A#error"(
    %while: tensor<4xf32> {mesh.sharding = #mesh.shard<@"*/ #error", [[0]]>},
    %layer_run: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %while, %layer_run : tensor<4xf32>
  return %0 : tensor<4xf32>
}""",
}


def ran(folder: Path, *command: str) -> None:
    """Run a tool of MPI's in a folder, and expect that it succeeds."""
    done = run_child(["env", "-C", str(folder), f"{BIN}/{command[0]}", *command[1:]])
    assert not done.returncode, done.stderr


def driver(header: str, sizes: Sequence[int]) -> str:
    """C that reads each rank's shards of the arguments, runs twice, and writes those of results."""
    run = re.search(r"layer_run\((.*), void \*arena\) {", header)
    assert run
    reads, writes, given = [], [], []
    for number, (whole, size) in enumerate(zip(run[1].split(", "), sizes, strict=True)):
        type_ = whole.replace("const ", "").partition("*")[0]
        reads.append(f"  {type_}*p{number} = ({type_}*)malloc({size} + 1);")
        mode, call, into = ("rb", "fread", reads) if "const" in whole else ("wb", "fwrite", writes)
        into.append(
            f'  sprintf(path, "{number}.%d", rank); file = fopen(path, "{mode}");\n'
            f"  if ({call}(p{number}, 1, {size}, file) != {size}) return 2;\n  fclose(file);"
        )
        given.append(f"p{number}")
    lines = [
        '#include "layer.h"',
        "#include <stdio.h>",
        "int main(int argc, char **argv) {",
        "  int rank; char path[99]; FILE *file; char *memory; void *arena;",
        "  MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &rank);",
        "  if (layer_start(MPI_COMM_WORLD)) return 3;",
        "  memory = (char *)malloc(LAYER_ARENA + 64);",
        "  arena = memory + (64 - (uintptr_t)memory % 64);",
        *reads,
        f"  layer_run({', '.join(given)}, arena); layer_run({', '.join(given)}, arena);",
        *writes,
        "  MPI_Finalize(); return 0;",
        "}",
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_called_from_c(
    name: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.mlir").write_text(PROGRAMS[name])
    assert main(["in.mlir", "--spmd", "--emit-object", "-o", "layer.o"]) == 0
    program = sd.compile(sd.parse(PROGRAMS[name]))
    inputs = random_inputs([each.global_type for each in program.program.arguments], 0)
    header = Path("layer.h").read_text()
    boundary = [*program.program.arguments, *program.program.results]
    sizes = [int(np.prod(each.local.shape)) * each.local.dtype.itemsize for each in boundary]
    suffix, standard = COMPILERS[compiler]
    source = Path(f"main.{suffix}")
    source.write_text(driver(header, sizes))
    strict = ("-Wall", "-Wextra", "-Werror", standard)
    ran(tmp_path, compiler, *strict, source.name, "layer.o", "-lm", "-o", "main")
    devices = program.program.devices
    shards = [program.program.scatter(inputs, rank) for rank in range(devices)]
    for rank, of_rank in enumerate(shards):
        for number, each in enumerate(of_rank):
            np.ascontiguousarray(each).tofile(f"{number}.{rank}")
    ran(tmp_path, "mpiexec", "-n", str(devices), "./main")
    found = [
        [
            np.fromfile(f"{len(inputs) + n}.{rank}", each.local.dtype).reshape(each.local.shape)
            for n, each in enumerate(program.program.results)
        ]
        for rank in range(devices)
    ]
    expected = program.program.gather(program.run_shards(shards))
    for ours, right in zip(program.program.gather(found), expected, strict=True):
        np.testing.assert_allclose(
            ours.astype(complex), right.astype(complex), rtol=1e-5, atol=1e-6
        )


def test_two_programs_are_linked_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = str(ROOT / "examples/megatron.mlir")
    for name in ("one", "2-more"):
        assert main([example, "--spmd", "--emit-object", "-o", f"{name}.o"]) == 0
    Path("main.cpp").write_text(
        '#include "one.h"\n#include "2-more.h"\nint main(int c, char **v) {\n'
        "  MPI_Init(&c, &v);\n"
        "  if (one_start(MPI_COMM_WORLD) || _2_more_start(MPI_COMM_WORLD)) return 1;\n"
        "  MPI_Comm half; MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &half);\n"
        "  if (one_start(half) || one_start(MPI_COMM_SELF) != MPI_ERR_COMM) return 2;\n"
        "  MPI_Finalize();\n}\n"
    )
    ran(tmp_path, "mpicxx", "main.cpp", "one.o", "2-more.o", "-lm", "-o", "main")
    ran(tmp_path, "mpiexec", "-n", "4", "./main")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--spmd", "--emit-object"], "--emit-object writes FILE.o and FILE.h of one module"),
        (["--spmd", "--emit-object", "-o", "x.obj"], "give -o FILE.o"),
        (["--emit-object", "-o", "x.o"], "the local form (--spmd) is compiled to an object"),
        (["--spmd", "--lower", "--emit-object", "-o", "x.o"], "lower it for MPI"),
        (
            ["--spmd", "--pick-device=rank=0", "--emit-object", "-o", "x.o"],
            "is the program of one device: in an object all devices run one",
        ),
    ],
)
def test_what_cannot_be_an_object_is_refused(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(ROOT / "examples/megatron.mlir"), *arguments]) == 1
    assert said in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_a_header_of_the_users_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [str(ROOT / "examples/megatron.mlir"), "--spmd", "--emit-object", "-o", "x.o"]
    assert main(command) == 0
    assert main(command) == 0
    Path("x.h").write_text("int mine;\n")
    Path("x.o").unlink()
    assert main(command) == 1
    assert "'x.h' is no header of an object, and would be written over" in capsys.readouterr().err
    assert Path("x.h").read_text() == "int mine;\n"
    assert not Path("x.o").exists()


def test_the_header_says_what_a_shard_is_as_the_file_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "examples" / "slow_ffn.mlir").read_text()
    Path("in.mlir").write_text(text.replace('[{"model"}, {}]', "[{}, {}]", 1))
    assert main(["in.mlir", "--spmd", "--emit-object", "-o", "layer.o"]) == 0
    header = Path("layer.h").read_text()
    assert " *   gate: 256x1024xf32, whole\n" in header
    assert ' *   down: 1024x64xf32, a shard of 1024x256xf32, [[], ["model"]] on @mesh\n' in header
    ranks = '@mesh: 2 along ["data"] by 4 along ["model"], ranks in order, the last axis fastest.'
    assert f" * {ranks}\n" in header


def test_what_objects_cannot_call_is_named() -> None:
    text = """
    func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %0:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%x) {
          operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
          result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>]}
        : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
      return %0#0 : tensor<2x2xf32>
    }"""
    module = sd.run_pipeline(sd.parse(text), "spmd")
    with pytest.raises(sd.ShardError, match="@main calls @lapack_sgeqrf_ffi, a function of a Py"):
        object_file(module, None, "layer")


def test_floats_of_eight_bits_are_bytes_in_c() -> None:
    text = """
    func.func @main(%x: tensor<4xf8E4M3FN>) -> tensor<4xf32> {
      %0 = stablehlo.convert %x : (tensor<4xf8E4M3FN>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    module = sd.run_pipeline(sd.parse(text), "spmd")
    assert "const uint8_t *x" in object_file(module, None, "layer").header
