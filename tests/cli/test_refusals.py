"""Users' mistakes: one located line, exit status 1, no traceback."""

import re
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.run import main
from shard_dialect.search.auto import AutoOptions
from shard_dialect.search.mutations import mutated, mutations
from tests.conftest import Program, run_child

GRID = "shard.grid @g(shape = 2)\n"
FUNCTION = """\
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %s = shard.sharding @{grid} split_axes = {axes} : !shard.sharding
  %0 = shard.shard %x to %s : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}}
"""


def upstream(axes: str, grid: str = "g") -> str:
    return GRID + FUNCTION.format(axes=axes, grid=grid)


def rfc(attributes: str, function: str = "attributes {mesh_cluster = @g}") -> str:
    return f"""\
"mesh.cluster"() {{sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]}} : () -> ()
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {function} {{
  %0 = "mesh.annotate"(%x) {{{attributes}}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}}
"""


def typed(sharding: str) -> str:
    return f"""\
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<4x8xf32, {sharding}>) {{
  return
}}
"""


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_without_end_is_no_program(device: str, opt: Program) -> None:
    done = opt(device)
    assert done.returncode == 1
    assert re.fullmatch(
        rf"{device}:\d+:1: error: is neither UTF-8 text nor MLIR bytecode\n", done.stderr
    )


READING = {
    "does not parse": ("func.func @main(", "1:16: error: expected"),
    "grid that is not there": (
        upstream("[[0]]", "h"),
        '3:8: error: Undefined required grid symbol "h"',
    ),
    "axis out of range": (upstream("[[1]]"), "3:8: error: 'shard.sharding' op grid axis 1 in"),
    "axis used twice": (upstream("[[0], [0]]"), "3:8: error: grid axis duplicated"),
    "more split axes than dimensions": (
        upstream("[[0], [], []]"),
        "4:8: error: 'shard.shard' op has split axes [[0], [], []] for 3 dimensions, but the "
        "tensor has 2",
    ),
    "two grids of one name": (GRID + GRID, "2:1: error: "),
    "grid of no devices": ("shard.grid @g(shape = 0)", "1:1: error: grid @g has size 0 on axis 0"),
    "rfc: axis out of range": (
        rfc("sharding = [[2]]"),
        "3:8: error: 'mesh.annotate' op grid axis 2 in sharding [[2], []] is not in grid @g",
    ),
    "rfc: axis used twice": (
        rfc("sharding = [[0], [0]]"),
        "3:8: error: 'mesh.annotate' op grid axis 0 is used twice in sharding [[0], [0]]",
    ),
    "rfc: too many lists": (
        rfc("sharding = [[0], [], [], []]"),
        "3:8: error: 'mesh.annotate' op sharding [[0], [], [], []] has split axes for 4 dimensions",
    ),
    "rfc: no lists": (
        rfc("sharding = 3 : i64"),
        "3:8: error: 'mesh.annotate' op expected a list of lists of axes, found 3",
    ),
    "rfc: not a flag": (
        rfc("sharding = [[0]], required = 3 : i64"),
        "3:8: error: 'mesh.annotate' op attribute 'required' must be true or false, found 3",
    ),
    "rfc: no grid": (
        rfc("sharding = [[0]]", ""),
        "3:8: error: 'mesh.annotate' op names no grid, and its function has no mesh_cluster",
    ),
    "rfc: more sizes than axes": (
        '"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2, 2]} : () -> ()',
        "1:1: error: 'mesh.cluster' op cluster @g of rank 1 has 2 dim_sizes",
    ),
    "type: unknown grid": (
        typed("#mesh.shard<@h, [[0]]>"),
        "2:17: error: 'func.func' op grid @h is not declared; the module's grids: @g",
    ),
    "type: unknown reduction": (
        typed("#mesh.shard<@g, [[], {xor = [0]}]>"),
        "2:17: error: 'func.func' op unknown field 'xor' in {xor = [0]}: expected some of sum, max",
    ),
    "type: short form without a grid": (
        typed("#mesh.shard<[[0]]>"),
        "2:37: error: #mesh.shard names no grid, and its function has no mesh_cluster",
    ),
}

ON_ARGUMENT = """\
shard.grid @g(shape = 2x2)
func.func @main(%first: tensor<4x8xf32>,
                %x: tensor<4x8xf32> {{{attribute}}}) -> tensor<4x8xf32> {{
  return %x : tensor<4x8xf32>
}}
"""
ATTRIBUTES = {
    "mesh.sharding = #mesh.shard<@h, [[0]]>": "grid @h is not declared; the module's grids: @g",
    "mesh.sharding = #mesh.shard<@g, [[7]]>": "grid axis 7 in sharding [[7], []] is not in grid",
    "mesh.sharding = #mesh.shard<@g, [[0], [0]]>": "grid axis 0 is used twice",
    "mesh.sharding = #mesh.shard<@g, [[0], [], [1]]>": "only a value that an op makes can be",
    "mesh.sharding = 3": "expected #mesh.shard<@grid, [...]>, found 3",
    'sdy.sharding = #sdy.sharding<@h, [{"x"}, {}]>': "mesh @h is not declared",
}


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_an_attribute_of_an_argument_is_refused_where_that_is(
    attribute: str, opt: Program, tmp_path: Path
) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(ON_ARGUMENT.format(attribute=attribute))
    assert_refused(opt(file, "--spmd"), f"{file}:3:17: error: ", ATTRIBUTES[attribute])


@pytest.mark.parametrize(
    ("program", "option"),
    [
        ("opt", "--pick-device=rank=99"),
        ("opt", "--mutate=99"),
        ("opt", "--mutate=x=[[7]]"),
        ("report", "--entry=nobody"),
        ("report", "--what-if=nobody=[[0]]"),
        ("report", "--what-if=x=[[7]]"),
        ("report", "--what-if=x"),
        ("report", "--explain=nobody"),
        ("report", "--show=nobody"),
    ],
)
def test_an_error_about_an_option_is_at_the_option(program: str, option: str) -> None:
    flags = ["--spmd"] if program == "opt" else []
    command = [sys.executable, "-m", f"shard_dialect.{program}", "examples/megatron.mlir"]
    done = run_child([*command, *flags, option])
    assert_refused(done)
    assert done.stderr.startswith(f"error: {option}: ")


PROPAGATING = {
    "two annotations that disagree": (
        upstream("[[0]]").replace(
            "  return",
            "  %t = shard.sharding @g split_axes = [[], [0]] : !shard.sharding\n"
            "  %1 = shard.shard %x to %t : tensor<4x8xf32>\n  return",
        ),
        "6:8: error: 'shard.shard' op annotates one value as @g [[], [0]] that is annotated as "
        "@g [[0]]: they must agree",
    ),
    "grid of unknown size": (
        upstream("[[0]]").replace("shape = 2", "shape = ?"),
        "error: ",
    ),
}


@pytest.mark.parametrize("case", sorted(READING))
def test_refused_when_read(case: str, opt: Program, tmp_path: Path) -> None:
    text, expected = READING[case]
    file = tmp_path / "in.mlir"
    file.write_text(text)
    assert_refused(opt(file), f"{file}:{expected}")


@pytest.mark.parametrize("case", sorted(PROPAGATING))
def test_refused_by_propagate(case: str, opt: Program, tmp_path: Path) -> None:
    text, expected = PROPAGATING[case]
    file = tmp_path / "in.mlir"
    file.write_text(text)
    assert_refused(opt(file, "--propagate"), str(file), expected)


def assert_refused(done: "subprocess.CompletedProcess[str]", *parts: str) -> None:
    assert done.returncode == 1
    assert done.stdout == ""
    error, *notes = done.stderr.splitlines()
    assert ": error: " in error or error.startswith("error: "), done.stderr
    assert all(": note: " in line for line in notes), done.stderr
    for part in parts:
        assert part in done.stderr


def test_a_missing_file_is_named(opt: Program, run: Program) -> None:
    for program in (opt, run):
        assert_refused(program("no/such.mlir"), "error: cannot read 'no/such.mlir': no such file")


def test_an_output_that_cannot_be_written_is_named(opt: Program, run: Program) -> None:
    assert_refused(opt("examples/mlp_1d.mlir", "-o", "no/such.mlir"), "cannot write 'no/such.mlir'")
    done = run("examples/mlp_1d.mlir", "--outputs", "no/such.npz")
    assert_refused(done, "cannot write 'no/such.npz'")


def test_passes_out_of_order_say_what_comes_first(opt: Program) -> None:
    assert_refused(opt("examples/mlp_1d.mlir", "--materialize"), "run --propagate first")
    assert_refused(opt("examples/mlp_1d.mlir", "--partition"), "run --propagate and --materialize")
    assert_refused(opt("examples/mlp_1d.mlir", "--lower"), "run --spmd before --lower")


def test_an_entry_that_is_not_there_is_named(run: Program) -> None:
    done = run("examples/mlp_1d.mlir", "--entry", "other")
    assert_refused(done, "there is no function @other to run; there are @main")


def test_a_local_module_wants_its_reference(opt: Program, run: Program, tmp_path: Path) -> None:
    local = tmp_path / "local.mlir"
    assert opt("examples/mlp_1d.mlir", "--spmd", "-o", local).returncode == 0
    assert_refused(run(local, "--check"), "name it with --reference")
    assert run(local, "--check", "--reference", "examples/mlp_1d.mlir").returncode == 0


def save(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


GOOD = {
    "arg0": np.zeros((2, 4, 8), np.float32),
    "arg1": np.zeros((8, 32), np.float32),
    "arg2": np.zeros((32, 8), np.float32),
}


def test_inputs_have_the_names_of_the_file_or_numbers(run: Program, tmp_path: Path) -> None:
    names = ("x", "w1", "arg2")
    file = save(tmp_path / "in.npz", **dict(zip(names, GOOD.values(), strict=True)))
    assert run("examples/mlp_1d.mlir", "--inputs", file, "--check").returncode == 0
    wrong = save(tmp_path / "wrong.npz", **dict(zip("xyz", GOOD.values(), strict=True)))
    assert_refused(
        run("examples/mlp_1d.mlir", "--inputs", wrong),
        "expected x, w1, w2: it lacks w1, w2",
    )
    twice = save(tmp_path / "twice.npz", **GOOD, w1=GOOD["arg1"])
    assert_refused(run("examples/mlp_1d.mlir", "--inputs", twice), "holds arg0, arg1, arg2, w1")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"arg1": np.zeros((8, 33), np.float32)}, "arg1 has shape 8x33, expected 8x32"),
        ({"arg1": np.zeros((8, 32), np.float64)}, "arg1 has dtype float64, expected float32"),
        ({"arg3": np.zeros(1)}, "holds arg0, arg1, arg2, arg3; expected x, w1, w2"),
    ],
)
def test_wrong_inputs_are_named(
    change: dict[str, object], expected: str, run: Program, tmp_path: Path
) -> None:
    file = save(tmp_path / "in.npz", **{**GOOD, **change})
    assert_refused(run("examples/mlp_1d.mlir", "--inputs", file), f"error: '{file}'", expected)


def test_inputs_that_are_no_archive_are_refused(run: Program, tmp_path: Path) -> None:
    file = tmp_path / "in.npz"
    file.write_text("nothing")
    assert_refused(run("examples/mlp_1d.mlir", "--inputs", file), "it is no .npz file of arrays")


@pytest.mark.parametrize(
    ("backend", "package", "extra"), [("mpi", "mpi4py", "mpi"), ("torch", "torch", "torch")]
)
def test_a_missing_extra_is_named(backend: str, package: str, extra: str) -> None:
    hidden = (
        f"import sys; sys.modules[{package!r}] = None; from shard_dialect.run import main; "
        f"sys.exit(main(['examples/mlp_1d.mlir', '--backend={backend}']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, timeout=60
    )
    assert_refused(
        done, f"error: {package} is not installed: run `pip install 'shard-dialect[{extra}]'`"
    )


def test_a_bound_on_time_is_for_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples/mlp_1d.mlir", "--timeout=60"]) == 1
    assert capsys.readouterr().err.startswith("error: --timeout is for the command line: ")
    assert main(["examples/mlp_1d.mlir", "--timeout=0"]) == 1
    assert "'0' is not a number above 0" in capsys.readouterr().err


def test_a_wrong_result_is_found_and_placed(opt: Program, run: Program, tmp_path: Path) -> None:
    local = opt("examples/mlp_1d.mlir", "--spmd").stdout
    wrong = tmp_path / "wrong.mlir"
    wrong.write_text(local.replace("arith.maximumf", "arith.minimumf"))
    done = run(wrong, "--check", "--reference", "examples/mlp_1d.mlir")
    assert done.returncode == 1
    assert "error: result0 on device 0 at [" in done.stderr
    assert "the difference" in done.stderr


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ShardError, match="cannot read standard input: it is closed"):
        Source.read("-")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "in.mlir"
    path.write_bytes(b"\xef\xbb\xbf" + upstream("[[0]]").encode())
    assert Source.read(str(path)).text == upstream("[[0]]")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_other_byte_order_marks_are_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "in.mlir"
    path.write_bytes(("\ufeff" * encoding.endswith("be") + upstream("[[0]]")).encode(encoding))
    with pytest.raises(ShardError, match="is UTF-16 or UTF-32 text") as raised:
        Source.read(str(path))
    assert raised.value.location == f"{path}:1:1"


@pytest.mark.parametrize("text", [GRID, "", "// nothing\n"])
def test_a_module_without_functions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "in.mlir"
    path.write_text(text)
    assert main([str(path)]) == 1
    assert capsys.readouterr().err == f"{path}:1:1: error: the module has no function to run\n"


def test_a_mutation_that_the_list_leaves_out_is_refused() -> None:
    module = Source.read("examples/megatron.mlir")
    with make_context():
        listed = {each.number for each in mutations(module.parse())}
        left_out = min({*range(max(listed))} - listed)
        with pytest.raises(ShardError, match=f"--mutate={left_out}: there is no such mutation"):
            mutated(module.parse(), [str(left_out)])


@pytest.mark.parametrize("program", ["opt", "run", "report"])
def test_a_crash_of_the_parser_has_the_same_words(program: str, tmp_path: Path) -> None:
    path = tmp_path / "in.mlir"
    path.write_text(f"module attributes {{a = {'[' * 20000}{']' * 20000}}} {{}}")
    done = run_child([sys.executable, "-m", f"shard_dialect.{program}", str(path)])
    assert_refused(done)
    assert done.stderr == f"{path}:1:1: error: MLIR crashed (SIGSEGV) in the parser\n"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            ["run"],
            "in.mlir:3:1: error: grid @grid(1000000x1000000) has 1,000,000,000,000 devices: ",
        ),
        (["report"], "in.mlir:3:1: error: grid @grid(1000000x1000000) has 1,000,000,000,000 dev"),
        (["opt", "--spmd"], "error: tells 1,000,000 devices apart, each by a number in a list"),
    ],
)
def test_too_many_devices_are_refused_at_once(
    program: list[str], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "in.mlir"
    text = Path("examples/megatron.mlir").read_text()
    path.write_text(text.replace("shape = 2x2", "shape = 1000000x1000000"))
    module, *flags = program
    begin = time.monotonic()
    command = [sys.executable, "-m", f"shard_dialect.{module}", str(path), *flags]
    assert_refused(run_child(command), said)
    assert time.monotonic() - begin < 20  # with the start of a process, on a busy machine


@pytest.mark.parametrize("seconds", ["-1", "0", "inf", "nan"])
def test_a_search_takes_time(seconds: str) -> None:
    with pytest.raises(ShardError, match=f"--auto: seconds={seconds} is no time"):
        AutoOptions.read(f"grid=2x2 seconds={seconds}")


def test_a_misspelt_flag_has_the_nearest_one(run: Program) -> None:
    refused = run("examples/mlp_1d.mlir", "--chek")
    assert_refused(refused, "unknown flag '--chek': did you mean '--check'?")


@pytest.mark.parametrize(
    ("program", "given", "said"),
    [
        ("run", ["--jsn"], "unknown flag '--jsn': did you mean '--json'?"),
        ("report", ["--jsn"], "unknown flag '--jsn': did you mean '--json'?"),
        ("prove", ["--jsn"], "unknown flag '--jsn': did you mean '--json'?"),
        ("opt", ["--spdm"], "unknown flag '--spdm': did you mean '--spmd'?"),
        ("report", ["--allocator=arna"], "'arna' is none of unfused, arena, xla: did you mean"),
        ("opt", ["--emit-python=toch"], "'toch' is none of mpi4py, torch: did you mean 'torch'?"),
        ("opt", ["--emit-python"], "expected a value: --emit-python=mpi4py|torch"),
        ("opt", ["-o"], "expected a value: -o FILE"),
        ("run", ["--grid"], "expected a value: --grid=2x4"),
        ("opt", ["--spmd", "--skip=optimize-collectives"], "its steps are: rewrite-collectives, "),
        ("opt", ["--spmd", "--skip=lower"], "no pass 'lower' is in the pipeline: it has spmd, "),
        ("report", ["--device-model=h10"], "ends in .toml: did you mean 'h100'?"),
        ("run", ["--backend=mp"], "or a plugin's: did you mean 'mpi'?"),
        (
            "run",
            ["--check", "--reference-by=xl"],
            "is none of xla, upstream, self: did you mean 'xla'?",
        ),
        ("run", ["--entry=mian"], "there are @main: did you mean 'main'?"),
        ("prove", ["examples/mlp_1d.mlir", "--boundary=x"], "error: --boundary=x: cannot read"),
    ],
)
def test_what_was_meant_is_said_by_every_program(
    program: str, given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = import_module(f"shard_dialect.{program}").main(["examples/mlp_1d.mlir", *given])
    assert status == 1
    assert said in capsys.readouterr().err


_TWO = "".join(
    f"func.func @{name}(%x: tensor<4xf32>) -> tensor<4xf32> {{ return %x : tensor<4xf32> }}\n"
    for name in (r'"a b"', r'"c\22d"')
)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", [], "the module has no function to run"),
        (
            _TWO,
            [],
            "which function to run is not clear: name one @main, or with --entry; "
            r'of @"a b", @"c\22d"',
        ),
        (_TWO, ["--entry=z"], r'there is no function @z to run; there are @"a b", @"c\22d"'),
    ],
)
def test_every_program_says_the_same_of_a_file(
    text: str, options: list[str], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(text)
    for program, files in (("run", [file]), ("report", [file]), ("prove", [file, file])):
        done = run_child([sys.executable, "-m", f"shard_dialect.{program}", *files, *options])
        assert_refused(done, said)


def test_an_element_type_that_cannot_be_run_has_a_place(run: Program, tmp_path: Path) -> None:
    file, type_ = tmp_path / "in.mlir", "tensor<8xf80>"
    file.write_text(f"func.func @main(%x: {type_}) -> {type_} {{ return %x : {type_} }}")
    assert_refused(run(file), f"{file}:1:1: error: cannot run on elements of type f80 yet")


def test_computing_with_narrow_floats_is_for_xla(run: Program, tmp_path: Path) -> None:
    """What only moves them is run."""
    file, type_ = tmp_path / "in.mlir", "tensor<8xf6E2M3FN>"
    text = f"func.func @main(%x: {type_}) -> {type_} {{\n%y = stablehlo.add %x, %x : {type_}\n"
    file.write_text(f"{text} return %y : {type_} }}")
    assert_refused(run(file), f"{file}:2:6: error: elements of type f6E2M3FN are only moved by our")
    file.write_text(f"{text} return %x : {type_} }}")
    assert run(file).returncode == 0


@pytest.mark.parametrize("flag", ["--device-model=h100", "--allocator=xla", "--entry=main"])
def test_measuring_reads_no_program(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_module("shard_dialect.report").main(["--measure=a.toml", flag]) == 1
    given = flag.partition("=")[0]
    assert f"--measure is given together with {given}" in capsys.readouterr().err


def test_types_that_are_nested_too_deep_are_refused_before_they_are_read(
    opt: Program, tmp_path: Path
) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(f"func.func @main(%x: {'tuple<' * 20_000}i32{'>' * 20_000}) {{ return }}")
    assert_refused(opt(file), f"{file}:1:26: error: types are nested more than 1,000 deep")


@pytest.mark.parametrize(
    ("program", "flags", "message"),
    [
        ("opt", ["-o", "a", "-o", "b"], "argument -o: is given twice"),
        ("opt", ["--emit-python=torch", "--emit-stablehlo"], "--emit-python is given together"),
        ("opt", ["--entry=other", "--spmd"], "--entry is of no use here: it is for --auto, "),
        ("opt", ["--spmd=device-model=h10"], "'device-model' is for objective=time"),
        ("opt", ["--auto=plans=2,plans=3"], "--auto: plans is given twice"),
        ("opt", ["--auto=plans=2,seconds=3"], "--auto: plans is given together with seconds"),
        ("opt", ["--auto=grid=4,devices=8"], "--auto: grid is given together with devices"),
        ("opt", ["--mutate=x=[[0]]", "--mutate=x=[[]]"], "asked about before, by x=[[0]]"),
        ("opt", ["--specialize=grid=4"], "no grid can have the shape 4: there is @g(2)"),
        ("run", ["--reference=o.mlir"], "it is for --check, --bisect or --prove"),
        ("run", ["--reference-by=self"], "it is for --check or --bisect"),
        ("run", ["--inputs=a.npz", "--inputs", "b.npz"], "argument --inputs: is given twice"),
        ("run", ["--inputs=a.npz", "--seed=0"], "--seed is given together with --inputs"),
        ("run", ["--outputs=out.csv"], "--outputs=out.csv: outputs are written as a file whose"),
        ("run", ["--outputs=out.safetensors"], "a file whose name ends in .npz, or with a slash"),
        ("report", ["--devices=2"], "--devices is of no use here: it is for --measure"),
        ("report", ["--suggest-seconds=2"], "it is for --suggest"),
        ("report", ["--suggest", "--explain=x"], "--suggest is given together with --explain"),
        ("fuzz", ["--seconds=0"], "argument --seconds: '0' is not a number above 0"),
        ("report", ["--show=x", "--json"], "--show is given together with --json"),
        ("report", ["--show=x", "--allocator=unfused"], "--show is given together with --alloc"),
        ("report", ["--measure=m.toml"], "--measure reads no program: leave out"),
        ("report", ["--what-if=x=[[0]]", "--what-if=x=[[]]"], "asked about before, by x=[[0]]"),
    ],
)
def test_what_would_have_no_effect_is_refused(
    program: str,
    flags: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "in.mlir"
    path.write_text(upstream("[[0], []]"))
    found = import_module(f"shard_dialect.{program}").main([str(path), *flags])
    assert (found, message in capsys.readouterr().err) == (1, True)
