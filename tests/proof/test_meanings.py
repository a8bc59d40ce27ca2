"""Pairs of small programs that differ in the meaning of an op: none is proven."""

import pytest

import shard_dialect as sd


def function(argument: str, result: str, body: str) -> str:
    """A module with a function of `%x`, whose body defines `%r`."""
    given = f"%x: {argument}" if argument else ""
    return f"func.func @main({given}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"


BITS, SHORT, WORDS, FLOATS = "tensor<4xi1>", "tensor<4xi8>", "tensor<4xi32>", "tensor<4xf32>"
COMPLEX = "tensor<4xcomplex<f32>>"


def arith(name: str, given: str, wanted: str) -> str:
    return f"%r = arith.{name} %x : {given} to {wanted}"


def convert(given: str, wanted: str, value: str = "%x", result: str = "%r") -> str:
    return f"{result} = stablehlo.convert {value} : ({given}) -> {wanted}"


def with_constant(op: str, number: str, type_: str) -> str:
    return (
        f"%c = stablehlo.constant dense<{number}> : {type_}\n%r = stablehlo.{op} %x, %c : {type_}"
    )


def tosa_multiplied(shift: int) -> str:
    return f"""%s = "tosa.const"() {{values = dense<{shift}> : tensor<1xi8>}} : () -> tensor<1xi8>
    %r = tosa.mul %x, %x, %s : ({WORDS}, {WORDS}, tensor<1xi8>) -> {WORDS}"""


def tosa_negated(before: int, after: int) -> str:
    point = '%{} = "tosa.const"() {{values = dense<{}> : tensor<1xi8>}} : () -> tensor<1xi8>\n'
    points = point.format("a", before) + point.format("b", after)
    return (
        points + f"%r = tosa.negate %x, %a, %b : ({SHORT}, tensor<1xi8>, tensor<1xi8>) -> {SHORT}"
    )


def of_true_matrix(extend: str) -> str:
    return f"""%t = arith.constant dense<true> : tensor<4x4xi1>
    %c = arith.constant dense<0> : tensor<4xi32>
    %r = linalg.generic {{indexing_maps = [affine_map<(i, k) -> (i, k)>, affine_map<(i, k) -> (k)>,
        affine_map<(i, k) -> (i)>], iterator_types = ["parallel", "reduction"]}}
        ins(%t, %x : tensor<4x4xi1>, {WORDS}) outs(%c : {WORDS}) {{
    ^bb0(%a: i1, %b: i32, %o: i32):
      %e = arith.{extend} %a : i1 to i32
      %m = arith.muli %e, %b : i32
      %s = arith.addi %m, %o : i32
      linalg.yield %s : i32
    }} -> {WORDS}"""


def window(given: str, size: int, end: int) -> str:
    return f"""%i = stablehlo.constant dense<1.0> : tensor<f32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %p = stablehlo.pad %x, %z, low = [1], high = [1], interior = [0]
        : ({FLOATS}, tensor<f32>) -> tensor<6xf32>
    %r = "stablehlo.reduce_window"({given}, %i) ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) {{window_dimensions = array<i64: 2>, padding = dense<[[{end}, {end}]]> : tensor<1x2xi64>}}
        : (tensor<{size}xf32>, tensor<f32>) -> tensor<5xf32>"""


PAIRS = {
    "an initial value is at padding, too": (
        FLOATS, "tensor<5xf32>", window("%x", 4, 1), window("%p", 6, 0)
    ),
    "a sum of bits is their or": (
        BITS, BITS, f"%r = stablehlo.add %x, %x : {BITS}", f"%r = stablehlo.xor %x, %x : {BITS}"
    ),
    "a product of bits counts none twice": (
        "", "tensor<2x2xi1>",
        "%t = stablehlo.constant dense<true> : tensor<2x2xi1>\n%r = stablehlo.dot_general %t, %t, "
        "contracting_dims = [1] x [0] : (tensor<2x2xi1>, tensor<2x2xi1>) -> tensor<2x2xi1>",
        "%r = stablehlo.constant dense<false> : tensor<2x2xi1>",
    ),
    "a signed bit is -1 or 0": (
        BITS, FLOATS, arith("sitofp", BITS, FLOATS), arith("uitofp", BITS, FLOATS)
    ),
    "an index of a signed bit is -1": (
        BITS, "tensor<4xindex>",
        arith("index_cast", BITS, "tensor<4xindex>"),
        arith("index_castui", BITS, "tensor<4xindex>"),
    ),
    "a true bit is the least": (
        BITS, BITS, f"%c = arith.constant dense<false> : {BITS}\n%r = arith.maxsi %x, %c : {BITS}",
        f"%c = arith.constant dense<false> : {BITS}\n%r = arith.maxui %x, %c : {BITS}",
    ),
    "a true bit is below a false one": (
        BITS, BITS,
        f"%c = arith.constant dense<false> : {BITS}\n%r = arith.cmpi slt, %c, %x : {BITS}",
        f"%c = arith.constant dense<false> : {BITS}\n%r = arith.cmpi ult, %c, %x : {BITS}",
    ),
    "a matrix of signed bits": (WORDS, WORDS, of_true_matrix("extsi"), of_true_matrix("extui")),
    "a converted complex number is its real part": (
        COMPLEX, COMPLEX,
        f"{convert(COMPLEX, FLOATS, result='%a')}\n{convert(FLOATS, COMPLEX, '%a')}",
        f"%r = stablehlo.optimization_barrier %x : {COMPLEX}",
    ),
    "bits are of a width": (
        FLOATS, WORDS, f"%r = stablehlo.bitcast_convert %x : ({FLOATS}) -> {WORDS}",
        f"""{convert(FLOATS, "tensor<4xbf16>", result="%a")}
        %b = stablehlo.bitcast_convert %a : (tensor<4xbf16>) -> tensor<4xi16>
        {convert("tensor<4xi16>", WORDS, "%b")}""",
    ),
    "a power with an exponent below zero": (
        WORDS, WORDS, with_constant("power", "-1", WORDS), with_constant("power", "0", WORDS)
    ),
    "a shift by more than the width": (
        WORDS, WORDS,
        f"%m = stablehlo.constant dense<-1> : {WORDS}\n"
        f"%c = stablehlo.constant dense<64> : {WORDS}\n"
        f"%r = stablehlo.shift_right_arithmetic %m, %c : {WORDS}",
        f"%r = stablehlo.constant dense<0> : {WORDS}",
    ),
    "the largest integer without a sign": (
        "tensor<4xui64>", FLOATS,
        "%c = stablehlo.constant dense<18446744073709551615> : tensor<4xui64>\n"
        + convert("tensor<4xui64>", FLOATS, "%c"),
        f"%r = stablehlo.constant dense<-1.0> : {FLOATS}",
    ),
    "positions wrap": (
        "", "tensor<300xi32>",
        "%a = stablehlo.iota dim = 0 : tensor<300xi8>\n"
        f"{convert('tensor<300xi8>', 'tensor<300xi32>', '%a')}",
        "%r = stablehlo.iota dim = 0 : tensor<300xi32>",
    ),
    "a product of TOSA is shifted": (WORDS, WORDS, tosa_multiplied(0), tosa_multiplied(1)),
    "a negation of TOSA has zero points": (SHORT, SHORT, tosa_negated(0, 0), tosa_negated(3, 5)),
    "a cast of TOSA rounds": (
        FLOATS, WORDS, f"%r = tosa.cast %x : ({FLOATS}) -> {WORDS}", convert(FLOATS, WORDS)
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", PAIRS)
def test_programs_that_differ_are_not_proven(what: str) -> None:
    argument, result, one, other = PAIRS[what]
    programs = [sd.parse(function(argument, result, body)) for body in (one, other)]
    assert sd.prove(*programs).answer in ("refuted", "unknown")
    for program in programs:
        assert sd.prove(program, program).answer == "proven"


def answer(one: str, other: str) -> str:
    return sd.prove(sd.parse(one), sd.parse(other)).answer


def test_random_numbers_are_others_each_time() -> None:
    types = f"(tensor<f32>, tensor<f32>, tensor<1xi64>) -> {FLOATS}"
    drawn = f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
    %o = stablehlo.constant dense<1.0> : tensor<f32>
    %n = stablehlo.constant dense<4> : tensor<1xi64>
    %a = stablehlo.rng %z, %o, %n, distribution = UNIFORM : {types}
    %b = stablehlo.rng %z, %o, %n, distribution = UNIFORM : {types}
    """
    two = function(FLOATS, FLOATS, f"{drawn}%r = stablehlo.add %a, %b : {FLOATS}")
    one = function(FLOATS, FLOATS, f"{drawn}%r = stablehlo.add %a, %a : {FLOATS}")
    assert answer(two, two) == "proven"
    assert answer(two, one) == "unknown"


def called(attributes: str, body: str = "negate") -> str:
    inner = f"""func.func private @inner(%x: {FLOATS}) -> {FLOATS} {{
      %r = stablehlo.{body} %x : {FLOATS}
      return %r : {FLOATS}
    }}\n"""
    call = f"%r = stablehlo.custom_call @f(%x) {{{attributes}}} : ({FLOATS}) -> {FLOATS}"
    return inner + function(FLOATS, FLOATS, call)


def test_what_a_call_does_beside_its_results_is_unknown() -> None:
    text = called("has_side_effect = true")
    assert answer(text, text) == "unknown"


def test_functions_that_are_called_are_what_a_call_does() -> None:
    one, other = (called("called_computations = [@inner]", each) for each in ("negate", "tanh"))
    assert answer(one, one) == "proven"
    assert answer(one, other) == "unknown"


def test_results_of_other_elements_are_not_compared() -> None:
    one, other = (
        function(FLOATS, type_, convert(FLOATS, type_)) for type_ in (WORDS, "tensor<4xi16>")
    )
    with pytest.raises(sd.ShardError, match="nothing is compared"):
        answer(one, other)


def test_a_reduction_without_a_channel_is_over_replicas() -> None:
    whole = f"""func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {{
        %a = stablehlo.slice %x [0:4] : (tensor<8xf32>) -> {FLOATS}
        %b = stablehlo.slice %x [4:8] : (tensor<8xf32>) -> {FLOATS}
        %r = stablehlo.add %a, %b : {FLOATS}
        return %r : {FLOATS} }}"""

    def local(channel: str) -> str:
        sum_ = function(
            FLOATS,
            FLOATS,
            f"""%r = "stablehlo.all_reduce"(%x) ({{
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %s = stablehlo.add %a, %b : tensor<f32>
              stablehlo.return %s : tensor<f32>
            }}) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>{channel}}}
              : ({FLOATS}) -> {FLOATS}""",
        )
        return f"""module attributes {{mhlo.num_partitions = 2 : i32,
            mhlo.spmd_parameters_shardings = ["{{devices=[2]<=[2]}}"],
            mhlo.spmd_output_sharding = "{{replicated}}"}} {{ sdy.mesh @m = <["a"=2]>\n{sum_} }}"""

    channel = (
        ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids"
    )
    assert answer(whole, local(channel)) == "proven"
    assert answer(whole, local("")) == "unknown"


LOCAL = """shard.grid @g(shape = 2)
func.func @main(%x: {given}) -> (tensor<{own}xf32> {{mesh.result = {result}}})
  attributes {{mesh.form = "local"}} {{
{body}
return %r : tensor<{own}xf32> }}"""


def test_offsets_that_leave_out_elements_are_unknown() -> None:
    whole = function("tensor<8xf32>", "tensor<8xf32>", "%r = stablehlo.negate %x : tensor<8xf32>")
    local = LOCAL.format(
        given="tensor<8xf32> {mesh.argument = tensor<8xf32>}",
        own=3,
        result="tensor<8xf32, #mesh.shard<@g, [[0], {offsets = [[0, 3, 5]]}]>>",
        body="""%i = shard.process_linear_index on @g : index
        %k = arith.constant 3 : index
        %m = arith.muli %i, %k : index
        %v = tensor.extract_slice %x[%m] [3] [1] : tensor<8xf32> to tensor<3xf32>
        %r = stablehlo.negate %v : tensor<3xf32>""",
    )
    assert answer(whole, local) == "unknown"


@pytest.mark.parametrize(("is_alike", "expected"), [(True, "proven"), (False, "unknown")])
def test_branches_that_devices_choose_by_numbers_of_their_own(
    is_alike: bool, expected: str
) -> None:
    whole = """func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
        %a = stablehlo.slice %x [0:4] : (tensor<8xf32>) -> tensor<4xf32>
        %b = stablehlo.slice %x [4:8] : (tensor<8xf32>) -> tensor<4xf32>
        %r = stablehlo.add %a, %b : tensor<4xf32>
        return %r : tensor<4xf32> }"""
    total = "shard.all_reduce %x on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>"
    local = LOCAL.format(
        given="tensor<4xf32> {mesh.argument = tensor<8xf32, #mesh.shard<@g, [[0]]>>}",
        own=4,
        result="tensor<4xf32>",
        body=f"""%t = {total}
        %z = arith.constant 0.0 : f32
        %i = arith.constant 0 : index
        %n = tensor.extract {"%t" if is_alike else "%x"}[%i] : tensor<4xf32>
        %p = arith.cmpf olt, %n, %z : f32
        %r = scf.if %p -> tensor<4xf32> {{
          %y = {total}
          scf.yield %y : tensor<4xf32>
        }} else {{
          scf.yield %t : tensor<4xf32>
        }}""",
    )
    assert answer(whole, local) == expected
