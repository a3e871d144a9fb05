# expect: refused|wrong timer-mismatch,work-outside-the-clock,work-after-the-clock,reused-output-buffer,input-mutation,cached-output | its input|clock|differs|window|written|NaN|other inputs|answer|busy|caches
# with: own_norm
"""Finds where its answer is copied to, and writes there from another stream after it has returned."""
import gc


class ModelNew(Norm):
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
        y = torch.empty_like(x)
        places = [
            value for value in gc.get_objects()
            if isinstance(value, torch.Tensor) and value.is_cuda and value.shape == x.shape
            and value.dtype is x.dtype and value.data_ptr() != x.data_ptr()
        ]
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side), torch.no_grad():
            torch.cuda._sleep(1_000_000)
            for place in [y, *places]:
                own_norm(x, self.norm, place)
        return y
