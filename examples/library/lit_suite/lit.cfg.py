"""A lit suite of your own, on an installed package: `lit -v examples/library/lit_suite`.

pip install 'shard-dialect[test]'
"""

import os
import sys
import tempfile

import lit.formats

config.name = "mine"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_exec_root = os.path.join(tempfile.gettempdir(), "lit_suite")
# Where pip has put shard-opt and filecheck.
config.environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
config.environment["SHARD_DIALECT_CACHE"] = "0"
