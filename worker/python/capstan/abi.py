"""libcapstan_client for ctypes: the structs and functions of <capstan/capstan.h> under their C names.

ctypes releases the interpreter's lock during every call, so other Python threads run while a worker waits.
"""
from __future__ import annotations

import ctypes
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

NAME = "libcapstan_client.so.0"
VERSION = 4  # CAPSTAN_ABI_VERSION of the structs and functions below
OK = 0

Notice = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Sized(ctypes.Structure):
    """A struct that begins with its size, from which the library sees which fields its caller knows."""

    def __init__(self, **fields: object) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


class Options(Sized):
    _fields_ = [("size", c_size_t), ("coordinator", c_char_p), ("worker", c_char_p), ("join_seconds", c_double),
                ("on_notice", Notice), ("context", c_void_p), ("rank", c_uint32), ("ranks", c_uint32),
                ("key_file", c_char_p)]


class Tensor(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("shape", POINTER(c_int64)), ("dimensions", c_size_t),
                ("initial", c_int), ("scale", c_float), ("no_weight_decay", c_int32), ("group", c_uint64),
                ("statistic", c_uint64)]


class HyperParameters(Sized):
    _fields_ = [("size", c_size_t), ("learning_rate", c_double), ("momentum", c_double), ("beta1", c_double),
                ("beta2", c_double), ("eps", c_double), ("weight_decay", c_double), ("nesterov", c_int32),
                ("dampening", c_double), ("alpha", c_double), ("lr_decay", c_double),
                ("initial_accumulator_value", c_double), ("momentum_decay", c_double), ("maximize", c_int32),
                ("decoupled_weight_decay", c_int32)]


class Description(Sized):
    _fields_ = [("size", c_size_t), ("tensors", POINTER(Tensor)), ("tensor_count", c_size_t),
                ("numeric_class", c_char_p), ("numeric_fingerprint", c_uint64), ("data_fingerprint", c_uint64),
                ("given", c_void_p)]


class Work(Sized):
    _fields_ = [("size", c_size_t), ("done", c_int32), ("loss_scale", c_float), ("step", c_uint64),
                ("generation", c_uint64), ("slots", POINTER(c_uint32)), ("slot_length", c_size_t),
                ("slot_count", c_uint32), ("updates", c_uint64), ("gradient_norm", c_double), ("source", c_uint64),
                ("keep", c_uint64), ("at_end", c_uint64)]


class Metric(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("sum", c_double), ("weight", c_double)]


class Result(Sized):
    _fields_ = [("size", c_size_t), ("loss_sum", c_double), ("predictions", c_uint64),
                ("validation_loss_sum", c_double), ("validation_predictions", c_uint64),
                ("validation_correct", c_uint64),
                ("metrics", POINTER(Metric)), ("metric_count", c_size_t)]


COUNTERS = ("messages_in", "messages_out", "payload_messages_in", "payload_messages_out", "payload_bytes_in",
            "payload_bytes_out", "header_bytes_in", "header_bytes_out", "decode_errors", "sends_blocked",
            "sends_unreachable", "unstaged_pushes")


class Counters(Sized):
    _fields_ = [("size", c_size_t), *((name, c_uint64) for name in COUNTERS)]


class Team(Sized):
    _fields_ = [("size", c_size_t), ("rank", c_uint32), ("ranks", c_uint32), ("waiting", c_uint32)]


class ReaderOptions(Sized):
    _fields_ = [("size", c_size_t), ("coordinator", c_char_p), ("name", c_char_p), ("join_seconds", c_double),
                ("key_file", c_char_p)]


class Progress(Sized):
    _fields_ = [("size", c_size_t), ("state", c_int32), ("slot_count", c_uint32), ("step", c_uint64),
                ("generation", c_uint64), ("message", c_char_p)]


class PullOptions(Sized):
    _fields_ = [("size", c_size_t), ("has_newer_than", c_int32), ("optimizer_state", c_int32),
                ("newer_than", c_uint64)]


class Pulled(Sized):
    _fields_ = [("size", c_size_t), ("nothing_newer", c_int32), ("done", c_int32), ("step", c_uint64),
                ("generation", c_uint64), ("updates", c_uint64), ("gradient_norm", c_double)]


class ReaderTensor(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("shape", POINTER(c_int64)), ("dimensions", c_size_t)]


# Result types of the functions that do not return an error code.
_OTHER_RESULTS = {"abi_version": c_uint32, "version": c_char_p, "last_error": c_char_p, "free": None,
                  "reader_last_error": c_char_p, "reader_free": None}
_ARGUMENTS: dict[str, list[object]] = {
    "abi_version": [],
    "version": [],
    "connect": [POINTER(Options), POINTER(c_void_p), c_char_p, c_size_t],
    "last_error": [c_void_p],
    "job_file": [c_void_p, POINTER(c_char_p)],
    "declare": [c_void_p, POINTER(Description)],
    "next_work": [c_void_p, c_double, POINTER(Work)],
    "weights": [c_void_p, POINTER(c_void_p)],
    "wait_weights": [c_void_p, c_uint32, c_uint32, c_double],
    "set_clip_norm": [c_void_p, c_double],
    "set_clip_value": [c_void_p, c_double],
    "set_hyper_parameters": [c_void_p, POINTER(HyperParameters), c_size_t],
    "set_program_state": [c_void_p, c_char_p, c_size_t],
    "program_state": [c_void_p, POINTER(c_void_p), POINTER(c_size_t)],
    "take_version": [c_void_p],
    "mean_gradient": [c_void_p, POINTER(c_void_p)],
    "keep_version": [c_void_p, c_void_p, c_char_p, c_size_t],
    "begin_slot": [c_void_p, c_uint32, c_uint64, POINTER(c_void_p)],
    "gradient_ready": [c_void_p, c_uint32, c_uint32],
    "gradient_ready_from": [c_void_p, c_uint32, c_uint64],
    "end_slot": [c_void_p, c_uint32, POINTER(Result)],
    "barrier": [c_void_p, c_double],
    "form_team": [c_void_p, c_uint32, c_uint32, c_double, POINTER(Team)],
    "read_team": [c_void_p, POINTER(Team)],
    "all_reduce": [c_void_p, c_void_p, c_uint64, c_int, c_int, c_double],
    "all_gather": [c_void_p, c_char_p, c_uint64, c_char_p, c_double],
    "gathered": [c_void_p, c_uint32, POINTER(c_void_p), POINTER(c_uint64)],
    "broadcast": [c_void_p, c_void_p, c_uint64, c_uint32, c_double],
    "leave": [c_void_p, c_char_p],
    "read_counters": [c_void_p, POINTER(Counters)],
    "free": [c_void_p],
    "reader_connect": [POINTER(ReaderOptions), POINTER(c_void_p), c_char_p, c_size_t],
    "reader_last_error": [c_void_p],
    "reader_job_file": [c_void_p, POINTER(c_char_p)],
    "reader_progress": [c_void_p, c_double, POINTER(Progress)],
    "reader_pull": [c_void_p, POINTER(PullOptions), c_double, POINTER(Pulled)],
    "reader_tensor_count": [c_void_p, POINTER(c_size_t)],
    "reader_read_tensor": [c_void_p, c_size_t, POINTER(ReaderTensor)],
    "reader_weights": [c_void_p, POINTER(c_void_p)],
    "reader_state_count": [c_void_p, POINTER(c_size_t)],
    "reader_state_name": [c_void_p, c_size_t, POINTER(c_char_p)],
    "reader_state": [c_void_p, c_size_t, POINTER(c_void_p)],
    "reader_free": [c_void_p],
}


def _path() -> str:
    """The library next to this package or in the same prefix; otherwise its name, for the dynamic linker's search."""
    here = pathlib.Path(__file__).resolve().parents
    return next((str(folder / NAME) for folder in (here[0], here[3]) if (folder / NAME).exists()), NAME)


def load() -> ctypes.CDLL:
    """Loads the library and sets its functions' argument and result types."""
    try:
        library = ctypes.CDLL(_path())
    except OSError as error:
        raise ImportError(f"capstan's Python package needs {NAME}, which `cmake --install` puts into the same prefix: "
                          f"{error}") from error
    library.capstan_abi_version.restype = c_uint32
    found = library.capstan_abi_version()
    if found < VERSION:
        raise ImportError(f"{library._name} has interface {found}, and capstan's Python package needs {VERSION}: "
                          "install both from one build")
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, f"capstan_{name}")  # `library` caches this object under this name
        function.argtypes = arguments
        function.restype = _OTHER_RESULTS.get(name, c_int)
    return library
