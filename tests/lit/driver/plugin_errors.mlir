// What goes wrong in a plugin is one line, at the plugin's own line where there is one.
//
// RUN: not shard-opt %s --load-plugin %S/Inputs/nowhere.py 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not shard-opt %s --load-plugin no_such_module 2>&1 | filecheck %s --check-prefix=MODULE
// RUN: not shard-opt %s --load-plugin %S/Inputs/raises.py 2>&1 | filecheck %s --check-prefix=RAISES
// RUN: not shard-opt %s --load-plugin %S/Inputs 2>&1 | filecheck %s --check-prefix=FOLDER

// FILE: error: cannot load plugin '{{.*}}nowhere.py': cannot read '{{.*}}nowhere.py': no such file or directory
// FILE-NOT: {{.}}
// MODULE: error: cannot load plugin 'no_such_module': ModuleNotFoundError: No module named 'no_such_module'
// MODULE-NOT: {{.}}
// RAISES: Inputs/raises.py:4:1: error: cannot load plugin '{{.*}}raises.py': KeyError: 'missing'
// RAISES-NOT: {{.}}
// FOLDER: error: cannot load plugin '{{.*}}Inputs': cannot read '{{.*}}Inputs': is a directory
