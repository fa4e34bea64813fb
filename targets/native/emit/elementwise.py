"""Elementwise operators and fused chains of them: one loop nest."""

from __future__ import annotations

from mcpc.ir import Value, product

from ..byte_table import byte_operand, table
from ..ctext import indent
from ..expression import Printer, load, load_packed
from ..iteration import broadcast_strides, space
from ..kernel import SELF, KernelBuilder, scalar, unsupported
from .registry import ELEMENTWISE, emits

#: What map_nd of elementwise.h has room for.
MAX_RANK, MAX_OPERANDS = 16, 64


@emits(ELEMENTWISE)
def elementwise(b: KernelBuilder) -> None:
    """Loop over the result in memory order, 8 elements at a time; operands are read through their strides."""
    result = b.node.output.type
    byte = byte_operand(b.region)
    if byte is not None and len(space(result, [result.strides, byte.type.strides]).sizes) == 1:
        lookup(b, byte)
        return
    operands: list[Value] = []

    def operand(value: Value) -> str:
        outer = b.region.outer(value)
        assert outer is not None
        if outer.data is not None and outer.data.size == 1:
            return scalar(outer)
        if not any(outer is known for known in operands):
            operands.append(outer)
        return f"x{next(i for i, known in enumerate(operands) if known is outer)}"

    printer = Printer(operand)
    for node in b.region.chain:
        printer.node(node)
    loops = space(result, [result.strides, *(broadcast_strides(value.type, result) for value in operands)])
    inner = [strides[-1] for strides in loops.strides]

    is_flat = len(loops.sizes) == 1

    def position(index: int) -> str:
        """Operand ``index``'s element; empty for the first one."""
        step = b.size(inner[index])
        moved = "i" if step == "1" else f"i * {step}"
        return " + ".join([*([] if is_flat else [f"at[{index}]"]), *([] if step == "0" else [moved])])

    def element(pointer: str, index: int) -> str:
        return " + ".join(filter(None, (pointer, position(index))))

    lines = []
    for index, value in enumerate(operands):
        step = b.size(inner[index + 1])
        packed = b.packed(value) if step == "1" else None
        if packed is not None:
            pointer, bits = packed
            text = load_packed(value.dtype, bits, pointer, position(index + 1))
        else:
            text = load(value.dtype, element(b.input(value), index + 1), step, "lanes")
        lines.append(f"const __auto_type x{index} = {text};")
    lines += printer.statements
    lines.append(printer.store(b.region.result, element(b.output(), 0), "lanes"))
    place = "int64_t i" if is_flat else "const int64_t *at, int64_t i"
    b.function(
        f"MCP26_INLINE void {SELF}_eight(const void *const *args, {place}, int64_t lanes) {{\n{indent(lines)}\n}}"
    )
    b.headers += ["elementwise.h", "vmath.h"]
    b.label = f"elementwise {b.region.label}" if len(b.region.chain) < 4 else f"elementwise {len(b.region.chain)} ops"
    length = b.size(loops.sizes[-1])
    if is_flat:
        b.line(f"map({length}, {SELF}_eight, args, begin, end);")
        b.units = f"map_units({length})"
        return
    outer = len(loops.sizes) - 1
    if outer > MAX_RANK or len(loops.strides) > MAX_OPERANDS:
        raise unsupported(b.node, f"a loop over {outer + 1} axes and {len(loops.strides)} tensors")
    sizes = ", ".join(map(b.size, loops.sizes[:-1]))
    strides = ", ".join(b.size(step) for operand in loops.strides for step in operand[:-1])
    b.line(f"const int64_t sizes[] = {{{sizes}}}, strides[] = {{{strides}}};")
    b.line(f"map_nd({outer}, sizes, {length}, {len(loops.strides)}, strides, {SELF}_eight, args, begin, end);")
    b.units = b.size(product(loops.sizes[:-1]))


def lookup(b: KernelBuilder, byte: Value) -> None:
    """A function of the bytes of ``byte``, which lie side by side as those of the result do."""
    count = b.size(product(byte.type.dims))
    b.label = "table of bytes"
    b.headers.append("table.h")
    entries = b.constant(table(b.region), "uint8_t")
    b.call("table_bytes", count, entries, b.input(byte, "uint8_t"), b.output(type="uint8_t"), "begin", "end")
    b.units = f"table_units({count})"
