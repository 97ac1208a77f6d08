"""Runs the stack tester of FoundationDB's Python binding with the binding of PyPI.

    stack_tester.py SCRIPT PREFIX API_VERSION [CLUSTER_FILE]

The script looks for a binding beside itself; one that has been imported already wins. The binding's
unit tests, which the scripted test would run too, take half a minute and depend on no seed:
`apple-python/run` runs them.
"""

import runpy
import sys
import types
from pathlib import Path

import fdb  # noqa: F401

sys.dont_write_bytecode = True
sys.argv.pop(0)
sys.path[0] = str(Path(sys.argv[0]).parent)
unit_tests = types.ModuleType("unit_tests")
unit_tests.run_unit_tests = lambda database: None
sys.modules["unit_tests"] = unit_tests
runpy.run_path(sys.argv[0], run_name="__main__")
