// RUN: not shard-opt %s --propagate=stop-after-priority=-1 2>&1 | filecheck %s --check-prefix=NEGATIVE
// RUN: not shard-opt %s --propagate='stop-after-priority=1 strategy=basic' 2>&1 | filecheck %s --check-prefix=BASIC
// RUN: not shard-opt %s --propagate='stop-after-priority=1 traversal=forward' 2>&1 | filecheck %s --check-prefix=UPSTREAM
//
// NEGATIVE: error: pass 'propagate' has stop-after-priority=-1: priorities are from 0 on
// BASIC: error: pass 'propagate' has stop-after-priority=1 and strategy=basic, which ignores priorities: use strategy=cost or strategy=user-priority
// UPSTREAM: error: pass 'propagate' has stop-after-priority=1 and traversal=forward, which ignores priorities

func.func @main() {
  return
}
