// What goes wrong in a plugin is one line, at the plugin's own line where there is one.
//
// RUN: not shard-opt %s --load-plugin %S/Inputs/nowhere.py 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not shard-opt %s --load-plugin no_such_module 2>&1 | filecheck %s --check-prefix=MODULE
// RUN: not shard-opt %s --load-plugin %S/Inputs/raises.py 2>&1 | filecheck %s --check-prefix=RAISES
// RUN: not shard-opt %s --load-plugin %S/Inputs 2>&1 | filecheck %s --check-prefix=FOLDER
// RUN: not shard-opt %s --load-plugin %S/Inputs/no_anchor.py --lost 2>&1 | filecheck %s --check-prefix=ANCHOR
// RUN: not shard-opt %s --load-plugin %S/Inputs/no_rewrite.py --idle 2>&1 | filecheck %s --check-prefix=REWRITE

// FILE: error: cannot load plugin '{{.*}}nowhere.py': cannot read '{{.*}}nowhere.py': no such file or directory
// FILE-NOT: {{.}}
// MODULE: error: cannot load plugin 'no_such_module': ModuleNotFoundError: No module named 'no_such_module'
// MODULE-NOT: {{.}}
// RAISES: Inputs/raises.py:4:1: error: cannot load plugin '{{.*}}raises.py': KeyError: 'missing'
// RAISES-NOT: {{.}}
// FOLDER: error: cannot load plugin '{{.*}}Inputs': cannot read '{{.*}}Inputs': is a directory
// ANCHOR: Inputs/no_anchor.py:{{[78]}}:1: error: cannot load plugin '{{.*}}no_anchor.py': pass 'lost' of Lost would never run: its anchor 'func' is not the name of an op: did you mean 'func.func'?
// ANCHOR-NOT: {{.}}
// REWRITE: Inputs/no_rewrite.py:{{[78]}}:1: error: cannot load plugin '{{.*}}no_rewrite.py': pass 'idle': Idle has no method 'rewrite', which changes the op that the pass runs on
// REWRITE-NOT: {{.}}
