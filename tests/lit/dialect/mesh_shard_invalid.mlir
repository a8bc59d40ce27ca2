// RUN: shard-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'func.func' op grid @g is not declared; the module's grids: none}}
func.func @unknown_grid(%x: tensor<4x8xf32, #mesh.shard<@g, [[0]]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis 2 in sharding [[2], []] is not in grid @g of rank 2}}
func.func @an_axis_past_the_end(%x: tensor<4x8xf32, #mesh.shard<@g, [[2]]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis -1 is negative in sharding [[-1], []]}}
func.func @a_negative_axis(%x: tensor<4x8xf32, #mesh.shard<@g, [[-1]]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis 0 is used twice in sharding [[0, 0], []]}}
func.func @an_axis_twice_in_a_dimension(%x: tensor<4x8xf32, #mesh.shard<@g, [[0, 0]]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis 0 is used twice in sharding [[0], [0]]}}
func.func @an_axis_in_two_dimensions(%x: tensor<4x8xf32, #mesh.shard<@g, [[0], [0]]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis 0 is used twice in sharding [[0], [], [0]]}}
func.func @an_axis_that_splits_and_is_partial(%x: tensor<4x8xf32, #mesh.shard<@g, [[0], [], [0]]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis 5 in sharding [[], [], [5]] is not in grid @g of rank 2}}
func.func @partial_past_the_end(%x: tensor<4x8xf32, #mesh.shard<@g, [[], [], [5]]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op partial by max and by min: expected one reduction}}
func.func @two_kinds_of_partial(%x: tensor<4x8xf32, #mesh.shard<@g, [[], [], {max = [0], min = [1]}]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sharding [[], [], [0], {max = [1]}] has split axes for 3 dimensions, but the tensor has 2}}
func.func @partial_by_list_and_by_name(%x: tensor<4x8xf32, #mesh.shard<@g, [[], [], [0], {max = [1]}]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sharding [[0], [], [], []] has split axes for 4 dimensions, but the tensor has 2}}
func.func @too_many_lists(%x: tensor<4x8xf32, #mesh.shard<@g, [[0], [], [], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected a list of integers, found 0 : i64}}
func.func @not_lists(%x: tensor<4x8xf32, #mesh.shard<@g, [0, 1]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected an axis as 0, or a part of one as "0:(1)2", found "x"}}
func.func @axes_by_name(%x: tensor<4x8xf32, #mesh.shard<@g, [["x"], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected an axis as 0, or a part of one as "0:(1)2", found 5.000000e-01 : f64}}
func.func @an_axis_that_is_a_float(%x: tensor<4x8xf32, #mesh.shard<@g, [[0.5], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op 36893488147419103232 : i128 is wider than 64 bits}}
func.func @an_axis_of_many_bits(%x: tensor<4x8xf32, #mesh.shard<@g, [[36893488147419103232 : i128], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected a list of integers, found {max = [0]}}}
func.func @fields_not_at_the_end(%x: tensor<4x8xf32, #mesh.shard<@g, [{max = [0]}, []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op unknown field 'median' in {median = [0]}}}
func.func @an_unknown_field(%x: tensor<4x8xf32, #mesh.shard<@g, [[], [], {median = [0]}]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op #mesh.shard<@g, [[0], [], {open = [1]}]> is no sharding: only annotations say open}}
func.func @open_in_a_type(%x: tensor<4x8xf32, #mesh.shard<@g, [[0], [], {open = [1]}]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op #mesh.shard<@g, [[0], [], {replicated = [1]}]> is no sharding: only annotations say replicated}}
func.func @replicated_in_a_type(%x: tensor<4x8xf32, #mesh.shard<@g, [[0], [], {replicated = [1]}]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op #mesh.shard<@g, [[0], [], {priority = [1, unit]}]> is no sharding: only annotations say priority}}
func.func @priority_in_a_type(%x: tensor<4x8xf32, #mesh.shard<@g, [[0], [], {priority = [1, unit]}]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sub-axis 1:(1)3 in sharding [["1:(1)3"], []] ends at 3, which does not divide axis 1 of size 8}}
func.func @a_sub_axis_that_does_not_divide(%x: tensor<4x8xf32, #mesh.shard<@g, [["1:(1)3"], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sub-axis 1:(4)4 in sharding [["1:(4)4"], []] ends at 16, which does not divide axis 1 of size 8}}
func.func @a_sub_axis_past_the_end(%x: tensor<4x8xf32, #mesh.shard<@g, [["1:(4)4"], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sub-axis 1:(1)8 in sharding [["1:(1)8"], []] is all of axis 1: write 1}}
func.func @all_of_an_axis(%x: tensor<4x8xf32, #mesh.shard<@g, [["1:(1)8"], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sub-axis 1:(2)1 in sharding [["1:(2)1"], []]}}
func.func @a_sub_axis_of_size_1(%x: tensor<4x8xf32, #mesh.shard<@g, [["1:(2)1"], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sub-axis 1:(0)2 in sharding [["1:(0)2"], []]}}
func.func @a_sub_axis_without_a_pre_size(%x: tensor<4x8xf32, #mesh.shard<@g, [["1:(0)2"], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected an axis as 0, or a part of one as "0:(1)2", found "1:2"}}
func.func @a_sub_axis_that_is_not_written_so(%x: tensor<4x8xf32, #mesh.shard<@g, [["1:2"], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axes 1:(1)4 and 1:(2)2 overlap in sharding [["1:(1)4"], ["1:(2)2"]]}}
func.func @sub_axes_that_overlap(%x: tensor<4x8xf32, #mesh.shard<@g, [["1:(1)4"], ["1:(2)2"]]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axes 1 and 1:(2)2 overlap in sharding [[1], ["1:(2)2"]]}}
func.func @an_axis_and_its_sub_axis(%x: tensor<4x8xf32, #mesh.shard<@g, [[1], ["1:(2)2"]]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sub-axes 1:(1)2 and 1:(2)2 in [["1:(1)2", "1:(2)2"], []] are one: write them as one}}
func.func @sub_axes_that_are_one(%x: tensor<4x8xf32, #mesh.shard<@g, [["1:(1)2", "1:(2)2"], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis 2 in sharding [["2:(1)2"], []] is not in grid @g of rank 2}}
func.func @a_sub_axis_of_none(%x: tensor<4x8xf32, #mesh.shard<@g, [["2:(1)2"], []]>>) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op dimension 2 is open in [[0], [], {open = [2]}], of 2 dimensions}}
func.func @open_past_the_end(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = [2]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected a list of integers, found 1 : i64}}
func.func @open_is_no_list(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {open = 1 : i64}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op 1 priorities in [[0], [], {priority = [1]}]: expected one for each dimension}}
func.func @too_few_priorities(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {priority = [1]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op priority -1 of dimension 0 in [[0], [], {priority = [-1, unit]}] is negative}}
func.func @a_negative_priority(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {priority = [-1, unit]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected a priority, or `unit` for none, found "high"}}
func.func @a_priority_that_is_no_number(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {priority = ["high", unit]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op priority 1 of dimension 1 in [[0], [], {priority = [unit, 1]}], which is neither split nor open: there is nothing to decide}}
func.func @a_priority_of_what_is_closed_and_whole(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {priority = [unit, 1]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axes 0 and 0 overlap in [[0], [], {replicated = [0]}]}}
func.func @replicated_and_split(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {replicated = [0]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axes 0 and 0 overlap in [[], [], [0], {replicated = [0]}]}}
func.func @replicated_and_partial(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [], [0], {replicated = [0]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axis 3 in sharding [[], [], {replicated = [3]}] is not in grid @g of rank 2}}
func.func @replicated_past_the_end(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [], {replicated = [3]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op grid axes 1 and 1:(1)2 overlap in [[1], [], {replicated = ["1:(1)2"]}]}}
func.func @replicated_sub_axes_that_overlap(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[1], [], {replicated = ["1:(1)2"]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sizes of a dimension that is not split in sharding [[0], [], {halo = [[1, 1], [1, 1]]}]}}
func.func @halos_of_a_dimension_that_is_whole(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [[1, 1], [1, 1]]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op halo [1] in [[0], [], {halo = [[1], []]}]: expected two sizes}}
func.func @one_halo(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [[1], []]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op size -1 is negative in sharding [[0], [], {halo = [[-1, 0], []]}]}}
func.func @a_negative_halo(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [[-1, 0], []]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op sizes for 1 dimensions in sharding [[0], [], {halo = [[1, 1]]}]: expected 2}}
func.func @halos_of_too_few_dimensions(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [[1, 1]]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected a size, or "?" for one that an operand gives, found "a"}}
func.func @a_halo_that_is_no_size(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [["a", 1], []]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op expected a list of sizes, found 1 : i64}}
func.func @halos_that_are_no_lists(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [1, 1]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op both a halo and offsets of a dimension in sharding [[0], [], {halo = [[1, 1], []], offsets = [[0, 2, 4], []]}]: expected one of them}}
func.func @halos_and_offsets(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [[1, 1], []], offsets = [[0, 2, 4], []]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op offsets [0, 5, 4] in [[0], [], {offsets = [[0, 5, 4], []]}]: expected to grow from 0}}
func.func @offsets_that_go_down(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, 5, 4], []]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op offsets [1, 2, 4] in [[0], [], {offsets = [[1, 2, 4], []]}]: expected to grow from 0}}
func.func @offsets_that_do_not_start_at_0(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {offsets = [[1, 2, 4], []]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op 2 offsets of dimension 0 in sharding [[0], [], {offsets = [[0, 4], []]}]: expected 3, for 2 devices}}
func.func @too_few_offsets(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, 4], []]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op offsets [0, 1, 3] in [[0], [], {offsets = [[0, 1, 3], []]}] end at 3: expected the dimension's size, 4}}
func.func @offsets_that_end_early(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {offsets = [[0, 1, 3], []]}]>}) {
  return
}

// -----

"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 8]} : () -> ()
// expected-error@+1 {{'func.func' op has a size in [[0], [], {halo = [["?", 0], []]}] that no operand gives}}
func.func @a_size_that_no_operand_gives(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], {halo = [["?", 0], []]}]>}) {
  return
}
