"""Sequences of tensors, which the reader resolves: compared with ONNX Runtime, and declined where it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, parser

import mcpc
from mcpc.errors import ModelError
from mcpc.onnx_reader import read

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, int | bool | list[int]]

RNG = np.random.default_rng(8)


def model(graph: str, opset: int = 17) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{graph}')


def arrays(proto: ModelProto, feeds: Feeds) -> dict[str, Array]:
    """Inputs of a model: floats of the shapes in ``feeds`` for tensors of floats, these numbers for others."""
    result: dict[str, Array] = {}
    for info in proto.graph.input:
        given = feeds.get(info.name)
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if dtype == np.float32:
            shape = [size.dim_value for size in info.type.tensor_type.shape.dim] if given is None else given
            result[info.name] = RNG.standard_normal(shape, np.float32)
        else:
            result[info.name] = np.array(given, dtype)
    return result


def check(graph: str, folder: Path, *sets: Feeds, opset: int = 17) -> None:
    proto = model(graph, opset)
    serialized = proto.SerializeToString()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = ort.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])
    with mcpc.load(mcpc.compile(serialized, output=folder / "m.mcp26bin", golden=0), threads=1) as session:
        for each in sets or [{}]:
            feeds = arrays(proto, each)
            got = session.run(None, feeds)
            for info, a, b in zip(proto.graph.output, got, reference.run(None, feeds), strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype), info.name
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=info.name)


# ---- lists of known tensors


def test_lists_of_known_tensors(tmp_path: Path) -> None:
    check(
        """
        lists (float[2,3] a, float[4,3] b, float[1,3] c)
            => (float[N,3] whole, float[N,3] rest, float[N,3] first, float[N,3] last, int64 n, float[N,3] none_erased)
        <int64 zero = {0}, int64 minus_one = {-1}, int32 minus_two = {-2}, int64 two = {2}, int64 minus_three = {-3}>
        {
            s0 = SequenceEmpty()
            s1 = SequenceInsert(s0, a)
            s2 = SequenceInsert(s1, b)
            s3 = SequenceInsert(s2, c, minus_one)
            whole = ConcatFromSequence<axis = 0>(s3)
            s4 = SequenceInsert(s3, c, zero)
            same = Identity(s4)
            s5 = SequenceErase(same, minus_two)
            rest = ConcatFromSequence<axis = -2>(s5)
            s6 = SequenceInsert(s5, b, minus_three)
            first = SequenceAt(s6, zero)
            last = SequenceAt(s6, minus_one)
            s7 = SequenceInsert(s2, a, two)
            n = SequenceLength(s7)
            s8 = SequenceErase(s7)
            none_erased = ConcatFromSequence<axis = 0>(s8)
        }
        """,
        tmp_path,
    )


def test_lists_of_tensors_alike(tmp_path: Path) -> None:
    check(
        """
        alike (float[2,N] a, float[2,N] b, int64 i, int32[1] j)
            => (float[2,2,N] front, float[2,N,2] back, float[2,M] wide, float[2,N] x, float[1,2,N] y)
        {
            s = SequenceConstruct(a, b)
            front = ConcatFromSequence<axis = 0, new_axis = 1>(s)
            back = ConcatFromSequence<axis = -1, new_axis = 1>(s)
            wide = ConcatFromSequence<axis = 1>(s)
            x = SequenceAt(s, i)
            k = Squeeze(j)
            z = SequenceAt(s, k)
            t = SequenceConstruct(z)
            y = ConcatFromSequence<axis = 0, new_axis = 1>(t)
        }
        """,
        tmp_path,
        {"a": [2, 3], "b": [2, 3], "i": 1, "j": [0]},
        {"a": [2, 5], "b": [2, 5], "i": -2, "j": [-1]},
    )


# ---- tensors that are split


def test_a_tensor_split_by_sizes(tmp_path: Path) -> None:
    check(
        """
        sizes (float[3,6] x, float[N,2] z, int64[2] s)
            => (float[3,1] a, float[3,M] b, float[3,6] whole, float[K,2] c, int64 n, int64 m)
        <int64[3] sizes = {2, 3, 1}, int64[1] all = {6}, int64 two = {2}, int64 zero = {0}>
        {
            parts = SplitToSequence<axis = -1>(x, sizes)
            a = SequenceAt(parts, two)
            fewer = SequenceErase(parts, zero)
            b = ConcatFromSequence<axis = 1>(fewer)
            one = SplitToSequence<axis = 1>(x, all)
            whole = SequenceAt(one, zero)
            given = SplitToSequence(z, s)
            c = SequenceAt(given, zero)
            n = SequenceLength(given)
            m = SequenceLength(parts)
        }
        """,
        tmp_path,
        {"x": [3, 6], "z": [5, 2], "s": [4, 1]},
        {"x": [3, 6], "z": [2, 2], "s": [0, 2]},
    )


def test_a_tensor_split_into_equal_pieces(tmp_path: Path) -> None:
    check(
        """
        pieces (float[4,5] x, int64 i)
            => (float[4,K] last, float[2,5] first, float[4,5] whole, int64 n, float[4,A] any, float[4,M] cut,
                float[2,2,5] stacked, float[2,10] wide, float[2,5] half, float[5] row, float[4,1] column, float[4] slim)
        <int64 two = {2}, int64 minus_one = {-1}, int64 zero = {0}, int64 one = {1}>
        {
            uneven = SplitToSequence<axis = 1>(x, two)
            last = SequenceAt(uneven, minus_one)
            even = SplitToSequence(x, two)
            first = SequenceAt(even, zero)
            whole = ConcatFromSequence<axis = -1>(uneven)
            n = SequenceLength(uneven)
            any = SequenceAt(uneven, i)
            fewer = SequenceErase(uneven, one)
            cut = ConcatFromSequence<axis = 1>(fewer)
            stacked = ConcatFromSequence<axis = 0, new_axis = 1>(even)
            wide = ConcatFromSequence<axis = 1>(even)
            half = SequenceAt(even, i)
            rows = SplitToSequence<keepdims = 0>(x)
            row = SequenceAt(rows, i)
            columns = SplitToSequence<axis = 1>(x)
            column = SequenceAt(columns, i)
            slims = SplitToSequence<axis = -1, keepdims = 0>(x)
            slim = SequenceAt(slims, minus_one)
        }
        """,
        tmp_path,
        {"i": 0},
        {"i": -1},
    )


def test_pieces_of_a_size_that_a_run_shows(tmp_path: Path) -> None:
    check(
        """
        pieces (float[N,4] x)
            => (float[A,4] second, float[B,4] last, float[N,4] whole, int64 n, int64 m, float[4] row, float[K,4] flat,
                float[4,N] turned, float[1,4] thin)
        <int64 two = {2}, int64 minus_one = {-1}, int64 one = {1}>
        {
            pieces = SplitToSequence(x, two)
            second = SequenceAt(pieces, one)
            last = SequenceAt(pieces, minus_one)
            whole = ConcatFromSequence<axis = 0>(pieces)
            n = SequenceLength(pieces)
            rows = SplitToSequence<keepdims = 0>(x)
            m = SequenceLength(rows)
            row = SequenceAt(rows, minus_one)
            thins = SplitToSequence(x, one)
            thin = SequenceAt(thins, minus_one)
            more = SequenceInsert(pieces, x)
            flat = ConcatFromSequence<axis = 0>(more)
            turned = ConcatFromSequence<axis = -1, new_axis = 1>(rows)
        }
        """,
        tmp_path,
        *({"x": [size, 4]} for size in (3, 4, 7)),
    )


def test_rows_side_by_side(tmp_path: Path) -> None:
    check(
        """
        rows (float[2,N,3] x) => (float[K,3] a, float[2,M] b, float[P,3] c)
        {
            s = SplitToSequence<axis = 1, keepdims = 0>(x)
            a = ConcatFromSequence<axis = 0>(s)
            b = ConcatFromSequence<axis = -1>(s)
            t = SplitToSequence<axis = 0, keepdims = 0>(x)
            c = ConcatFromSequence<axis = 0>(t)
        }
        """,
        tmp_path,
        {"x": [2, 4, 3]},
        {"x": [2, 1, 3]},
    )


def test_positions_and_sizes_that_follow_from_shapes(tmp_path: Path) -> None:
    check(
        """
        computed (float[N,5] x, float[2] a, float[3] b)
            => (float[K,2] head, float[K,1] tail, int64 n, float[2] second, float[3] last, float[J] rest)
        <int64 one = {1}, int64 two = {2}, int64[1] minus_one = {-1}>
        {
            sizes = Shape(x)
            five = Gather(sizes, one)
            half = Div(five, two)
            left = Mod(five, two)
            last_one = Reshape(left, minus_one)
            count = Div(five, half)
            full = Reshape(count, minus_one)
            equal = Expand(half, full)
            all = Concat<axis = 0>(equal, last_one)
            chunks = SplitToSequence<axis = 1>(x, all)
            head = SequenceAt(chunks, one)
            tail = SequenceAt(chunks, two)
            n = SequenceLength(chunks)
            list = SequenceConstruct(b, a, b)
            position = Cast<to = 6>(one)
            second = SequenceAt(list, position)
            m = SequenceLength(list)
            end = Sub(m, one)
            last = SequenceAt(list, end)
            fewer = SequenceErase(list, end)
            rest = ConcatFromSequence<axis = 0>(fewer)
        }
        """,
        tmp_path,
        {"x": [4, 5]},
    )


# ---- loops


def test_a_list_that_a_loop_fills(tmp_path: Path) -> None:
    check(
        """
        filled (float[3,2] x, int64 count, int64 at)
            => (float[A,2] tall, float[3,B] wide, float[C,3,2] front, float[3,2,D] back, float[3,2] some, int64 n,
                float[2] total)
        <bool true = {1}>
        {
            empty = SequenceEmpty()
            zeros = ReduceMin<axes = [0], keepdims = 0>(x)
            list, total = Loop(count, true, empty, zeros) <body = step (int64 i, bool c, seq(float) s, float[2] sum)
                => (bool c2, seq(float) s2, float[2] sum2)
            {
                c2 = Identity(c)
                f = Cast<to = 1>(i)
                y = Add(x, f)
                before = Identity(s)
                grown = SequenceInsert(before, y)
                s2 = Identity(grown)
                row = ReduceMean<axes = [0], keepdims = 0>(y)
                sum2 = Add(sum, row)
            }>
            tall = ConcatFromSequence<axis = 0>(list)
            wide = ConcatFromSequence<axis = -1>(list)
            front = ConcatFromSequence<axis = 0, new_axis = 1>(list)
            back = ConcatFromSequence<axis = 2, new_axis = 1>(list)
            some = SequenceAt(list, at)
            n = SequenceLength(list)
        }
        """,
        tmp_path,
        {"count": 3, "at": 1},
        {"count": 1, "at": -1},
    )


def test_a_list_that_no_iteration_fills(tmp_path: Path) -> None:
    check(
        """
        filled (float[3,2] x, int64 count) => (int64 n, int64 m, float[A,2] rows, float[3,2] first)
        <bool true = {1}, int64 zero = {0}>
        {
            empty = SequenceEmpty()
            one = SequenceConstruct(x)
            a, b = Loop(count, true, empty, one) <body = step (int64 i, bool c, seq(float) s, seq(float) t)
                => (bool c2, seq(float) s2, seq(float) t2)
            {
                c2 = Identity(c)
                f = Cast<to = 1>(i)
                y = Add(x, f)
                s2 = SequenceInsert(s, y)
                t2 = SequenceInsert(t, y)
            }>
            n = SequenceLength(a)
            m = SequenceLength(b)
            rows = ConcatFromSequence<axis = 0>(b)
            first = SequenceAt(b, zero)
        }
        """,
        tmp_path,
        {"count": 0},
        {"count": 2},
    )


def test_a_list_that_nested_loops_fill_with_several_tensors(tmp_path: Path) -> None:
    check(
        """
        nested (float[2] x, int64 outer, int64 inner, int64 at)
            => (float[N,2] rows, int64 n, float[2] one, float[M] line)
        <bool true = {1}>
        {
            empty = SequenceEmpty()
            list = Loop(outer, true, empty) <body = step (int64 i, bool c, seq(float) s) => (bool c2, seq(float) s2)
            {
                c2 = Identity(c)
                f = Cast<to = 1>(i)
                y = Add(x, f)
                s1 = SequenceInsert(s, y)
                s2 = Loop(inner, true, s1) <body = step2 (int64 j, bool d, seq(float) t) => (bool d2, seq(float) t2)
                {
                    d2 = Identity(d)
                    g = Cast<to = 1>(j)
                    z = Mul(y, g)
                    t1 = SequenceInsert(t, z)
                    w = Neg(z)
                    t2 = SequenceInsert(t1, w)
                }>
            }>
            rows = ConcatFromSequence<axis = 0, new_axis = 1>(list)
            n = SequenceLength(list)
            one = SequenceAt(list, at)
            line = ConcatFromSequence<axis = 0>(list)
        }
        """,
        tmp_path,
        {"outer": 3, "inner": 2, "at": 4},
        {"outer": 1, "inner": 0, "at": -1},
    )


def test_loops_that_read_lists(tmp_path: Path) -> None:
    check(
        """
        read (float[N,4] x, float[2,4] a, float[2,4] b)
            => (float[2,4] sum, float[4] products, float[M,4] halves, float[2,4] kept)
        <bool true = {1}, int64 two = {2}, int64 one = {1}>
        {
            list = SequenceConstruct(a, b)
            n = SequenceLength(list)
            zero = Sub(a, a)
            sum, same = Loop(n, true, zero, list) <body = step (int64 i, bool c, float[2,4] sum0, seq(float) s)
                => (bool c2, float[2,4] sum1, seq(float) s2)
            {
                c2 = Identity(c)
                y = SequenceAt(s, i)
                sum1 = Add(sum0, y)
                s2 = Identity(s)
            }>
            kept = SequenceAt(same, one)
            rows = SplitToSequence<keepdims = 0>(x)
            m = SequenceLength(rows)
            ones = ReduceMax<axes = [0], keepdims = 0>(x)
            products = Loop(m, true, ones) <body = step (int64 i, bool c, float[4] p) => (bool c2, float[4] p2)
            {
                c2 = Identity(c)
                y = SequenceAt(rows, i)
                p2 = Mul(p, y)
            }>
            pieces = SplitToSequence(x, two)
            k = SequenceLength(pieces)
            empty = SequenceEmpty()
            tops = Loop(k, true, empty) <body = step (int64 i, bool c, seq(float) s) => (bool c2, seq(float) s2)
            {
                c2 = Identity(c)
                y = SequenceAt(pieces, i)
                top = ReduceMax<axes = [0], keepdims = 1>(y)
                s2 = SequenceInsert(s, top)
            }>
            halves = ConcatFromSequence<axis = 0>(tops)
        }
        """,
        tmp_path,
        *({"x": [size, 4]} for size in (4, 5, 1)),
    )


def test_axes_from_the_end_of_what_comes_from_a_list_that_a_loop_carries(tmp_path: Path) -> None:
    check(
        """
        carried (float[2,3] a, float[2,3] b, int64 count) => (float[2,N] wide, float[2,3] kept)
        <bool true = {1}, int64 one = {1}>
        {
            list = SequenceConstruct(a, b)
            empty = SequenceEmpty()
            made, same = Loop(count, true, empty, list) <body = step (int64 i, bool c, seq(float[]) s, seq(float[]) t)
                => (bool c2, seq(float[]) s2, seq(float[]) t2)
            {
                c2 = Identity(c)
                x = SequenceAt(t, i)
                y = Relu(x)
                s2 = SequenceInsert(s, y)
                t2 = Identity(t)
            }>
            wide = ConcatFromSequence<axis = -1>(made)
            kept = SequenceAt(same, one)
        }
        """,
        tmp_path,
        {"count": 2},
        {"count": 1},
    )


def test_states_in_a_list_that_every_iteration_replaces(tmp_path: Path) -> None:
    check(
        """
        states (float[2,3] h, float[4] c0, int64 count) => (float[2,3] a, float[4] b)
        <bool true = {1}, int64 zero = {0}, int64 one = {1}, float two = {2}>
        {
            states = SequenceConstruct(h, c0)
            last = Loop(count, true, states) <body = step (int64 i, bool c, seq(float) s) => (bool c2, seq(float) s2)
            {
                c2 = Identity(c)
                x = SequenceAt(s, zero)
                y = SequenceAt(s, one)
                x2 = Mul(x, two)
                y2 = Neg(y)
                shorter = SequenceErase(s, zero)
                front = SequenceInsert(shorter, x2, zero)
                fewer = SequenceErase(front)
                s2 = SequenceInsert(fewer, y2)
            }>
            a = SequenceAt(last, zero)
            b = SequenceAt(last, one)
        }
        """,
        tmp_path,
        {"count": 0},
        {"count": 3},
    )


def test_the_last_tensor_of_a_list_that_grows(tmp_path: Path) -> None:
    check(
        """
        last (float[N,2] x, int64 outer, int64 inner) => (float[A,2] sums, float[N,2] end, float[B,2] shorter, int64 n)
        <bool true = {1}, int64 minus_one = {-1}, int64 minus_two = {-2}, float two = {2}>
        {
            start = SequenceConstruct(x)
            list = Loop(outer, true, start) <body = step (int64 i, bool c, seq(float) s) => (bool c2, seq(float) s2)
            {
                c2 = Identity(c)
                y = SequenceAt(s, minus_one)
                z = Mul(y, two)
                s1 = SequenceInsert(s, z)
                w = SequenceAt(s1, minus_two)
                v = Add(w, x)
                s2 = SequenceInsert(s1, v)
            }>
            sums = ConcatFromSequence<axis = 0>(list)
            end = SequenceAt(list, minus_one)
            fewer = SequenceErase(list, minus_two)
            shorter = ConcatFromSequence<axis = 0>(fewer)
            n = SequenceLength(fewer)
        }
        """,
        tmp_path,
        {"x": [2, 2], "outer": 3, "inner": 1},
        {"x": [3, 2], "outer": 1, "inner": 2},
    )


# ---- branches


def test_branches_that_make_lists(tmp_path: Path) -> None:
    check(
        """
        branches (float[N,2] x, float[1,2] y, bool c, int64 count)
            => (float[A,2] first, float[B,2] rest, float[2] row, int64 n, float[N,2] z, float[M,2] grown)
        <bool true = {1}, int64 zero = {0}, int64 two = {2}>
        {
            outside = SequenceConstruct(x, y)
            s, z, r = If(c) <
                then_branch = yes () => (seq(float) a, float[N,2] a2, seq(float) a3) {
                    a = SequenceConstruct(y, x)
                    a2 = Neg(x)
                    a3 = SplitToSequence<keepdims = 0>(x)
                },
                else_branch = no () => (seq(float) b, float[N,2] b2, seq(float) b3) {
                    b = Identity(outside)
                    b2 = Abs(x)
                    d = Exp(x)
                    b3 = SplitToSequence<keepdims = 0>(d)
                }>
            first = SequenceAt(s, zero)
            rest = ConcatFromSequence<axis = 0>(s)
            row = SequenceAt(r, zero)
            n = SequenceLength(r)
            empty = SequenceEmpty()
            list = Loop(count, true, empty) <body = step (int64 i, bool d, seq(float) t) => (bool d2, seq(float) t2)
            {
                d2 = Identity(d)
                even = Mod(i, two)
                is_even = Cast<to = 9>(even)
                t2 = If(is_even) <
                    then_branch = yes2 () => (seq(float) u) { w = Neg(y) u = SequenceInsert(t, w) },
                    else_branch = no2 () => (seq(float) v) { v = SequenceInsert(t, y) }>
            }>
            grown = ConcatFromSequence<axis = 0>(list)
        }
        """,
        tmp_path,
        {"x": [3, 2], "c": True, "count": 3},
        {"x": [1, 2], "c": False, "count": 1},
    )


def test_branches_that_shapes_decide(tmp_path: Path) -> None:
    check(
        """
        decided (float[N,5] x) => (float[N,2] a, float[N,K] b, int64 n)
        <int64 one = {1}, int64 two = {2}, int64 zero = {0}, int64[1] minus_one = {-1}, int64 last = {-1}>
        {
            sizes = Shape(x)
            five = Gather(sizes, one)
            count = Div(five, two)
            full = Reshape(count, minus_one)
            left = Mod(five, two)
            equal = Expand(two, full)
            uneven = Greater(left, zero)
            splits = If(uneven) <
                then_branch = yes () => (int64[M] more) {
                    end = Reshape(left, minus_one)
                    more = Concat<axis = 0>(equal, end)
                },
                else_branch = no () => (int64[L] same) { same = Identity(equal) }>
            parts = SplitToSequence<axis = 1>(x, splits)
            n = SequenceLength(parts)
            empty = SequenceEmpty()
            m = SequenceLength(empty)
            is_empty = Equal(m, zero)
            list = If(is_empty) <
                then_branch = yes2 () => (seq(float) first) { first = Identity(parts) },
                else_branch = no2 () => (seq(float) second) {
                    old = SequenceAt(empty, zero)
                    second = SequenceConstruct(old)
                }>
            a = SequenceAt(list, zero)
            b = SequenceAt(list, last)
        }
        """,
        tmp_path,
        {"x": [3, 5]},
    )


def test_branches_that_make_lists_of_different_lengths(tmp_path: Path) -> None:
    check(
        """
        lengths (float[N,2] x, float[N,2] y, bool c, int64 at) => (float[A,2] rows, int64 n, float[N,2] one)
        {
            s = If(c) <
                then_branch = yes () => (seq(float) a) { a = SequenceConstruct(y, x, y) },
                else_branch = no () => (seq(float) b) { b = SequenceConstruct(x) }>
            n = SequenceLength(s)
            rows = ConcatFromSequence<axis = 0>(s)
            one = SequenceAt(s, at)
        }
        """,
        tmp_path,
        {"x": [3, 2], "y": [3, 2], "c": True, "at": 2},
        {"x": [2, 2], "y": [2, 2], "c": False, "at": -1},
    )


# ---- SequenceMap and names


def test_branches_that_use_the_same_names(tmp_path: Path) -> None:
    check(
        """
        same (float[N,2] x, bool c) => (float[K,2] rows, float[L,2] one, int64 n)
        <int64 first = {0}>
        {
            s = If(c) <
                then_branch = yes () => (seq(float[]) list) {
                    at = Constant<value_int = 1>()
                    y = Neg(x)
                    pair = SequenceConstruct(x, y)
                    z = SequenceAt(pair, at)
                    list = SequenceInsert(pair, z, at)
                },
                else_branch = no () => (seq(float[]) list) {
                    at = Constant<value_int = 0>()
                    y = Exp(x)
                    pair = SequenceConstruct(y, x)
                    z = SequenceAt(pair, at)
                    list = SequenceInsert(pair, z, at)
                }>
            rows = ConcatFromSequence<axis = -2>(s)
            one = SequenceAt(s, first)
            n = SequenceLength(s)
        }
        """,
        tmp_path,
        {"x": [2, 2], "c": True},
        {"x": [3, 2], "c": False},
    )


def test_a_function_mapped_over_lists(tmp_path: Path) -> None:
    check(
        """
        mapped (float[2,3] a, float[2,3] b, float[3] c) => (float[4,3] sums, float[2,2] sizes)
        {
            s = SequenceConstruct(a, b)
            t, u = SequenceMap(s, c) <body = each (float[2,3] x, float[3] y) => (float[2,3] z, int64[2] w)
            {
                z = Add(x, y)
                w = Shape(x)
            }>
            sums = ConcatFromSequence<axis = 0>(t)
            shapes = ConcatFromSequence<axis = 0, new_axis = 1>(u)
            sizes = Cast<to = 1>(shapes)
        }
        """,
        tmp_path,
    )


def test_names_that_graphs_share_and_nodes_out_of_order(tmp_path: Path) -> None:
    proto = model(
        """
        shared (float[2] x, int64 count) => (float[N,2] rows, float[2] last)
        <bool true = {1}, int64 zero = {0}>
        {
            y = Neg(x)
            s = SequenceConstruct(y)
            last, list = Loop(count, true, x, s) <body = step (int64 i, bool c, float[2] y, seq(float) t)
                => (bool c2, float[2] y2, seq(float) t2)
            {
                c2 = Identity(c)
                e = SequenceAt(s, zero)
                y2 = Mul(y, e)
                t2 = SequenceInsert(t, y2)
            }>
            rows = ConcatFromSequence<axis = 0, new_axis = 1>(list)
        }
        """
    )
    nodes = list(proto.graph.node)
    turned = ModelProto()
    turned.CopyFrom(proto)
    del turned.graph.node[:]
    turned.graph.node.extend(reversed(nodes))
    x = RNG.standard_normal(2, np.float32)
    with mcpc.load(mcpc.compile(turned.SerializeToString(), output=tmp_path / "m.mcp26bin", golden=0)) as session:
        rows, last = session.run(None, {"x": x, "count": np.array(2)})
    np.testing.assert_allclose(rows, [-x, -x * x, x**3], rtol=1e-6)
    np.testing.assert_allclose(last, x**3, rtol=1e-6)


def test_positions_and_sizes_that_are_initializers_keep_their_values(tmp_path: Path) -> None:
    proto = model(
        """
        listed (float[2] a, float[2] b, float[4] x) => (float[2] y, float[1] z)
        <int64 i = {1}, int64[2] sizes = {3, 1}, int64 last = {1}>
        {
            s = SequenceConstruct(a, b)
            y = SequenceAt(s, i)
            t = SplitToSequence(x, sizes)
            z = SequenceAt(t, last)
        }
        """
    )
    for name, shape in (("i", []), ("sizes", [2])):
        proto.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT64, shape))
    feeds = arrays(proto, {"a": [2], "b": [2], "x": [4], "i": 0, "sizes": [3, 1]})
    del feeds["i"], feeds["sizes"]
    artifact = mcpc.compile(proto.SerializeToString(), output=tmp_path / "m.mcp26bin", golden=0)
    kept = {each["subject"] for each in mcpc.inspect(artifact)["decisions"] if each["action"] == "freeze"}
    assert kept == {"i", "sizes"}
    with mcpc.load(artifact) as session:
        assert session.get_overridable_initializers() == []
        y, z = session.run(None, feeds)
    np.testing.assert_array_equal(y, feeds["b"])
    np.testing.assert_array_equal(z, feeds["x"][3:])


# ---- what is at fault


FAULTS = {
    "position 2 of two tensors": (
        "g (float[2] a) => (float[2] y) <int64 i = {2}> { s = SequenceConstruct(a, a) y = SequenceAt(s, i) }",
        "E104", "y", "2 tensors", "position 2",
    ),
    "position -4 of three pieces": (
        "g (float[5] a) => (float[2] y) <int64 i = {-4}, int64 k = {2}> "
        "{ s = SplitToSequence(a, k) y = SequenceAt(s, i) }",
        "E104", "y", "3 tensors", "position -4",
    ),
    "an insertion behind the end": (
        "g (float[2] a) => (int64 y) <int64 i = {2}> "
        "{ s = SequenceConstruct(a) t = SequenceInsert(s, a, i) y = SequenceLength(t) }",
        "E104", "t", "1 tensors", "position 2",
    ),
    "an erasure of nothing": (
        "g (float[2] a) => (int64 y) { s = SequenceEmpty() t = SequenceErase(s) y = SequenceLength(t) }",
        "E104", "t", "0 tensors",
    ),
    "an empty sequence": (
        "g (float[2] a) => (float[2] y) { s = SequenceEmpty() y = ConcatFromSequence<axis = 0>(s) }",
        "E104", "y", "is empty",
    ),
    "tensors that do not fit": (
        "g (float[2,3] a, float[4] b) => (float[N] y) "
        "{ s = SequenceConstruct(a, b) y = ConcatFromSequence<axis = 0>(s) }",
        "E104", "y",
    ),
    "no axis": (
        "g (float[2,3] a) => (float[2] y) <int64 i = {0}> { s = SplitToSequence<axis = 2>(a) y = SequenceAt(s, i) }",
        "E104", "s", "axis 2",
    ),
    "pieces of no size": (
        "g (float[2,3] a) => (float[2] y) <int64 k = {0}> { s = SplitToSequence(a, k) y = SequenceAt(s, k) }",
        "E104", "s", "0",
    ),
    "sizes that do not fit": (
        "g (float[3] a) => (float[2] y) <int64[2] k = {1, 1}, int64 i = {0}> "
        "{ s = SplitToSequence(a, k) y = SequenceAt(s, i) }",
        "E104", "s",
    ),
    "a tensor for a sequence": (
        "g (float[2] a) => (int64 y) { y = SequenceLength(a) }",
        "E104", "y", "%a", "no sequence",
    ),
    "a sequence for a tensor": (
        "g (float[2] a) => (float[2] y) { s = SequenceConstruct(a) y = Neg(s) }",
        "E101", "y", "sequence",
    ),
    "a position that is computed among unequal tensors": (
        "g (float[2] a, float[3] b, int64 i) => (float[N] y) { s = SequenceConstruct(a, b) y = SequenceAt(s, i) }",
        "E101", "y", "[2]", "[3]",
    ),
    "an insertion at a position that is computed": (
        "g (float[2] a, int64 i) => (int64 n) "
        "{ s = SequenceConstruct(a) t = SequenceInsert(s, a, i) n = SequenceLength(t) }",
        "E101", "t", "%i", "not constant",
    ),
    "a size of pieces that only a run shows": (
        "g (float[6] a, int64 k) => (int64 n) { s = SplitToSequence(a, k) n = SequenceLength(s) }",
        "E101", "s", "%k", "only a run",
    ),
    "an insertion somewhere in pieces of unknown number": (
        "g (float[N] a) => (int64 n) <int64 k = {2}> "
        "{ s = SplitToSequence(a, k) t = SequenceInsert(s, a, k) n = SequenceLength(t) }",
        "E101", "t", "position 2",
    ),
    "a list that is read while it grows": (
        """g (float[2] a, int64 k) => (float[N] y) <bool c = {1}, int64 z = {0}> {
            s = SequenceConstruct(a)
            t = Loop(k, c, s) <body = b (int64 i, bool c0, seq(float) u) => (bool c1, seq(float) v) {
                c1 = Identity(c0) first = SequenceAt(u, z) v = SequenceInsert(u, first) }>
            y = ConcatFromSequence<axis = 0>(t)
        }""",
        "E101", "first", "u", "appends",
    ),
    "a list that an iteration makes longer in another way": (
        """g (float[2] a, int64 k) => (int64 n) <bool c = {1}, int64 z = {0}> {
            s = SequenceConstruct(a)
            t = Loop(k, c, s) <body = b (int64 i, bool c0, seq(float) u) => (bool c1, seq(float) v) {
                c1 = Identity(c0) v = SequenceInsert(u, a, z) }>
            n = SequenceLength(t)
        }""",
        "E101", "t", "1 tensors before an iteration, 2 behind",
    ),
    "branches of different lengths of which one is empty": (
        """g (float[2] a, bool c) => (int64 n) {
            s = If(c) <then_branch = y () => (seq(float) t) { t = SequenceConstruct(a) },
                       else_branch = n () => (seq(float) u) { u = SequenceEmpty() }>
            n = SequenceLength(s)
        }""",
        "E101", "s", "empty sequence in one",
    ),
    "branches of different lengths of unequal tensors": (
        """g (float[2] a, float[3] b, bool c) => (int64 n) {
            s = If(c) <then_branch = y () => (seq(float) t) { t = SequenceConstruct(a) },
                       else_branch = n () => (seq(float) u) { u = SequenceConstruct(a, b) }>
            n = SequenceLength(s)
        }""",
        "E101", "s", "[2]", "[3]",
    ),
    "a branch without a sequence": (
        """g (float[2] a, bool c) => (int64 n) {
            s = If(c) <then_branch = y () => (seq(float) t) { t = SequenceConstruct(a) },
                       else_branch = n () => (float[2] u) { u = Neg(a) }>
            n = SequenceLength(s)
        }""",
        "E104", "s", "a tensor in the other",
    ),
    "an input": (
        "g (seq(float[2]) s) => (int64 n) { n = SequenceLength(s) }",
        "E109", "n", "input s is sequence",
    ),
    "an output": (
        "g (float[2] a) => (seq(float[2]) s) { s = SequenceConstruct(a) }",
        "E109", "", "output s is sequence",
    ),
    "a loop over nothing that fits": (
        """g (float[2] a, int64 k) => (int64 n) <bool c = {1}> {
            s = SequenceConstruct(a)
            t = Loop(k, c, s) <body = b (int64 i, bool c0) => (bool c1) { c1 = Identity(c0) }>
            n = SequenceLength(t)
        }""",
        "E104", "t", "1 carried",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_resolved_is_one_error_that_names_it(name: str) -> None:
    graph, code, node, *mentioned = FAULTS[name]
    with pytest.raises(ModelError) as caught:
        read(model(graph))
    assert (caught.value.code, caught.value.node) == (code, node)
    for text in mentioned:
        assert text in str(caught.value)


def test_an_attribute_of_another_kind_is_a_fault() -> None:
    proto = model(
        "g (float[2] a) => (int64 n) { b = Cast <to = 1> (a) s = SequenceConstruct(b) n = SequenceLength(s) }"
    )
    proto.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("to", [1, 1]))
    with pytest.raises(ModelError, match="Cast"):
        read(proto)
