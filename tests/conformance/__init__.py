"""ONNX's backend tests, run through the compiler and the C runtime; ``python -m tests.conformance`` runs them all."""
