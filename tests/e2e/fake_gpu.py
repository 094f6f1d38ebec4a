"""What capstan.torch asks of CUDA, played by the CPU: a copy that does not block has happened when its event says so,
and not before. For torch_memory_test.py.

usage: fake_gpu.py on|off JSON      torch_training.py's training, with all parameters on the GPU, or where none is
"""
import collections
import json
import math
import sys

import torch

seen = collections.Counter()
_stream = collections.deque()  # copies under way
_copy, _empty = torch.Tensor.copy_, torch.empty
STREAM = object()


def _copy_later(self, values, non_blocking=False):
    if not non_blocking:
        return _copy(self, values)
    assert self.was_pinned, "a copy that does not block wants pinned memory"
    seen["copies"] += 1
    _copy(self, torch.full_like(self, math.nan))
    _stream.append((self, values))
    return self


def _pinned(*arguments, pin_memory=False, **options):
    tensor = _empty(*arguments, **options)
    tensor.was_pinned = pin_memory
    seen["pinned"] += pin_memory
    return tensor


class Event:
    def record(self, stream):
        assert stream is STREAM
        self._last = _stream[-1]

    def query(self):
        seen["queries"] += 1
        if seen["queries"] % 3 == 0:
            self._run()
        return not self._is_under_way()

    def synchronize(self):
        seen["waited"] += self._is_under_way()
        self._run()

    def _is_under_way(self):
        return any(copy is self._last for copy in _stream)

    def _run(self):
        while self._is_under_way():
            _copy(*_stream.popleft())


class NoEvent:
    def __init__(self):
        raise AssertionError("an event of CUDA, and no parameter is there")


def install(is_on):
    torch.cuda.Event = Event if is_on else NoEvent
    torch.cuda.current_stream = lambda device: STREAM
    torch.Tensor.copy_, torch.empty = _copy_later, _pinned
    torch.nn.Parameter.is_cuda = is_on


if __name__ == "__main__":
    import torch_training

    torch.set_num_threads(1)
    install(sys.argv[1] == "on")
    torch_training.by_capstan(json.loads(sys.argv[2]))
    print(json.dumps(seen))
