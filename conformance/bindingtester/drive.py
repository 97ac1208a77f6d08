"""Runs Apple's bindingtester with one seed after another, inside the Python that has the binding.

    drive.py FOLDER SETTINGS

`FOLDER` holds FoundationDB's sources, `SETTINGS` is a JSON object; `run` beside this file writes
it. Prints a JSON object per seed, with what the bindingtester said.

The sources have a binding of their own, which cannot be imported without being built. So the one of
PyPI is imported first, here and in the stack tester (`stack_tester.py`), and stays.
"""

import importlib
import io
import json
import os
import pickle
import sys
from pathlib import Path

import fdb

HERE = Path(__file__).resolve().parent
# The integers that JavaScript has, and the API versions that npm's tester names for itself.
NODE = {"max_int_bits": 53, "min_api_version": 500, "max_api_version": 720}


def main():
    folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    # What the stack testers print is not for `run`.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path[:0] = [str(folder / "bindings"), str(folder / "bindings" / "bindingtester")]
    import bindingtester as package
    from bindingtester import bindingtester, known_testers

    testers = known_testers.testers
    script = folder / "bindings" / "python" / "tests" / "tester.py"
    testers["python"].cmd = f"{sys.executable} {HERE / 'stack_tester.py'} {script}"
    testers["node"] = known_testers.Tester(
        "node", f"node {settings['node']}", types=known_testers.ALL_TYPES, **NODE
    )
    if "node" in settings["arguments"]:
        # The scripted test insists on the newest version.
        scripted = importlib.import_module("bindingtester.tests.scripted")
        scripted.FDB_API_VERSION = NODE["max_api_version"]
    leave_tenants_alone(bindingtester)
    kept = {}
    remember_results(bindingtester, kept, settings)
    for seed in settings["seeds"]:
        kept["seed"] = seed
        said = package.LOGGING["handlers"]["console"]["stream"] = io.StringIO()
        try:
            code = bindingtester.main([*settings["arguments"], "--seed", str(seed)])
        except SystemExit as end:
            code = end.code
        answer = {"seed": seed, "code": code, "output": said.getvalue()}
        print(json.dumps(answer), file=answers, flush=True)


def leave_tenants_alone(bindingtester):
    """Replaces the first step of a run, which also clears all tenants: a database refuses that with
    2136 unless its tenant mode has been changed."""

    def insert(runner, programs):
        runner.db.clear_range(b"", b"\xff")
        for subspace, program in programs.items():
            program.insert_operations(runner.db, subspace)

    bindingtester.TestRunner._insert_instructions = insert


def remember_results(bindingtester, kept, settings):
    """Lets the results of a run be kept in a folder, or be compared with those of one that were."""
    keep, against = settings.get("keep"), settings.get("against")
    validate = bindingtester.TestRunner._validate_results

    def remembering(runner, errors, sets):
        name = str(kept["seed"])
        if keep:
            rows = {
                subspace.key(): [
                    (subspace.pack(result.key_tuple), result.values)
                    for result in list(results.tester_results.values())[-1]
                ]
                for subspace, results in sets.items()
            }
            Path(keep, name).write_bytes(pickle.dumps(rows))
        if against:
            rows = pickle.loads(Path(against, name).read_bytes())
            for subspace, results in sets.items():
                others = [bindingtester.Result(subspace, *row) for row in rows[subspace.key()]]
                results.add("the other library", others)
        return validate(runner, errors, sets)

    bindingtester.TestRunner._validate_results = remembering


if __name__ == "__main__":
    main()
