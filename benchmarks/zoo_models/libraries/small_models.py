"""Small models of our own around parts of libraries that are no models themselves."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RotaryAttention(nn.Module):
    """Attention with rotary positions, of rotary-embedding-torch."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        from rotary_embedding_torch import RotaryEmbedding

        self.heads = heads
        self.rotary = RotaryEmbedding(dim=dim // heads // 2)
        self.project = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Attends over ``(samples, time, dim)``."""
        n, time, _ = x.shape
        parts = self.project(x).view(n, time, 3, self.heads, -1).unbind(2)
        queries, keys, values = (part.transpose(1, 2) for part in parts)
        queries = self.rotary.rotate_queries_or_keys(queries)
        keys = self.rotary.rotate_queries_or_keys(keys)
        weights = torch.softmax(queries @ keys.transpose(-2, -1), dim=-1)
        return self.out((weights @ values).transpose(1, 2).flatten(2))


class AugmentedNet(nn.Module):
    """A convolution behind the augmentations of kornia, which change images in training."""

    def __init__(self) -> None:
        super().__init__()
        from kornia import augmentation

        self.augment = augmentation.AugmentationSequential(
            augmentation.RandomHorizontalFlip(p=0.5),
            augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
            augmentation.RandomAffine(degrees=15.0, p=1.0),
            data_keys=["input"],
        )
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Features of images."""
        return self.conv(self.augment(x) if self.training else x)


class SimSiam(nn.Module):
    """SimSiam with the heads and the loss of lightly."""

    def __init__(self) -> None:
        super().__init__()
        from lightly.loss import NegativeCosineSimilarity
        from lightly.models.modules import SimSiamPredictionHead, SimSiamProjectionHead

        self.backbone = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.projection = SimSiamProjectionHead(16, 16, 16)
        self.prediction = SimSiamPredictionHead(16, 8, 16)
        self.criterion = NegativeCosineSimilarity()

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The loss of two views."""
        z1, z2 = self._project(first), self._project(second)
        p1, p2 = self.prediction(z1), self.prediction(z2)
        return (self.criterion(z1.detach(), p2) + self.criterion(z2.detach(), p1)) / 2

    def _project(self, x: Tensor) -> Tensor:
        return self.projection(self.backbone(x).flatten(1))


class SpectrogramNet(nn.Module):
    """A mel spectrogram of torchaudio, masked in training, and a convolution."""

    def __init__(self) -> None:
        super().__init__()
        from torchaudio import transforms

        self.spectrogram = transforms.MelSpectrogram(n_fft=256, n_mels=16)
        self.decibels = transforms.AmplitudeToDB()
        self.mask = transforms.FrequencyMasking(freq_mask_param=4)
        self.conv = nn.Conv1d(16, 8, 3)

    def forward(self, wave: Tensor) -> Tensor:
        """Features of waves, ``(samples, time)``."""
        x = self.decibels(self.spectrogram(wave))
        return self.conv(self.mask(x) if self.training else x)


class Unmixed(nn.Module):
    """The chain of openunmix: a short-time Fourier transform, magnitudes, the network."""

    def __init__(self) -> None:
        super().__init__()
        from openunmix import model, transforms

        self.transform, _ = transforms.make_filterbanks(n_fft=64, n_hop=32)
        self.magnitudes = transforms.ComplexNorm()
        self.network = model.OpenUnmix(nb_bins=33, hidden_size=16, nb_layers=1)

    def forward(self, wave: Tensor) -> Tensor:
        """Masked magnitudes of stereo waves, ``(samples, 2, time)``."""
        return self.network(self.magnitudes(self.transform(wave)))


def encodec() -> nn.Module:
    """A small EnCodec."""
    from encodec import modules
    from encodec.model import EncodecModel
    from encodec.quantization import ResidualVectorQuantizer

    shape = {"dimension": 16, "n_filters": 4, "ratios": [4, 4, 2], "lstm": 1}
    encoder, decoder = modules.SEANetEncoder(**shape), modules.SEANetDecoder(**shape)
    quantizer = ResidualVectorQuantizer(dimension=16, n_q=2, bins=16)
    return EncodecModel(encoder, decoder, quantizer, [6.0], sample_rate=3200, channels=1)
