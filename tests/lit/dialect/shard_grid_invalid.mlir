// RUN: shard-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'shard.grid' op rank of grid is expected to be a positive integer}}
shard.grid @g(shape = [])

// -----

// expected-error@+1 {{Failed parsing dimension list}}
shard.grid @g(shape = -1)

// -----

// expected-note@+1 {{see existing symbol definition here}}
shard.grid @g(shape = 2)
// expected-error@+1 {{redefinition of symbol named 'g'}}
shard.grid @g(shape = 4)

// -----

func.func @f() {
  // expected-error@+1 {{'shard.grid' op symbol's parent must have the SymbolTable trait}}
  shard.grid @g(shape = 2)
  return
}
