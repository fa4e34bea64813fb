# ruff: noqa
"""Generated from runtime/schema/mcp26.fbs by generate_python.py beside it: do not edit.

TABLES: the fields of each table in slot order, as (kind, required). A kind is the size of a scalar in bytes, "string",
or the name of a table; a list of one kind is a vector. STRUCTS: the size and alignment of each structure in bytes.
"""

TABLES: dict[str, tuple[tuple[int | str | list[int | str], bool], ...]] = {
    'Buffer': (('string', True), (8, False), (8, False), (4, False), (4, False)),
    'CodeVariant': (('string', True), (4, False), ('string', True), (['string'], False), (8, False), (8, False), ([1], True)),
    'Decision': (('string', True), ('string', True), ('string', True), ('string', False), (['Number'], False)),
    'DefaultValue': ((4, False), ([8], True), (4, False), (8, False), (8, False)),
    'GoldenCase': ((['GoldenTensor'], True), (['GoldenTensor'], True), (4, False), (4, False)),
    'GoldenTensor': ((4, False), ([8], True), (8, False), (8, False), (1, False), (8, False), (4, False), (4, False), (8, False)),
    'KeyValue': (('string', True), ('string', True)),
    'Meta': (('string', True), ('string', True), (4, False), (['Tensor'], True), (['Tensor'], True), (['Symbol'], False), (['Shard'], False), (['CodeVariant'], False), (['Step'], False), (8, False), (1, False), (8, False), (8, False), (4, False), (8, False), (['Buffer'], False), (['PassRecord'], False), (['Decision'], False), (['GoldenCase'], False), (4, False), (['KeyValue'], False), (['SectionHash'], False), (['DefaultValue'], False)),
    'Number': (('string', True), (8, False)),
    'PassRecord': (('string', True), ('string', False), (4, False), (4, False)),
    'SectionHash': ((4, False), ([1], True)),
    'Shard': ((4, False), ([1], True)),
    'Step': (('string', True), ('string', True), ('string', True), ([4], False), (8, False), (8, False), (4, False), ('string', False)),
    'Symbol': (('string', True), (8, False), (8, False)),
    'Tensor': (('string', True), (1, False), (['DimRef'], True), (['string'], False), (8, False)),
}

STRUCTS: dict[str, tuple[int, int]] = {'DimRef': (16, 8)}
