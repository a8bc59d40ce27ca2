"""The tests here import torch, and transformers."""

from importlib.util import find_spec

from tests.extras import missing

_IS_HERE = not missing(["torch"]) and find_spec("transformers") is not None
collect_ignore_glob = [] if _IS_HERE else ["test_*.py"]
