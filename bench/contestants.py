"""What mcpc is compared with: how each runtime gets a model ready, loads it and runs it, at its best settings.

A contestant is a class. ``prepare(model, feeds, folder)`` does once what its tools do to an .onnx file and gives the
file to run; the constructor ``(prepared, threads, feeds)`` loads that, and ``run()`` gives the outputs. Each imports
its runtime where it needs it: this file needs numpy alone, so that contestants may live in environments of their own.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]


class Mcpc:
    @staticmethod
    def prepare(model: Path, feeds: Feeds, folder: Path) -> Path:
        from mcpc.compiler import compile as compile_model
        from mcpc.models import samples

        artifact = folder / "model.mcp26bin"
        sample = samples.SAMPLES.get(folder.name)
        compile_model(model, "host", artifact, input_shapes=sample.input_shapes if sample else {})
        return artifact

    def __init__(self, prepared: Path, threads: int, feeds: Feeds) -> None:
        from mcpc.loader import load

        session, feeds = load(prepared, threads=threads), dict(feeds)
        self.run: Callable[[], list[Array]] = lambda: session.run(None, feeds)
        self.close = session.close


class OnnxRuntime:
    @staticmethod
    def prepare(model: Path, feeds: Feeds, folder: Path) -> Path:
        return model

    def __init__(self, prepared: Path, threads: int, feeds: Feeds) -> None:
        from mcpc.benchmark import onnxruntime_session

        session, feeds = onnxruntime_session(prepared, threads), dict(feeds)
        self.run: Callable[[], list[Array]] = lambda: session.run(None, feeds)


class OpenVino:
    @staticmethod
    def prepare(model: Path, feeds: Feeds, folder: Path) -> Path:
        import openvino

        network = openvino.Core().read_model(model)
        network.reshape({name: list(array.shape) for name, array in feeds.items()})
        prepared = folder / "openvino.xml"
        openvino.save_model(network, prepared, compress_to_fp16=False)
        return prepared

    def __init__(self, prepared: Path, threads: int, feeds: Feeds) -> None:
        import openvino

        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": str(threads),
            "NUM_STREAMS": "1",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = openvino.Core().compile_model(prepared, "CPU", settings)
        request, feeds = compiled.create_infer_request(), dict(feeds)

        def run() -> list[Array]:
            results = request.infer(feeds, share_inputs=True, share_outputs=True)
            return [results[port] for port in compiled.outputs]

        self.run = run


class Mnn:
    @staticmethod
    def prepare(model: Path, feeds: Feeds, folder: Path) -> Path:
        prepared = folder / "model.mnn"
        import _tools  # MNN's; its command mnnconvert also installs packages and reports what it did

        files = ["--modelFile", str(model), "--MNNModel", str(prepared)]
        _tools.mnnconvert(["mnnconvert", "-f", "ONNX", *files, "--bizCode", "bench"])
        if not prepared.exists():
            raise ValueError("refuses the model")
        names = _names(model)
        (folder / "model.mnn.names").write_text("\n".join(" ".join(each) for each in names))
        return prepared

    def __init__(self, prepared: Path, threads: int, feeds: Feeds) -> None:
        import MNN.expr
        import MNN.nn

        inputs, outputs = (line.split(" ") for line in Path(f"{prepared}.names").read_text().split("\n"))
        manager = MNN.nn.create_runtime_manager(
            ({"backend": "CPU", "numThread": threads, "precision": "normal", "memory": "normal", "power": "high"},)
        )
        module = MNN.nn.load_module_from_file(
            str(prepared), inputs, outputs, shape_mutable=False, rearrange=True, runtime_manager=manager
        )
        kinds = {"f": MNN.expr.float, "i": MNN.expr.int, "b": MNN.expr.int}
        wide = {"f": np.float32, "i": np.int32, "b": np.int32}
        arrays = [np.ascontiguousarray(feeds[name], wide[feeds[name].dtype.kind]) for name in inputs]

        def run() -> list[Array]:
            given = [MNN.expr.const(a, a.shape, MNN.expr.NCHW, kinds[a.dtype.kind]) for a in arrays]
            results = module.onForward(given)
            return [np.array(MNN.expr.convert(each, MNN.expr.NCHW).read(), copy=False) for each in results]

        self.run = run
        self.kept = module, manager


class Ncnn:
    """Through pnnx. Its tensors have no batch dimension."""

    @staticmethod
    def prepare(model: Path, feeds: Feeds, folder: Path) -> Path:
        kinds = {"float32": "f32", "int64": "i64", "int32": "i32"}
        shapes = [f"[{','.join(map(str, a.shape))}]{kinds[a.dtype.name]}" for a in feeds.values()]
        copy = folder / "ncnn.onnx"  # pnnx writes its results beside the model
        copy.write_bytes(model.read_bytes())
        tool = Path(sys.executable).with_name("pnnx")
        _call([str(tool), str(copy), f"inputshape={','.join(shapes)}", "fp16=0"], folder)
        copy.unlink()
        return folder / "ncnn.ncnn.param"

    def __init__(self, prepared: Path, threads: int, feeds: Feeds) -> None:
        import ncnn

        if any(array.dtype != np.float32 or array.shape[0] != 1 for array in feeds.values()):
            raise ValueError("takes images only, one at a time")
        net = ncnn.Net()
        net.opt.num_threads = threads
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.use_bf16_storage = False
        if net.load_param(str(prepared)) or net.load_model(str(prepared.with_suffix(".bin"))):
            raise ValueError("refuses the model")
        arrays = [np.ascontiguousarray(array[0]) for array in feeds.values()]
        inputs, outputs = net.input_names(), net.output_names()

        def run() -> list[Array]:
            extractor = net.create_extractor()
            for name, array in zip(inputs, arrays, strict=True):
                extractor.input(name, ncnn.Mat(array))
            return [np.array(extractor.extract(name)[1]) for name in outputs]

        self.run = run
        self.kept = net


class ExecuTorch:
    """The model through onnx2torch, lowered to XNNPACK."""

    @staticmethod
    def prepare(model: Path, feeds: Feeds, folder: Path) -> Path:
        import onnx2torch
        import torch
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        network = onnx2torch.convert(str(model)).eval()
        exported = torch.export.export(network, tuple(torch.from_numpy(array) for array in feeds.values()))
        program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
        prepared = folder / "model.pte"
        prepared.write_bytes(program.buffer)
        return prepared

    def __init__(self, prepared: Path, threads: int, feeds: Feeds) -> None:
        import torch
        from executorch.extension.pybindings import portable_lib

        portable_lib._unsafe_reset_threadpool(threads)
        program = portable_lib._load_for_executorch(str(prepared))
        tensors = tuple(torch.from_numpy(array) for array in feeds.values())
        self.run: Callable[[], list[Array]] = lambda: [each.numpy() for each in program.forward(tensors)]


CONTESTANTS: dict[str, Any] = {
    "mcpc": Mcpc,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "MNN": Mnn,
    "ncnn": Ncnn,
    "executorch": ExecuTorch,
}


def _call(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise ValueError(f"{Path(command[0]).name} ended with {done.returncode}: {words[0]}")


def _names(model: Path) -> tuple[list[str], list[str]]:
    """Names of the inputs and of the outputs."""
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    weights = {each.name for each in graph.initializer}
    return [each.name for each in graph.input if each.name not in weights], [each.name for each in graph.output]


@contextlib.contextmanager
def quiet_output() -> Any:
    """Keeps what libraries print off standard output, and gives a file that still writes there."""
    kept = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(kept, "w") as file:
        yield file
