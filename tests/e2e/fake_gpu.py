"""The part of CUDA that capstan.torch uses, played by the CPU: a non-blocking copy has happened when an event of its own
stream reports it, and not before. For torch_memory_test.py.

The computing stream reads a gradient before its next work may use the memory again; another stream reads only memory
that is still held by then. Memory that is not read, or not yet, is NaN.

usage: fake_gpu.py on|off JSON      torch_training.py's training, with all parameters on the GPU, or without a GPU
"""
import collections
import contextlib
import json
import math
import sys
import weakref

import torch

seen = collections.Counter()
_copy, _empty = torch.Tensor.copy_, torch.empty
_gradient = collections.deque(maxlen=1)  # the gradient whose copy started last, as a weak reference


class Stream:
    def __init__(self):
        self.copies = collections.deque()  # under way


COMPUTING = Stream()
_current = [COMPUTING]


@contextlib.contextmanager
def _on(stream):
    _current.append(stream)
    try:
        yield
    finally:
        _current.pop()


def _copy_later(self, values, non_blocking=False):
    if not non_blocking:
        return _copy(self, values)
    assert self.was_pinned, "a copy that does not block wants pinned memory"
    seen["copies"] += 1
    seen["held"] += sum(gradient() is not None for gradient in _gradient)
    _gradient.append(weakref.ref(values))
    _copy(self, torch.full_like(self, math.nan))
    stream, snapshot = _current[-1], values.clone()
    stream.copies.append((self, _gradient[0] if stream is not COMPUTING else lambda: snapshot))
    return self


def _pinned(*arguments, pin_memory=False, **options):
    tensor = _empty(*arguments, **options)
    tensor.was_pinned = pin_memory
    seen["pinned"] += pin_memory
    return tensor


class Event:
    def record(self, stream):
        self._stream, self._last = stream, stream.copies[-1] if stream.copies else None

    def query(self):
        seen["queries"] += 1
        if seen["queries"] % 3 == 0:
            self._run()
        return not self._is_under_way()

    def synchronize(self):
        seen["waited"] += self._is_under_way()
        self._run()

    def _is_under_way(self):
        return any(copy is self._last for copy in self._stream.copies)

    def _run(self):
        while self._is_under_way():
            memory, read = self._stream.copies.popleft()
            if (values := read()) is not None:
                _copy(memory, values)


class NoEvent:
    def __init__(self):
        raise AssertionError("an event of CUDA, and no parameter is there")


def install(is_on):
    torch.cuda.Event = Event if is_on else NoEvent
    torch.cuda.Stream, torch.cuda.stream = Stream, _on
    torch.cuda.current_stream = lambda device: _current[-1]
    torch.Tensor.copy_, torch.empty = _copy_later, _pinned
    torch.nn.Parameter.is_cuda = is_on


if __name__ == "__main__":
    import torch_training

    torch.set_num_threads(1)
    install(sys.argv[1] == "on")
    torch_training.by_capstan(json.loads(sys.argv[2]))
    print(json.dumps(seen))
