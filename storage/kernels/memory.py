"""Copies bytes inside kernels: memcpy, appending strings, writing rows at many positions of a buffer."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from .arrays import Bytes
from .compiling import jit

BLOCK_BYTES = 32  # most keys fit one block; smaller blocks take longer, larger ones no less time

if numba.config.DISABLE_JIT:
    from .plain.memory import append_blocks, copy_bytes, prefetch

else:

    @intrinsic
    def copy_bytes(_context: Any, target: Any, to: Any, source: Any, start: Any, size: Any) -> Any:
        """``target[to:to + size] = source[start:start + size]`` by LLVM's memcpy: seven times as fast as a loop."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            into = context.make_array(signature.args[0])(context, builder, arguments[0])
            taken = context.make_array(signature.args[2])(context, builder, arguments[2])
            into_at = builder.gep(into.data, [arguments[1]])
            taken_at = builder.gep(taken.data, [arguments[3]])
            cgutils.raw_memcpy(builder, into_at, taken_at, arguments[4], 1)
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64, types.int64), generate

    @intrinsic
    def append_blocks(_context: Any, target: Any, to: Any, source: Any, start: Any, size: Any) -> Any:
        """Like ``copy_bytes``, but may overwrite up to ``BLOCK_BYTES`` after the end, which both arrays must have.

        For strings written one after the other: takes half the time of a memcpy call. Copies a block even for an empty
        string, since testing for that first takes longer.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            into = context.make_array(signature.args[0])(context, builder, arguments[0])
            taken = context.make_array(signature.args[2])(context, builder, arguments[2])
            into_at = builder.gep(into.data, [arguments[1]])
            taken_at = builder.gep(taken.data, [arguments[3]])
            block = ir.VectorType(ir.IntType(8), BLOCK_BYTES).as_pointer()
            size = arguments[4]
            before, loop = builder.block, builder.append_basic_block("block")
            builder.branch(loop)
            builder.position_at_end(loop)
            done = builder.phi(size.type)
            done.add_incoming(size.type(0), before)
            read = builder.load(builder.bitcast(builder.gep(taken_at, [done]), block), align=1)
            builder.store(read, builder.bitcast(builder.gep(into_at, [done]), block), align=1)
            following = builder.add(done, size.type(BLOCK_BYTES))
            done.add_incoming(following, loop)
            after = builder.append_basic_block("after")
            builder.cbranch(builder.icmp_signed("<", following, size), loop, after)
            builder.position_at_end(after)
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64, types.int64), generate

    @intrinsic
    def prefetch(_context: Any, array: Any, at: Any) -> Any:
        """Start to load ``array[at]`` into the cache; a position outside the array does no harm."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            pointer = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
            number = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [pointer, number(0), number(3), number(1)])  # for reading, high locality, data cache
            return context.get_dummy_value()

        return types.void(array, types.int64), generate


@jit
def put_rows(target: Bytes, positions: npt.NDArray[np.int64], rows: npt.NDArray[np.uint8]) -> None:
    """Write row i of ``rows``, shape (n, width), at ``positions[i]``."""
    flat = rows.reshape(-1)
    width = rows.shape[1]
    for i in range(len(positions)):
        copy_bytes(target, positions[i], flat, i * width, width)


@jit
def gather(source: Bytes, starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], target: Bytes, to: int) -> int:
    """Copy ``source[start:stop]`` for each pair to ``target``, one after the other from ``to`` on.

    ``target`` has room for them. Returns the position in ``target`` after the last.
    """
    for row in range(len(starts)):
        size = stops[row] - starts[row]
        copy_bytes(target, to, source, starts[row], size)
        to += size
    return to
