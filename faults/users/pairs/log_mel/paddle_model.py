import numpy as np
import paddle
from paddle import nn


class Net(nn.Layer):
    def __init__(self, size, hop, bands, classes):
        super().__init__()
        self.size, self.hop, bins = size, hop, np.arange(size // 2 + 1)
        centres = 0.1 + 0.8 * np.arange(bands) / (bands - 1)
        self.filters = np.maximum(0.0, 1.0 - 4.0 * np.abs(bins[:, None] / (size // 2) - centres))
        turns = 2.0 * np.pi * np.outer(np.arange(size), bins) / size
        window = np.hanning(size + 1)[:-1, None]
        self.cosines, self.sines = (window * f(turns) for f in (np.cos, np.sin))
        self.head = nn.Linear(bands, classes)

    def forward(self, wave):
        half, dtype = self.size // 2, wave.dtype
        wave = nn.functional.pad(wave.unsqueeze(1), [half, half], mode="reflect", data_format="NCL")
        starts = paddle.arange(0, wave.shape[-1] - self.size, self.hop)
        frames = wave[:, 0][:, starts.unsqueeze(1) + paddle.arange(self.size)]  # (B, T, size)
        tables = (self.cosines, self.sines, self.filters)
        cosines, sines, filters = (paddle.to_tensor(t, dtype=dtype) for t in tables)
        power = paddle.matmul(frames, cosines).square() + paddle.matmul(frames, sines).square()
        log = paddle.log10(paddle.clip(paddle.matmul(power, filters), min=1e-10))
        log = paddle.maximum(log, log.amax(axis=[1, 2], keepdim=True) - 3.0)
        return self.head(0.25 * log + 1.0)
