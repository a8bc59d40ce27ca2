// RUN: shard-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{grid @m has two axes named "x"}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "x"=4]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{grid @m has size 0 on axis 0}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=0]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{grid @m has size -1 on axis 0}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=-1]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{expected '=' at ']' in #sdy.mesh<["x"]>}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{expected a name in quotes at 'x' in #sdy.mesh<[x=2]>}}
"sdy.mesh"() <{mesh = #sdy.mesh<[x=2]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{grid @m of 2 devices has device ids [0]}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2], device_ids=[0]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{grid @m of 2 devices has device ids [1, 1]}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2], device_ids=[1, 1]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{grid @m of 2 devices has device ids [1, 2]}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2], device_ids=[1, 2]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{grid @m has device id -1: ids are not negative}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2], device_ids=[-1, 0]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{grid @m has 2 device ids and no axes}}
"sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[0, 1]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{grid @m has device id -1: ids are not negative}}
"sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[-1]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{expected 'device_ids' at 'devices' in #sdy.mesh<["x"=2], devices=[0, 1]>}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2], devices=[0, 1]>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{unbalanced '[' character in pretty dialect name}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2>, sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{'sdy.mesh' op @m has no attribute 'mesh'}}
"sdy.mesh"() <{sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{attribute 'sym_name' must be a string, found None}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>}> : () -> ()

// -----

// expected-error@+1 {{expected #sdy.mesh<...>, found "x=2"}}
"sdy.mesh"() <{mesh = "x=2", sym_name = "m"}> : () -> ()

// -----

// expected-error@+1 {{attribute 'sym_name' must be a string, found 2 : i64}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = 2 : i64}> : () -> ()

// -----

// expected-note@+1 {{see existing symbol definition here}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()
// expected-error@+1 {{redefinition of symbol named 'm'}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()

// -----

func.func @inside_of_a_function() {
  // expected-error@+1 {{'sdy.mesh' op declares a mesh inside of another op: expected it in the module}}
  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "m"}> : () -> ()
  return
}

// -----

// expected-error@+1 {{expected a number at '4611686018427387904' in #sdy.mesh<["x"=4611686018427387904, "y"=4]>}}
"sdy.mesh"() <{mesh = #sdy.mesh<["x"=4611686018427387904, "y"=4]>, sym_name = "m"}> : () -> ()
