"""AArch64 machine code as tests look at it: functions, innermost loops, what a processor model says of a loop."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

#: Releases of LLVM whose model of Neoverse N1, Cortex-A76's twin, is complete, the best known first.
RELEASES = (19, 20, 21, 22)

#: Operations of the two vector units that multiply and add, on whole registers.
_ARITHMETIC = re.compile(r"(sdot|fmla|fmls|fmul|fadd|fsub|fmax|fmin|fmaxnm|fminnm)$")


def tool(name: str) -> str | None:
    """``llvm-mca`` or ``llvm-objdump`` of a release that will do; None where there is none."""
    return next((found for release in RELEASES if (found := shutil.which(f"{name}-{release}"))), None)


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str
    operands: str

    @property
    def target(self) -> int | None:
        """Where a branch within a function goes."""
        if not re.fullmatch(r"b(\.\w+)?|cbn?z|tbn?z", self.name):
            return None
        found = re.search(r"0x([0-9a-f]+)(?: <.*>)?$", self.operands)
        return int(found[1], 16) if found else None

    @property
    def is_arithmetic(self) -> bool:
        return bool(_ARITHMETIC.match(self.name)) and bool(re.search(r"\.(4s|2d|8h)", self.operands))

    @property
    def is_spill(self) -> bool:
        """Whether it moves a vector register to or from the stack."""
        return bool(re.match(r"(ldr|str|ldp|stp|ldur|stur)$", self.name)) and bool(
            re.match(r"[qdv]\d+\b.*\[sp", self.operands)
        )


def functions(elf: Path) -> dict[str, list[Instruction]]:
    """The instructions of all functions by name."""
    program = tool("llvm-objdump")
    assert program is not None
    text = subprocess.run([program, "-d", "--no-show-raw-insn", str(elf)], capture_output=True, text=True, check=True)
    result: dict[str, list[Instruction]] = {}
    for line in text.stdout.splitlines():
        if found := re.fullmatch(r"[0-9a-f]+ <(.+)>:", line):
            body = result.setdefault(found[1], [])
        elif found := re.fullmatch(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*?)(?:\s*//.*)?", line):
            body.append(Instruction(int(found[1], 16), found[2], found[3]))
    return result


def _blocks(code: Sequence[Instruction]) -> nx.DiGraph:
    """The control flow of a function: basic blocks by the address of their first instruction."""
    addresses = [i.address for i in code]
    ends = [i for i in code if i.target is not None or i.name in ("ret", "br")]
    first = {addresses[0], *(i.target for i in ends if i.target is not None), *(i.address + 4 for i in ends)}
    starts = sorted(first & set(addresses))
    graph = nx.DiGraph()
    for start, stop in zip(starts, [*starts[1:], addresses[-1] + 4], strict=True):
        body = [i for i in code if start <= i.address < stop]
        graph.add_node(start, code=body)
        last = body[-1]
        if last.target is not None and last.target in starts:
            graph.add_edge(start, last.target)
        if last.name not in ("b", "ret", "br") and stop in starts:
            graph.add_edge(start, stop)
    return graph


def innermost_loops(code: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """The natural loops of a function that hold no other, each in the order in which it runs."""
    graph = _blocks(code)
    graph = graph.subgraph(nx.descendants(graph, code[0].address) | {code[0].address})
    dominators = nx.immediate_dominators(graph, code[0].address)
    loops: dict[int, set[int]] = {}
    for last, head in graph.edges:
        above = last
        while above not in (head, code[0].address):
            above = dominators[above]
        if above == head:
            inside = nx.ancestors(graph.subgraph(set(graph) - {head}), last) if last != head else set()
            loops.setdefault(head, {head}).update(inside, {last})
    for head, body in loops.items():
        if not any(other in body for other in loops if other != head):
            ordered = sorted(body, key=lambda start: (start < head, start))
            yield [instruction for start in ordered for instruction in graph.nodes[start]["code"]]


def _analysis(loop: Sequence[Instruction], processor: str, rounds: int) -> str:
    """What llvm-mca says of many rounds."""
    program = tool("llvm-mca")
    assert program is not None
    lines = ["loop:"]
    for instruction in loop:
        operands = instruction.operands
        if instruction.target is not None:
            operands = re.sub(r"0x[0-9a-f]+(?: <.*>)?$", "loop", operands)
        lines.append(f"{instruction.name} {operands}")
    command = [program, "-mtriple=aarch64", f"-mcpu={processor}", f"-iterations={rounds}"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return done.stdout


def cycles(loop: Sequence[Instruction], processor: str = "neoverse-n1", rounds: int = 200) -> float:
    """Cycles of one round, of many, by llvm-mca's model."""
    found = re.search(r"Total Cycles:\s+(\d+)", _analysis(loop, processor, rounds))
    assert found is not None
    return int(found[1]) / rounds


def utilisation(loop: Sequence[Instruction]) -> float:
    """The share of the two units' slots that the loop's arithmetic fills, 1 at the machine's limit."""
    return sum(i.is_arithmetic for i in loop) / 2 / cycles(loop)


def issue_share(loop: Sequence[Instruction], processor: str = "neoverse-n1", rounds: int = 200) -> float:
    """The cycles that a round takes at least, by the pipes that its own instructions need, over those that it takes: 1
    where nothing waits for a result."""
    text = _analysis(loop, processor, rounds)
    least, taken = re.search(r"Block RThroughput:\s+([\d.]+)", text), re.search(r"Total Cycles:\s+(\d+)", text)
    assert least is not None and taken is not None
    return float(least[1]) / (int(taken[1]) / rounds)
