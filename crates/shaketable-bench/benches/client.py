"""The functions of a libfdb_c that the measurements in this folder call, and nothing between them and Python but ctypes."""

import ctypes
import sys

P, I, B = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
SIGNATURES = {
    "fdb_select_api_version_impl": (I, [I, I]),
    "fdb_setup_network": (I, []),
    "fdb_run_network": (I, []),
    "fdb_stop_network": (I, []),
    "fdb_create_database": (I, [B, ctypes.POINTER(P)]),
    "fdb_database_create_transaction": (I, [P, ctypes.POINTER(P)]),
    "fdb_transaction_destroy": (None, [P]),
    "fdb_transaction_get": (P, [P, B, I, I]),
    "fdb_transaction_set": (None, [P, B, I, B, I]),
    "fdb_transaction_clear_range": (None, [P, B, I, B, I]),
    "fdb_transaction_commit": (P, [P]),
    "fdb_future_block_until_ready": (I, [P]),
    "fdb_future_get_error": (I, [P]),
    "fdb_future_destroy": (None, [P]),
}


def load(path):
    """The library at that path."""
    library = ctypes.CDLL(path)
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def check(code):
    """Ends the program if a call has failed."""
    if code:
        sys.exit(f"error {code}")
