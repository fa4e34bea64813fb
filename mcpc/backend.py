"""ONNX's backend interface: compiles for this host and runs through the C runtime.

    import mcpc.backend
    [y] = mcpc.backend.run_model(onnx.load("model.onnx"), [x])

See https://github.com/onnx/onnx/blob/main/docs/ImplementingAnOnnxBackend.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, defs, helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType

from mcpc.compiler import compile as compile_model
from mcpc.errors import ModelError, UsageError
from mcpc.loader import Session, load
from mcpc.onnx_defaults import overridable

Array = np.ndarray[Any, Any]


class McpcRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: Session, inputs: Sequence[str]) -> None:
        self.session = session
        self._inputs = inputs

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """The outputs for ``inputs``: arrays in the model's order, arrays by name, or the array of the only input."""
        if isinstance(inputs, Mapping):
            feeds = dict(inputs)
        else:
            listed = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            if len(listed) > len(self._inputs):
                raise UsageError("E002", f"{len(listed)} inputs are given, the model has {len(self._inputs)}")
            feeds = dict(zip(self._inputs, map(np.asarray, listed), strict=False))
        return tuple(self.session.run(None, feeds))


class McpcBackend(Backend):
    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether ``model`` can be prepared."""
        try:
            cls.prepare(model, device, **kwargs)
        except ModelError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", threads: int = 1, **kwargs: Any) -> McpcRep:
        """Compile ``model``, which has no external data, for this host; ``kwargs`` go to :func:`mcpc.compile`."""
        if not cls.supports_device(device):
            raise UsageError("E001", f"there is no device {device!r}", hint="CPU is the one")
        with tempfile.TemporaryDirectory() as folder:  # the file may go once it is mapped
            kwargs.setdefault("golden", 0)
            path = compile_model(model.SerializeToString(), "host", Path(folder) / "model.mcp26bin", **kwargs)
            session = load(path, threads=threads)
        optional = overridable(model)
        known = {each.name for each in (*session.get_inputs(), *session.get_overridable_initializers())}
        required = [value.name for value in model.graph.input if value.name in known and value.name not in optional]
        return McpcRep(session, [*required, *(name for name in optional if name in known)])

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Array, ...]:
        """Prepare ``model`` and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Array, ...]:
        """Run one node as a model of its own, at the opset ``opset_version`` (default: the newest)."""
        names = list(dict.fromkeys(filter(None, node.input)))
        arrays = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, map(np.asarray, arrays), strict=True)
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        opset = kwargs.pop("opset_version", defs.onnx_opset_version())
        opsets = [helper.make_opsetid("", opset)]
        if node.domain not in ("", "ai.onnx"):
            opsets.append(helper.make_opsetid(node.domain, 1))
        graph = helper.make_graph([node], "node", infos, outputs)
        return cls.run_model(helper.make_model(graph, opset_imports=opsets), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether ``device`` is the CPU."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):  # onnx's Device looks the name up as an attribute
            return False


is_compatible = McpcBackend.is_compatible
prepare = McpcBackend.prepare
run_model = McpcBackend.run_model
run_node = McpcBackend.run_node
supports_device = McpcBackend.supports_device
