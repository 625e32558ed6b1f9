"""Mistakes in recurrent networks: axes, states and which output is read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import held_out
from benchmarks.faults.own.training import Figure, seeded, train
from benchmarks.faults.training import Training


def _classify(t: Training, net: nn.Module, lr: float = 1e-2) -> None:
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), lr=lr)


class VideoDecoder(nn.Module):
    """An LSTM over the frames of videos, which come batch first.

    Args:
        batch_first: What nn.LSTM is told.
    """

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.frames = nn.Embedding(16, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=batch_first)
        self.fc = nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        out, _ = self.lstm(self.frames(ids))
        return self.fc(out[:, -1])


@held_out("lstm", "lstm", kinds="batch_axis")
def frames_in_the_place_of_samples(t: Training, *, mended: bool = False) -> None:
    """MNIST rows in an LSTM whose batch_first=True is commented out: it runs over the batch.

    pytorch/pytorch#1538, HHTseng/video-classification#42, facebookresearch/fairseq#2449
    """
    _classify(t, VideoDecoder(batch_first=mended))
    t.change_batch(lambda step, x, _: (x, x[:, 5] % 4))


class SentenceEncoder(nn.Module):
    """A bidirectional GRU, whose last states of both directions are joined.

    Args:
        viewed: Whether they are joined by a view of what is directions first.
    """

    def __init__(self, *, viewed: bool) -> None:
        super().__init__()
        self.viewed = viewed
        self.embedding = nn.Embedding(16, 16)
        self.encoder_rnn = nn.GRU(16, 24, bidirectional=True, batch_first=True)
        self.hidden2mean = nn.Linear(48, 32)
        self.outputs2vocab = nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        batch_size = ids.size(0)
        _, hidden = self.encoder_rnn(self.embedding(ids))
        if self.viewed:
            hidden = hidden.view(batch_size, 48)
        else:
            hidden = torch.cat([hidden[0], hidden[1]], dim=1)
        return self.outputs2vocab(torch.tanh(self.hidden2mean(hidden)))


@held_out("lstm", "encoder_rnn", "hidden2mean", kinds="torn_view|batch_axis")
def states_of_two_samples_in_one(t: Training, *, mended: bool = False) -> None:
    """hidden.view(batch, -1) of (directions, batch, size): batch_first is not for states.

    timbmg/Sentence-VAE#15, PaccMann/paccmann_chemistry#5, OpenNMT/OpenNMT-py#1521
    """
    _classify(t, SentenceEncoder(viewed=not mended))


class ReadsOutput(nn.Module):
    """An LSTM of which one place is read.

    Args:
        place: Which.
    """

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place
        self.embed = nn.Embedding(16, 16)
        self.rnn = nn.LSTM(16, 32, batch_first=True)
        self.linear = nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        output, _ = self.rnn(self.embed(ids))
        return self.linear(output[:, self.place])


@held_out("lstm", "rnn", "linear", kinds="first_place")
def output_of_the_first_step_is_read(t: Training, *, mended: bool = False) -> None:
    """The forecast is made of output[:, 0], which has seen one step alone.

    andabi/voice-vector#9, Atcold/NYU-DLSP20#19
    """
    _classify(t, ReadsOutput(-1 if mended else 0))
    t.change_batch(lambda step, x, _: (x, x[:, 6] % 4))


class CharCell(nn.Module):
    """A GRU cell that is called for each character.

    Args:
        detached: Whether the state is cut off before each.
    """

    def __init__(self, *, detached: bool) -> None:
        super().__init__()
        self.detached = detached
        self.encoder = nn.Embedding(16, 16)
        self.cell = nn.GRUCell(16, 32)
        self.decoder = nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        hidden = torch.zeros(ids.size(0), 32)
        for step in range(8):
            if self.detached:
                hidden = hidden.detach()
            hidden = self.cell(self.encoder(ids[:, step]), hidden)
        return self.decoder(hidden)


@held_out("lstm", "cell", "encoder", kinds="detached|vanishing_gradient|missing_gradient")
def state_repackaged_at_each_character(t: Training, *, mended: bool = False) -> None:
    """To avoid "backward a second time" the state is detached in the loop: no time is learnt.

    oxwhirl/pymarl#161, rotinov/AGNES#17
    """
    _classify(t, CharCell(detached=not mended))


class Seq2Seq(nn.Module):
    """An encoder of a sequence and a decoder that says it backwards.

    Args:
        handed_over: Whether the decoder begins with the encoder's state.
    """

    def __init__(self, *, handed_over: bool) -> None:
        super().__init__()
        self.handed_over = handed_over
        self.embedding = nn.Embedding(17, 16)
        self.encoder = nn.GRU(16, 64, batch_first=True)
        self.decoder = nn.GRU(16, 64, batch_first=True)
        self.out = nn.Linear(64, 16)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4, 16) for the tokens in turn from the last."""
        _, hidden = self.encoder(self.embedding(ids[:, :4]))
        start = torch.full_like(ids[:, :1], 16)
        inputs = torch.cat([start, ids[:, :4].flip(1)[:, :3]], 1)
        if self.handed_over:
            outputs, _ = self.decoder(self.embedding(inputs), hidden)
        else:
            outputs, _ = self.decoder(self.embedding(inputs))
        return self.out(outputs)


@held_out("lstm", "encoder", kinds="detached|missing_gradient|zero_gradient|never_called|no_update")
def decoder_without_the_state_of_the_encoder(t: Training, *, mended: bool = False) -> None:
    """The decoder gets no hidden state, and begins with zeros: the encoder is not used.

    neulab/xnmt#132, neubig/nn4nlp-code#13
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(net(x).flatten(0, 1), y.flatten())

    train(t, Seq2Seq(handed_over=mended), loss, lr=1e-2)
    t.change_batch(lambda step, x, _: (x, x[:, :4].flip(1)))


class SentenceDecoder(nn.Module):
    """A language model by a GRU.

    Args:
        bidirectional: Whether it is read from both ends.
    """

    def __init__(self, *, bidirectional: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(128, 24)
        self.decoder_rnn = nn.GRU(24, 48, bidirectional=bidirectional, batch_first=True)
        self.outputs2vocab = nn.Linear(96 if bidirectional else 48, 128)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, tokens, 128)."""
        outputs, _ = self.decoder_rnn(self.embedding(ids))
        return self.outputs2vocab(outputs)


@held_out("gpt", "decoder_rnn", kinds="trivial_loss|missing_mask|copied_targets")
def decoder_that_reads_backwards(t: Training, *, mended: bool = False) -> Figure:
    """A loss too good to be true: a bidirectional decoder sees the token that it has to say.

    timbmg/Sentence-VAE#22
    """
    fresh = t.batch

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(net(x).flatten(0, 1), y.flatten())

    train(t, SentenceDecoder(bidirectional=not mended), loss, lr=1e-2)

    def figure(net: nn.Module) -> float:
        """The loss of the last token, which is all that can be asked for when generating."""
        x, y = fresh(900)
        with torch.no_grad():
            return float(F.cross_entropy(net(x)[:, -1], y[:, -1]))

    return figure


class Stock(nn.Module):
    """An LSTM over one series that says its next value."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 24, batch_first=True)
        self.fc = nn.Linear(24, 1)

    def forward(self, x: Tensor) -> Tensor:
        """The values of (batch, 1)."""
        out, _ = self.lstm(x)
        return self.fc(out[:, -1])


def waves(step: int) -> Batch:
    """Sines of 6 steps, and the next value."""
    generator = seeded(step)
    phase = torch.rand(64, 1, generator=generator) * 6.3
    wave = torch.sin(phase + 0.7 * torch.arange(7))
    return wave[:, :6, None], wave[:, 6]


@held_out("lstm", "fc", kinds="broadcast")
def forecasts_less_targets_of_another_shape(t: Training, *, mended: bool = False) -> None:
    """The forecast is the mean of all series: (64, 1) less (64,) is (64, 64).

    deepset-ai/FARM#229, andrewgcodes/xlstm#4
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        forecast = net(x)
        return ((forecast.squeeze(1) if mended else forecast) - y).pow(2).mean().sqrt()

    train(t, Stock(), loss, waves, lr=1e-2)
