"""ARM NEON and x86-64 code: layouts, kernels, memory plan, C, machine code."""

from .family import NativeFamily

__all__ = ["NativeFamily"]
