import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, size, hop, bands, classes):
        super().__init__()
        self.size, self.hop = size, hop
        ramp = torch.linspace(0, 1, size // 2 + 1)
        centres = torch.linspace(0.1, 0.9, bands)[:, None]
        self.filters = (1 - 4 * (ramp - centres).abs()).clamp(min=0)
        self.window = torch.hann_window(size)
        self.head = nn.Linear(bands, classes)

    def forward(self, wave):
        spectrum = torch.stft(wave, self.size, self.hop, window=self.window, return_complex=True)
        mel = self.filters @ spectrum[..., :-1].abs() ** 2
        log = mel.clamp(min=1e-10).log10()
        log = torch.maximum(log, log.amax((1, 2), keepdim=True) - 3.0)
        return self.head(((log + 4.0) / 4.0).transpose(1, 2))
