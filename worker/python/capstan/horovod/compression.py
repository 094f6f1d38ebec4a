"""How values travel."""
from __future__ import annotations

from typing import Any

import torch


class Compressor:
    """Values travel as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return tensor


class FP16Compressor(Compressor):
    """Floating-point values travel with 16 bits. They are added as float32, and the result is rounded once."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return (tensor.half(), tensor.dtype) if tensor.dtype.is_floating_point else (tensor, None)

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        return tensor if context is None else tensor.to(context)


class Compression:
    none = Compressor
    fp16 = FP16Compressor
