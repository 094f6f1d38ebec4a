"""Reads the curves in event files as TensorBoard's documents say: by a reader of our own and, where the package tensorboard can
be imported, by its own. (Debian has no such package: pip install --target FOLDER tensorboard, and PYTHONPATH=FOLDER.)"""
import importlib.util
import os
import struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
START = 1  # a status of SessionLog

HAS_TENSORBOARD = importlib.util.find_spec("tensorboard") is not None


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked_crc(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records_of(path):
    """Yields the events of a file; its end may be torn off."""
    with open(path, "rb") as file:
        data = file.read()
    while len(data) >= 12:
        (length,), (crc,) = struct.unpack("<Q", data[:8]), struct.unpack("<I", data[8:12])
        assert crc == masked_crc(data[:8]), f"{path}: a length with another checksum"
        event, end = data[12:12 + length], data[12 + length:16 + length]
        if len(end) < 4:
            return
        assert struct.unpack("<I", end)[0] == masked_crc(event), f"{path}: an event with another checksum"
        yield fields_of(event)
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields_of(data):
    """Returns number -> values of a message of Protocol Buffers."""
    fields, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == VARINT:
            value, at = varint(data, at)
        else:
            length = {FIXED64: 8, FIXED32: 4}.get(key & 7)
            if length is None:
                assert key & 7 == BYTES
                length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def curves(folder):
    """Returns tag -> [(step, value)]. Files are read in the order of their names, and a start discards later steps."""
    shown = {}
    for name in sorted(os.listdir(folder)):
        events = list(records_of(os.path.join(folder, name)))
        assert events[0][3] == [b"brain.Event:2"], f"{name} does not begin with its version"
        for event in events:
            step = event.get(2, [0])[0]
            if fields_of(event.get(7, [b""])[0]).get(1) == [START]:
                shown = {tag: [point for point in points if point[0] < step] for tag, points in shown.items()}
            for value in fields_of(event.get(5, [b""])[0]).get(1, []):
                scalar = fields_of(value)
                shown.setdefault(scalar[1][0].decode(), []).append((step, struct.unpack("<f", scalar[2][0])[0]))
    return shown


def curves_as_tensorboard_shows_them(folder):
    from tensorboard.backend.event_processing import event_accumulator  # pylint: disable=import-outside-toplevel
    reader = event_accumulator.EventAccumulator(folder, size_guidance={"tensors": 0, "scalars": 0})
    reader.Reload()
    shown = {}
    for tag in reader.Tags()["scalars"]:
        shown[tag] = [(event.step, event.value) for event in reader.Scalars(tag)]
    for tag in reader.Tags()["tensors"]:  # what it makes of numbers written as here
        shown[tag] = [(event.step, event.tensor_proto.float_val[0]) for event in reader.Tensors(tag)]
    return shown
