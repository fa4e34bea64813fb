"""What clang makes of the kernels: calls are all inlined, sums stay in registers while a loop runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpc.targets.native import toolchain
from mcpc.targets.native.toolchain import Machine

from .program import INCLUDES

SHAPE = (
    ".batch = 1, .in_h = {h}, .in_w = {h}, .in_c = {c}, .x_pixel = {c}, .out_h = {out}, .out_w = {out}, .out_c = {o}, "
    ".y_pixel = {o}, .kernel_h = 3, .kernel_w = 3, .stride_h = {s}, .stride_w = {s}, .dilation_h = 1, .dilation_w = 1, "
    ".pad_top = 1, .pad_left = 1, .groups = {g}"
)


def shape(h: int, c: int, o: int, s: int, g: int) -> str:
    return f"(conv_shape){{{SHAPE.format(h=h, c=c, o=o, s=s, g=g, out=h // s)}}}"


def source() -> str:
    """Layers as the emitter writes them: literal sizes, a fused epilogue."""
    calls = {
        f"gemm_{m}_{k}_{n}": f"gemm_f32({m}, {n}, {k}, a, {k}, b, c, {n}, fused, args, begin, end);"
        for m, k, n in [(3136, 144, 24), (784, 32, 192), (49, 960, 320), (1, 1280, 1000), (2, 64, 10), (13, 7, 130)]
    }
    calls["matmul_heads"] = "matmul_f32(4, 64, 64, 32, a, 32, 2048, b, 64, 2048, c, 64, 4096, fused, args, begin, end);"
    calls["conv"] = f"conv_f32({shape(14, 256, 256, 1, 1)}, a, b, b, c, fused, args, begin, end);"
    calls["conv_groups"] = f"conv_f32({shape(14, 48, 72, 2, 3)}, a, b, b, c, fused, args, begin, end);"
    calls["conv_few"] = f"conv_nchw_in_f32({shape(224, 3, 32, 2, 1)}, a, b, c, fused, args, begin, end);"
    calls["depthwise"] = f"depthwise_f32({shape(14, 384, 384, 1, 384)}, a, b, c, fused, args, begin, end);"
    calls["lstm"] = (
        "lstm_f32((recurrent_shape_f32){.time = 1, .batch = 1, .hidden = 128, .f = v8f_sigmoid, .g = v8f_tanh, "
        ".h = v8f_tanh, .gate_time = 512, .gate_batch = 512, .y_time = 128, .y_batch = 128, .first_batch = 128, "
        ".h_batch = 128, .c_batch = 128}, (recurrent_operands_f32){a, b}, NULL, c, c + 128, c + 256, c + 512);"
    )
    calls["softmax"] = "softmax_f32(SOFTMAX, 12, 64, 1, a, c, begin, end);"
    calls["map_erf"] = "map(1000, body, args, begin, end);"
    functions = "".join(
        f'__attribute__((visibility("default"))) void {name}(const float *a, const float *b, float *c, '
        f"const void *const *args, int64_t begin, int64_t end) {{ {call} }}\n"
        for name, call in calls.items()
    )
    return (
        "".join(
            f'#include "{name}.h"\n'
            for name in ("conv", "conv_few", "depthwise", "elementwise", "gemm", "pool", "recurrent", "softmax")
        )
        + """
MCP26_INLINE v8f fused(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    (void)m;
    return v8f_clip(acc + v8f_load(ARG(float, 0) + n, lanes), 0.0f, 6.0f);
}
MCP26_INLINE void body(const void *const *args, int64_t i, int64_t lanes) {
    v8f_store(OUT(float, 1) + i, v8f_erf(v8f_load(ARG(float, 0) + i, lanes)), lanes);
}
"""
        + functions
    )


MACHINES = [
    Machine("x86_64-linux-none", "x86_64_v3"),
    Machine("x86_64-linux-none", "x86_64_v4"),
    Machine("aarch64-linux-none", "cortex_a76"),
]


def disassemble(source: str, machine: Machine, folder: Path) -> dict[str, list[str]]:
    """Instructions and labels by function."""
    (folder / "unit.c").write_text(source)
    includes = [f"-I{path}" for path in INCLUDES]
    flags = [*machine.arguments, *toolchain._COMPILE_FLAGS, *includes]
    done = toolchain._zig(["cc", *flags, "-S", "unit.c", "-o", "unit.s"], folder)
    assert done.returncode == 0, done.stderr
    functions: dict[str, list[str]] = {}
    name = ""
    for line in (folder / "unit.s").read_text().splitlines():
        text = re.sub(r"\s+", " ", re.split(r"//|\s#", line)[0]).strip()
        if found := re.fullmatch(r"([A-Za-z]\w*):", text):
            name = found[1]
        elif name and text and (not text.startswith(".") or text.endswith(":")):
            functions.setdefault(name, []).append(text)
    return functions


def innermost_loops(lines: list[str]) -> Iterator[list[str]]:
    labels = {line[:-1]: index for index, line in enumerate(lines) if line.endswith(":")}
    loops = []
    for index, line in enumerate(lines):
        target = re.match(r"(?:j\w+|b|b\.\w+|cbn?z|tbn?z) (?:.*, )?(\.LBB\w+)$", line)
        if target and labels[target[1]] <= index:
            loops.append((labels[target[1]], index + 1))
    for first, last in loops:
        if not any(first <= f and e <= last and (f, e) != (first, last) for f, e in loops):
            yield lines[first:last]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.cpu)
def test_only_cores_are_called(machine: Machine, tmp_path: Path) -> None:
    functions = disassemble(source(), machine, tmp_path)
    assert len(functions) >= 14
    for name, lines in functions.items():
        called = {line.split()[1] for line in lines if re.match(r"(call\w*|bl|blr) ", line)}
        others = {other for other in called if not re.match(r"mcp26_(tile_|strip_|few_|pack)", other)}
        assert not others, f"{name} calls {others}"


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.cpu)
def test_sums_stay_in_registers(machine: Machine, tmp_path: Path) -> None:
    functions = disassemble((INCLUDES[0] / "cores.c").read_text(), machine, tmp_path)
    pattern = r"(tile|few|half)_\d+x\d+|packed_\d+"
    cores = {name: lines for name, lines in functions.items() if re.fullmatch(pattern, name)}
    assert len(cores) >= 20
    for name, lines in cores.items():
        sums = [
            loop for loop in innermost_loops(lines) if sum(bool(re.match(r"vfmadd|fmla", line)) for line in loop) > 0
        ]
        assert sums, name
        for loop in sums:
            on_stack = [line for line in loop if re.search(r"[yz]mm.*\(%rsp|\(%rsp.*[yz]mm|\b[qv]\d.*\[sp", line)]
            assert not on_stack, f"{name}: {on_stack}"


@pytest.mark.parametrize("name", ["gemm_784_32_192", "conv_few"])
@pytest.mark.parametrize("machine", MACHINES[:2], ids=lambda machine: machine.cpu)
def test_shallow_tiles_finish_in_registers(machine: Machine, name: str, tmp_path: Path) -> None:
    lines = disassemble(source(), machine, tmp_path)[name]
    assert any("vfmadd" in loop for loop in map(" ".join, innermost_loops(lines)))
    stored = [line for line in lines if re.match(r"vmov\w+ %[yz]mm\d+, .*\(%r[sb]p", line)]
    assert len(stored) < 12  # pointers to rows, for other tiles; the sums are 12 registers and 24
