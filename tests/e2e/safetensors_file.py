"""Reads and writes safetensors files, following only the format's rules."""
import json
import struct


def read_safetensors(path):
    """Returns (shape, bytes) of each tensor by name, and the metadata."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    data = content[8 + length:]
    return {name: (tensor["shape"], data[slice(*tensor["data_offsets"])]) for name, tensor in header.items()}, metadata


def write_safetensors(path, tensors):
    """Writes a file of `tensors`: (shape, bytes) or (shape, bytes, type) by name."""
    header, data = {}, b""
    for name, (shape, values, *dtype) in tensors.items():
        header[name] = {"dtype": dtype[0] if dtype else "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
