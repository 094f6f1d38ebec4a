"""Prints registers, memory and spills of every kernel for sm_90: resources_test.py OBJECT...

Reads the machine code in nvcc's objects; ptxas reports the same, but only during compilation. Fails if a hot kernel is
missing or uses local memory, which holds spilled registers and arrays that are not in registers. Without arguments (there
was no nvcc) the exit code is 77, and with CI=true it is 1.
"""
import ctypes
import os
import re
import struct
import subprocess
import sys

# Kernels that take much of a training step's time. No template instance of them may use local memory.
HOT = [
    'Forward', 'Means', 'Backward',  # attention
    'NormaliseRows', 'RowsBackward',  # layer norm
    'LossRows', 'AddRows',  # softmax and cross entropy
    'Activate', 'BackwardGroups',  # bias and activation
    'AddChunks',  # gradients of layer norms and biases
    'AddTables', 'CountDigits', 'SumCounts', 'PlaceRows', 'RankRows', 'AddSegments', 'AddOtherSegments',
    'AddPositions',  # embedding
    'CastPacks', 'AxpbyPacks', 'DropSome',
    'ChunkMoments', 'FinishMoments', 'Normalise', 'ChunkGradients', 'FinishGradients', 'InputGradient',  # batch norm
    'LayOutPacks', 'LayOutNumbers', 'GatherColumns',  # im2col
]

ARCHITECTURE = 90
FATBIN_MAGIC = 0xBA55ED50
ELF_ENTRY = 2
LOAD_LOCAL, STORE_LOCAL = 0x983, 0x387  # the low 12 bits of an instruction of 16 bytes
REGISTERS, FRAME = 0x2F, 0x11  # attributes of .nv.info
RESERVED_SHARED = 1024  # of each block, by the system


def sections(elf):
    """Yields (name, size, bytes, info) of each section of a 64-bit ELF file."""
    start, = struct.unpack_from('<Q', elf, 40)
    count, names = struct.unpack_from('<HH', elf, 60)
    headers = [struct.unpack_from('<IIQQQQIIQQ', elf, start + 64 * i) for i in range(count)]
    for name, kind, _, _, offset, size, _, info, _, _ in headers:
        begin = headers[names][4] + name
        data = b'' if kind == 8 else elf[offset:offset + size]
        yield elf[begin:elf.index(b'\0', begin)].decode(), size, data, info


def decompress(data, size):
    zstd = ctypes.CDLL('libzstd.so.1')
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(size)
    if zstd.ZSTD_decompress(out, size, data, len(data)) != size:
        sys.exit('resources: compressed code in another way than zstd: see nvcc --compress-mode')
    return out.raw


def device_code(obj):
    """Yields the ELF files for ARCHITECTURE in an object of nvcc."""
    for name, _, fatbin, _ in sections(obj):
        at = 0
        while name == '.nv_fatbin' and at < len(fatbin):
            magic, _, header, size = struct.unpack_from('<IHHQ', fatbin, at)
            assert magic == FATBIN_MAGIC, f'no fat binary at byte {at} of .nv_fatbin but {magic:#x}'
            entry, end = at + header, at + header + size
            while entry < end:
                kind, _, head, padded, compressed = struct.unpack_from('<HHIQI', fatbin, entry)
                architecture, = struct.unpack_from('<I', fatbin, entry + 28)
                full, = struct.unpack_from('<Q', fatbin, entry + 56)
                data = fatbin[entry + head:entry + head + padded]
                if kind == ELF_ENTRY and architecture == ARCHITECTURE:
                    yield decompress(data[:compressed], full) if compressed else data
                entry += head + padded
            at = (end + 7) // 8 * 8


def attributes(parts):
    """Returns {(attribute, symbol): value} of .nv.info, for attributes that have a symbol and a number."""
    data, found, at = parts['.nv.info'][1], {}, 0
    while at < len(data):
        form, attribute, size = struct.unpack_from('<BBH', data, at)
        if form == 4 and size == 8:
            symbol, value = struct.unpack_from('<II', data, at + 4)
            found[attribute, symbol] = value
        at += 4 + (size if form == 4 else 0)
    return found


def kernels(elf):
    """Yields (name, registers, shared bytes, stack bytes, local loads and stores) of each kernel."""
    parts = {name: (size, data, info) for name, size, data, info in sections(elf)}
    known = attributes(parts)
    for section, (_, code, info) in parts.items():
        if not section.startswith('.text.'):
            continue
        name, symbol = section[len('.text.'):], info & 0xFFFFFF
        shared = parts.get('.nv.shared.' + name, (RESERVED_SHARED,))[0] - RESERVED_SHARED
        operations = [struct.unpack_from('<H', code, i)[0] & 0xFFF for i in range(0, len(code), 16)]
        yield (name, known[REGISTERS, symbol], shared, known[FRAME, symbol],
               sum(operation in (LOAD_LOCAL, STORE_LOCAL) for operation in operations))


def readable(names):
    text = subprocess.run(['c++filt'], input='\n'.join(names), capture_output=True, text=True, check=True).stdout
    text = re.sub(r'\(anonymous namespace\)::|capstan::|kernels::|^void ', '', text, flags=re.M)
    text = text.replace('(Own)0', 'keys').replace('(Own)1', 'queries')
    text = re.sub(r'\(\w+\)(\d)', r'\1', text)  # other enumerations
    return [re.sub(r'\(.*', '', line) for line in text.splitlines()]


def main():
    if len(sys.argv) == 1:
        print('resources: SKIPPED: no nvcc, so no code for a device to look at')
        return 1 if os.environ.get('CI') == 'true' else 77
    found = []
    for path in sys.argv[1:]:
        with open(path, 'rb') as file:
            obj = file.read()
        for elf in device_code(obj):
            found += kernels(elf)
    rows = sorted(zip(readable([row[0] for row in found]), *list(zip(*found))[1:]))
    print(f'{"kernel":44}{"registers":>10}{"shared":>8}{"stack":>7}{"local loads and stores":>24}')
    for name, registers, shared, stack, local in rows:
        print(f'{name:44}{registers:10}{shared:8}{stack:7}{local:24}')
    bases = [row[0].split('<')[0] for row in rows]
    missing = [name for name in HOT if name not in bases]
    spilling = [row[0] for row, base in zip(rows, bases) if base in HOT and (row[3] or row[4])]
    print(f'{len(rows)} kernels, {sum(base in HOT for base in bases)} of them hot, {len(spilling)} of these spill')
    for name in missing:
        print(f'resources: there is no kernel {name}: name the hot one that stands for it now in HOT')
    for name in spilling:
        print(f'resources: {name} is hot and uses local memory for sm_{ARCHITECTURE}: keep less alive at once, or give '
              'it more registers by __launch_bounds__')
    return 1 if missing or spilling else 0


if __name__ == '__main__':
    sys.exit(main())
