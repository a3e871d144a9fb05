"""Triton's interpreter, repaired: narrow floats, the target's dot precision, watched memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from search.judging.dryrun.interpreter.low_precision import decode, encode, is_narrow, to_tf32
from search.judging.dryrun.interpreter.memory import AccessWatch, Addresses, KernelFault

TensorHandle = interpreter.TensorHandle


class CheckedBuilder(interpreter.InterpreterBuilder):  # type: ignore[misc]  # Triton has no types
    """Computes what Triton's operations mean on a GPU, and watches what they touch.

    The stock interpreter keeps bfloat16 as integers and adds those; it has no tf32; an address out
    of bounds ends the process; and it runs programs one after the other, so that races never show.

    Attributes:
        memory: of the launch that is running.
        real: whether its arguments have memory; without it loads give `filler`.
        volatile: whether a program has read memory that others may change.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory: AccessWatch
        self.real = True
        self.volatile = False
        self.filler = 0

    def aim(self, architecture: str) -> None:
        """Compute as kernels for an architecture do: dots round float32 to tf32 where it has that."""
        allowed: tuple[str, ...] = ("ieee", "bf16x3", "bf16x6")
        if architecture.startswith("sm_"):
            allowed = ("tf32", "tf32x3", *allowed)
        elif architecture == "gfx942":  # the only one of AMD's with such instructions
            allowed = ("tf32", *allowed)
        self.options = interpreter.InterpreterOptions(
            default_dot_input_precision="tf32" if "tf32" in allowed else "ieee",
            allowed_dot_input_precisions=allowed,
            # Else whole numbers are added a second time, for an assertion that only debug mode makes.
            sanitize_overflow=False,
        )

    # Arithmetic on narrow floats -----------------------------------------------------------------

    def _through_float32(self, op: Any, *operands: Any) -> Any:
        """Apply `op` to operands some of which are narrow; round the result back."""
        values = [decode(x.data, x.dtype) if is_narrow(x.dtype) else x.data for x in operands]
        result = op(*values)
        if result.dtype == np.bool_:
            return TensorHandle(result, tl.int1)
        kind = next(x.dtype.scalar for x in operands if is_narrow(x.dtype))
        return TensorHandle(encode(result, kind), kind)

    def get_bf16(self, value: float) -> Any:
        """Return a constant."""
        return TensorHandle(encode(np.array([value]), tl.bfloat16), tl.bfloat16)

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        """Apply a binary operation."""
        bitwise = op in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)
        if not bitwise and (is_narrow(lhs.dtype) or is_narrow(rhs.dtype)):
            return self._through_float32(op, lhs, rhs)
        return super().binary_op(lhs, rhs, op)

    def unary_op(self, arg: Any, op: Any) -> Any:
        """Apply a unary operation."""
        if is_narrow(arg.dtype):
            return self._through_float32(op, arg)
        return super().unary_op(arg, op)

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        """Apply a clamp or a choice; a choice takes bits as they are."""
        if op is not np.where and is_narrow(other.dtype):
            return self._through_float32(op, lhs, rhs, other)
        return super().ternary_op(lhs, rhs, other, op)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        """Multiply and add."""
        if is_narrow(z.dtype):
            return self._through_float32(lambda a, b, c: a * b + c, x, y, z)
        return super().create_fma(x, y, z)

    def create_rsqrt(self, arg: Any) -> Any:
        """Return one over the square root."""
        return self.unary_op(arg, lambda x: 1 / np.sqrt(x))

    def create_erf(self, arg: Any) -> Any:
        """Return the error function."""
        if is_narrow(arg.dtype):
            return self._through_float32(
                lambda x: super(CheckedBuilder, self).create_erf(TensorHandle(x, tl.float32)).data,
                arg,
            )
        if arg.data.dtype == np.float16:
            wide = TensorHandle(arg.data.astype(np.float32), tl.float32)
            return TensorHandle(super().create_erf(wide).data.astype(np.float16), tl.float16)
        return super().create_erf(arg)

    def create_shl(self, lhs: Any, rhs: Any) -> Any:
        """Shift left: the bits, whatever they stand for."""
        return super().binary_op(lhs, rhs, np.left_shift)

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        """Convert between element types, rounding to the nearest."""
        source, target = src.dtype.scalar, dst_type.scalar
        if source == target:
            return TensorHandle(src.data, target)
        if not (is_narrow(source) or is_narrow(target)):
            return super().cast_impl(src, dst_type)
        wide = decode(src.data, source) if is_narrow(source) else src.data
        if is_narrow(target):
            return TensorHandle(encode(wide, target), target)
        return super().cast_impl(TensorHandle(wide, tl.float32), dst_type)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        """Convert between float types; rounding towards zero, which is rare, is left to the stock."""
        towards_zero = rounding_mode is not None and "RTZ" in str(rounding_mode)
        if towards_zero or not (is_narrow(src.dtype) or is_narrow(dst_type)):
            return super().create_fp_to_fp(src, dst_type, rounding_mode)
        return self.cast_impl(src, dst_type)

    create_si_to_fp = create_ui_to_fp = create_fp_to_si = create_fp_to_ui = (
        lambda self, src, dst_type: self.cast_impl(src, dst_type)
    )
    create_fp_ext = create_fp_trunc = lambda self, src, dst_type: self.cast_impl(src, dst_type)

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_imprecise: Any) -> Any:
        """Multiply tiles: narrow operands widened, float32 rounded to tf32 where the kernel allows."""
        left, right = (decode(x.data, x.dtype) if is_narrow(x.dtype) else x.data for x in (a, b))
        if np.issubdtype(left.dtype, np.integer):
            return super().create_dot(a, b, d, input_precision, max_imprecise)
        if left.dtype != np.float64:
            left, right = left.astype(np.float32), right.astype(np.float32)
        if a.dtype.scalar == tl.float32 and str(input_precision).endswith("TF32"):
            left, right = to_tf32(left), to_tf32(right)
        wide = decode(d.data, d.dtype) if is_narrow(d.dtype) else d.data
        total = np.matmul(left, right) + wide
        kind = d.dtype.scalar
        if is_narrow(kind):
            return TensorHandle(encode(total, kind), kind)
        return TensorHandle(total.astype(d.data.dtype), kind)

    # Memory ----------------------------------------------------------------------------------------

    def create_masked_load(
        self,
        ptrs: Any,
        mask: Any,
        other: Any,
        cache_modifier: Any,
        eviction_policy: Any,
        is_volatile: Any,
    ) -> Any:
        """Load what the mask admits."""
        admitted = _mask(mask, ptrs)
        element = ptrs.get_element_ty()
        self.volatile = self.volatile or bool(is_volatile)
        self.memory.read(ptrs.data, admitted, _bytes(element))
        if self.real:
            handle = TensorHandle(admitted, tl.int1)
            return super().create_masked_load(
                ptrs, handle, other, cache_modifier, eviction_policy, is_volatile
            )
        kind = interpreter._get_np_dtype(element)
        given = np.zeros(ptrs.data.shape, dtype=kind) if other is None else other.data
        values = np.broadcast_to(given, ptrs.data.shape).astype(kind)
        return TensorHandle(np.where(admitted, kind.type(self.filler), values), element)

    def create_masked_store(
        self, ptrs: Any, value: Any, mask: Any, cache_modifier: Any, eviction_policy: Any
    ) -> Any:
        """Store what the mask admits."""
        admitted = _mask(mask, ptrs)
        element = interpreter._get_np_dtype(ptrs.get_element_ty())
        data = np.broadcast_to(value.data, ptrs.data.shape)
        data = data.view(element) if data.itemsize == element.itemsize else data.astype(element)
        self.memory.write(ptrs.data, admitted, data)
        if self.real:
            handle = TensorHandle(np.ascontiguousarray(data), value.dtype)
            admit = TensorHandle(admitted, tl.int1)
            super().create_masked_store(ptrs, handle, admit, cache_modifier, eviction_policy)

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        """Compare and swap."""
        self.memory.touch(ptr.data, np.ones(ptr.data.shape, bool), _bytes(ptr.get_element_ty()))
        if not self.real:
            return TensorHandle(np.broadcast_to(cmp.data, ptr.data.shape).copy(), cmp.dtype.scalar)
        return super().create_atomic_cas(ptr, cmp, val, sem, scope)

    def create_atomic_rmw(
        self, operation: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any
    ) -> Any:
        """Read, modify and write."""
        self.memory.touch(ptr.data, _mask(mask, ptr), _bytes(ptr.get_element_ty()))
        if is_narrow(val.dtype):
            raise KernelFault("unsupported", "atomic operations on bfloat16 are not interpreted")
        if not self.real:
            return TensorHandle(np.zeros_like(val.data), val.dtype.scalar)
        return super().create_atomic_rmw(operation, ptr, val, mask, sem, scope)

    def create_inline_asm(self, *_: Any) -> Any:
        """Refuse: assembly is the device's own."""
        raise KernelFault("unsupported", "inline assembly is not interpreted")

    def create_extern_elementwise(self, _name: Any, _path: Any, symbol: Any, *_: Any) -> Any:
        """Refuse what `libdevice` does not map."""
        raise KernelFault("unsupported", f"the library function {symbol} is not interpreted")


def peek(addresses: Addresses, size: int) -> Any:
    """Return the bytes at each address, one row an address."""
    places = addresses.astype(np.uint64)[:, None] + np.arange(size, dtype=np.uint64)
    active = np.ones(places.shape, dtype=bool)
    nothing = np.zeros(places.shape, dtype=np.uint8)
    return interpreter._interpreter.load(places, active, nothing, np.dtype(np.uint8))


def _mask(mask: Any, ptrs: Any) -> Any:
    # Block pointers and descriptors hand their masks over as bare arrays.
    data = mask.data if isinstance(mask, TensorHandle) else mask
    return np.ascontiguousarray(np.broadcast_to(np.asarray(data), ptrs.data.shape), dtype=bool)


def _bytes(element: Any) -> int:
    return max(1, int(element.primitive_bitwidth) // 8)
