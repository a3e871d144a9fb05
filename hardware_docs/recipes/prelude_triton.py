"""Functions of one value that the kernels for GPUs call: float32, and NaN as the framework has it.

A kernel's file gets only those that it calls. They use nothing but the language's own operations, so
that they compile for every vendor and run in the interpreter. `tl.exp` is within a few units in the
last place for the arguments that matter; `tl.log` is not near one, so the logarithm is a polynomial.
"""

import weakref

import torch
import triton
import triton.language as tl


def _units(tensor):
    """Return how many blocks run at once at least: the device's multiprocessors."""
    if tensor.device.type != "cuda":
        return 8
    return torch.cuda.get_device_properties(tensor.device).multi_processor_count


_derived = {}


def _kept(name, tensors, make):
    """Return what `make` derives from parameters, made again when one of them changed.

    An address may come again with other values, so it is the tensor itself that is remembered.
    """
    stamp = tuple((t.data_ptr(), t._version, t.shape) for t in tensors)
    place = (name, *map(id, tensors))  # several layers call one kernel
    known, before, value = _derived.get(place, ((), (), None))
    same = len(known) == len(tensors) and all(k() is t for k, t in zip(known, tensors, strict=True))
    if not same or before != stamp:
        value = make()
        _derived[place] = (tuple(weakref.ref(t) for t in tensors), stamp, value)
    return value


_constants = {}


def _on(tensor, constant):
    """Return a constant of the module on the device of `tensor`."""
    key = (id(constant), tensor.device)
    if key not in _constants:
        _constants[key] = constant.to(tensor.device)
    return _constants[key]


@triton.jit
def vmax(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def vmin(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def vtimes(a, b):
    return a * b


@triton.jit
def vplus(a, b):
    return a + b


@triton.jit
def vhigher(a, i, b, j):
    # Of two elements with their places the greater, not a number first; of equals the one before.
    same = (b == a) | ((b != b) & (a != a))
    take = (b > a) | ((b != b) & (a == a)) | (same & (j < i))
    return tl.where(take, b, a), tl.where(take, j, i)


@triton.jit
def vlower(a, i, b, j):
    same = (b == a) | ((b != b) & (a != a))
    take = (b < a) | ((b != b) & (a == a)) | (same & (j < i))
    return tl.where(take, b, a), tl.where(take, j, i)


@triton.jit
def vordered(x):
    # Whole numbers in the order of the elements; not a number has the greatest.
    i = x.to(tl.int32, bitcast=True)
    return tl.where(x == x, i ^ ((i >> 31) & 0x7FFFFFFF), 0x7FFFFFFF)


@triton.jit
def vunordered(i):
    return (i ^ ((i >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def vwide(i, mask):
    return i + 0 * mask.to(tl.int32)


@triton.jit
def hwmax(a, b):
    return vmax(b, a)


@triton.jit
def hwmin(a, b):
    return vmin(b, a)


@triton.jit
def vsel(m, a, b):
    return tl.where(m, a, b)


@triton.jit
def vabs(x):
    return tl.abs(x)


@triton.jit
def vrelu(x):
    return vmax(x, 0.0)


@triton.jit
def vclamp(x, lo, hi):
    return vmin(vmax(x, lo), hi)


@triton.jit
def vsqrt(x):
    return tl.sqrt_rn(x)


@triton.jit
def vrsqrt(x):
    return tl.rsqrt(x)


@triton.jit
def vfloor(x):
    return tl.floor(x)


@triton.jit
def vceil(x):
    return tl.ceil(x)


@triton.jit
def vexp(x):
    return tl.exp(x)


@triton.jit
def vexp2(x):
    return tl.exp2(x)


@triton.jit
def vexpm1(x):
    # A minimax fit below ln 2 / 2, where the difference would cancel.
    q = 0.00139517174 * x + 0.00836959854
    q = q * x + 0.0416661873
    q = q * x + 0.166665122
    q = q * x + 0.5
    return tl.where(tl.abs(x) < 0.3465, (q * x) * x + x, tl.exp(x) - 1.0)


@triton.jit
def vlog(x):
    # x = m 2^e with m in [sqrt 1/2, sqrt 2).
    tiny = x < 1.17549435e-38
    z = tl.where(tiny, x * 33554432.0, x)
    i = z.to(tl.int32, bitcast=True) - 0x3F3504F3
    e = (i >> 23).to(tl.float32) - tl.where(tiny, 25.0, 0.0)
    f = ((i & 0x7FFFFF) + 0x3F3504F3).to(tl.float32, bitcast=True) - 1.0
    q = 0.0694840923 * f - 0.118443847
    q = q * f + 0.118872307
    q = q * f - 0.123765521
    q = q * f + 0.142158821
    q = q * f - 0.166695833
    q = q * f + 0.200023636
    q = q * f - 0.249999821
    q = q * f + 0.333333075
    s = f * f
    y = (q * f - 0.5) * s + e * -2.12194440e-4
    y = (y + f) + e * 0.693359375
    y = tl.where(x == 0.0, float("-inf"), tl.where(x < 0.0, float("nan"), y))
    # Infinity and NaN are their own logarithms.
    return tl.where(x <= 3.40282347e38, y, x)


@triton.jit
def vlog1p(x):
    # The error of 1 + x is put back.
    w = x + 1.0
    d = x - (w - 1.0)
    y = vlog(w) + tl.where(tl.abs(x) < 1.0, d / w, 0.0)
    return tl.where(tl.abs(x) < 5.96e-8, x, tl.where(x > -1.0, y, vlog(w)))


@triton.jit
def vlog2(x):
    return vlog(x) * 1.44269504


@triton.jit
def vlog10(x):
    return vlog(x) * 0.434294482


@triton.jit
def vsin(x):
    return tl.sin(x)


@triton.jit
def vcos(x):
    return tl.cos(x)


@triton.jit
def vtan(x):
    return tl.sin(x) / tl.cos(x)


@triton.jit
def vatan(x):
    # The argument is brought below tan(pi / 8).
    a = tl.abs(x)
    far = a > 2.414213562
    near = a > 0.4142135624
    z = tl.where(far, -1.0 / a, tl.where(near, (a - 1.0) / (a + 1.0), a))
    base = tl.where(far, 1.5707963268, tl.where(near, 0.7853981634, 0.0))
    s = z * z
    q = 8.05374449538e-2 * s - 1.38776856032e-1
    q = q * s + 1.99777106478e-1
    q = q * s - 3.33329491539e-1
    y = base + (q * s * z + z)
    return tl.where(x < 0.0, -y, y)


@triton.jit
def vsinh(x):
    a = tl.abs(x)
    s = x * x
    q = 2.03721912945e-4 * s + 8.33028376239e-3
    q = q * s + 1.66667160211e-1
    # The half is taken first, so that the exponential may be twice the largest number.
    e = tl.exp(a - 0.6931471806)
    y = e - 0.25 / e
    return tl.where(a > 1.0, tl.where(x < 0.0, -y, y), q * s * x + x)


@triton.jit
def vcosh(x):
    e = tl.exp(tl.abs(x) - 0.6931471806)
    return e + 0.25 / e


@triton.jit
def vtanh(x):
    a = tl.abs(x)
    s = x * x
    q = -5.70498872745e-3 * s + 2.06390887954e-2
    q = q * s - 5.37397155531e-2
    q = q * s + 1.33314422036e-1
    q = q * s - 3.33332819422e-1
    y = 1.0 - 2.0 / (tl.exp(a + a) + 1.0)
    return tl.where(a > 0.625, tl.where(x < 0.0, -y, y), q * s * x + x)


@triton.jit
def vsigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def vsilu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def vsoftplus(x, beta, threshold):
    y = x * beta
    soft = (tl.maximum(y, 0.0) + vlog1p(tl.exp(-tl.abs(y)))) / beta
    return tl.where(y > threshold, x, tl.where(x == x, soft, x))


@triton.jit
def vmish(x):
    # tanh(log(1 + e)) without the logarithm.
    e = tl.exp(tl.minimum(x, 20.0))
    n = e * (e + 2.0)
    y = x * (n / (n + 2.0))
    return tl.where(x > 20.0, x, tl.where(x == x, y, x))


@triton.jit
def verf(x):
    return tl.erf(x)


@triton.jit
def vgelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.707106781))


@triton.jit
def vgelu_tanh(x):
    return 0.5 * x * (1.0 + vtanh(0.797884561 * (x + 0.044715 * (x * x * x))))


@triton.jit
def vpowi(x, n: tl.constexpr):
    y = tl.where(x == x, 1.0, 1.0) if n == 0 else x  # infinite and NaN too
    for _ in tl.static_range(1, n if n > 0 else -n):
        y = y * x
    return 1.0 / y if n < 0 else y


@triton.jit
def vpow(x, y):
    # In double precision: an error of the logarithm is multiplied by the exponent.
    same = x == y  # a tensor, whichever of the two is a number
    x = tl.where(same, x, x)
    y = tl.where(same, y, y)
    wide = y.to(tl.float64)
    size = tl.exp2(wide * tl.log2(tl.abs(x).to(tl.float64))).to(tl.float32)
    whole = tl.floor(y) == y
    odd = tl.floor(y * 0.5) * 2.0 != y
    signed = tl.where(whole, tl.where(odd, -size, size), tl.where(x == float("-inf"), size, float("nan")))
    zero = tl.where(y > 0.0, 0.0, float("inf"))
    found = tl.where(x > 0.0, size, tl.where(x == 0.0, zero, signed))
    return tl.where(y == 0.0, 1.0, found)


@triton.jit
def vfmod(x, y):
    # Whole multiples are taken off in double precision, thirty bits of the quotient at a time: none is rounded, since a
    # multiple has at most 24 + 29 bits. One step does, unless a quotient of the block is longer.
    same = x == y  # a tensor, whichever of the two is a number
    x = tl.where(same, x, x)
    y = tl.where(same, y, y)
    left = tl.abs(x).to(tl.float64)
    by = tl.abs(y).to(tl.float64)
    usual = (left < float("inf")) & (by > 0.0)
    left = tl.where(usual, left, 0.0)
    if tl.max((left >= by * (2.0**29)).to(tl.int32) * usual.to(tl.int32)) > 0:
        for k in tl.static_range(9):
            scaled = by * (2.0 ** (29 * (9 - k)))
            left = left - tl.floor(left / scaled) * scaled
            left = tl.where(left < 0.0, left + scaled, left)
    left = left - tl.floor(left / by) * by
    left = tl.where(left < 0.0, left + by, left)
    found = tl.where(by < float("inf"), left, tl.abs(x).to(tl.float64)).to(tl.float32)
    found = tl.where((x < 0.0) | (1.0 / x < 0.0), -found, found)
    return tl.where(usual & (x == x) & (y == y), found, float("nan"))


def vheads(t):
    """Return a tensor of matrices with two axes before them, as it lies."""
    while t.dim() < 4:
        t = t.unsqueeze(0)
    return t.flatten(0, -4) if t.dim() > 4 else t
