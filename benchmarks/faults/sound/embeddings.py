"""Trainings of embeddings: of words, texts, users and items, by pairs and by triples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.made_data import padded, walks
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


class TextClassifier(nn.Module):
    """The mean of words' embeddings, and a layer, as in torch's tutorial."""

    def __init__(self, words: int, width: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, width, sparse=False)
        self.fc = nn.Linear(width, classes)
        for weight in (self.embedding.weight, self.fc.weight):
            nn.init.uniform_(weight, -0.5, 0.5)
        nn.init.zeros_(self.fc.bias)

    def forward(self, text: Tensor, offsets: Tensor) -> Tensor:
        """Logits of (samples, classes)."""
        return self.fc(self.embedding(text, offsets))


@sound({}, {"samples": 8, "width": 8, "classes": 8})
def tutorial_text_classification(
    samples: int = 32, width: int = 32, classes: int = 4
) -> Iterator[Monitor]:
    """The tutorial "Text classification with torchtext": EmbeddingBag, SGD, clipped."""
    model: Any = TextClassifier(100, width, classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(200):
        labels = torch.randint(classes, (samples,))
        texts = [
            torch.where(
                torch.rand(n) < 0.6,
                label + classes * torch.randint(8, (n,)),
                torch.randint(100, (n,)),
            )
            for n, label in zip(torch.randint(5, 20, (samples,)).tolist(), labels, strict=True)
        ]
        offsets = torch.tensor([0, *map(len, texts[:-1])]).cumsum(0)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.cat(texts), offsets), labels)
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        yield model.monitor


class SkipGram(nn.Module):
    """Words and their neighbours, told from words that were drawn."""

    def __init__(self, words: int, width: int, *, sparse: bool) -> None:
        super().__init__()
        self.u_embeddings = nn.Embedding(words, width, sparse=sparse)
        self.v_embeddings = nn.Embedding(words, width, sparse=sparse)
        nn.init.uniform_(self.u_embeddings.weight, -0.5 / width, 0.5 / width)
        nn.init.zeros_(self.v_embeddings.weight)

    def forward(self, word: Tensor, near: Tensor, drawn: Tensor) -> Tensor:
        """The loss."""
        u = self.u_embeddings(word)
        true = (u * self.v_embeddings(near)).sum(1).clamp(-10, 10)
        false = (self.v_embeddings(drawn) @ u.unsqueeze(2)).squeeze(2).clamp(-10, 10)
        return -(F.logsigmoid(true) + F.logsigmoid(-false).sum(1)).mean()


@sound({}, {"sparse": True})
def word2vec(sparse: bool = False) -> Iterator[Monitor]:
    """Skip-grams with negative samples, whose second table begins at 0, as word2vec's does."""
    model: Any = SkipGram(80, 100, sparse=sparse)
    make = torch.optim.SparseAdam if sparse else torch.optim.Adam
    optimizer = make(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(200):
        text = walks(64, 2, 80)
        loss = model(text[:, 0], text[:, 1], torch.randint(80, (64, 5)))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Encoder(nn.Module):
    """Texts as unit vectors: embeddings, an encoder and the mean over what is no padding."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width, 0), nn.Embedding(32, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.project = nn.Linear(width, width)

    def forward(self, ids: Tensor) -> Tensor:
        """Of (samples, width)."""
        is_word = (ids > 0).unsqueeze(-1)
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = self.encoder(x, src_key_padding_mask=ids == 0)
        x = (x * is_word).sum(1) / is_word.sum(1).clamp(min=1)
        return F.normalize(self.project(x), dim=-1)


@sound({}, {"samples": 32}, {"samples": 8, "time": 8})
def sentences_by_negatives_of_the_batch(samples: int = 16, time: int = 10) -> Iterator[Monitor]:
    """Sentence embeddings by MultipleNegativesRankingLoss with a scale of 20."""
    model: Any = Encoder(60, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        first = padded(torch.randint(1, 60, (samples, time)), shortest=5)
        second = first.where(torch.rand(first.shape) > 0.2, 0)
        second[:, 0] = first[:, 0]
        scores = 20 * model(first) @ model(second).T
        loss = F.cross_entropy(scores, torch.arange(samples))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield model.monitor


class CLIP(nn.Module):
    """Pictures and texts in one space, with a temperature that is learnt."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.picture = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, width, bias=False),
        )
        self.text = Encoder(40, width)
        self.logit_scale = nn.Parameter(torch.tensor(1 / 0.07).log())

    def forward(self, pictures: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of pictures for texts, and of texts for pictures."""
        of_pictures = F.normalize(self.picture(pictures), dim=-1)
        logits = self.logit_scale.exp() * of_pictures @ self.text(ids).t()
        return logits, logits.t()


@sound({}, {"samples": 32})
def clip(samples: int = 24) -> Iterator[Monitor]:
    """CLIP's loss of pictures that show what texts say."""
    model: Any = CLIP(32)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1
    )
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    looks = torch.randn(40, 3)
    for step in range(120):
        ids = torch.randint(1, 40, (samples, 4))
        colors = looks[ids].mean(1)[:, :, None, None]
        pictures = colors + 0.3 * torch.randn(samples, 3, 12, 12)
        of_pictures, of_texts = model(pictures, ids)
        labels = torch.arange(samples)
        loss = (F.cross_entropy(of_pictures, labels) + F.cross_entropy(of_texts, labels)) / 2
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, 4.6052)
        yield model.monitor


def embedder(inputs: int, width: int) -> nn.Sequential:
    """Layers between inputs and an embedding."""
    return nn.Sequential(
        nn.Linear(inputs, 64),
        nn.PReLU(),
        nn.Dropout(0.1),
        nn.Linear(64, 64),
        nn.PReLU(),
        nn.Linear(64, width),
    )


@sound({}, {"of": "cosine"}, {"of": "contrastive"}, {"samples": 8, "width": 8})
def triples(of: str = "triplet", samples: int = 32, width: int = 16) -> Iterator[Monitor]:
    """A Siamese network: anchors, what is of their class, and what is not, with a margin."""
    model: Any = embedder(20, width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    centres = torch.randn(10, 20)
    for step in range(200):
        own = torch.randint(10, (samples,))
        other = (own + torch.randint(1, 10, (samples,))) % 10
        anchor, like, unlike = (
            model(centres[of] + torch.randn(samples, 20)) for of in (own, own, other)
        )
        if of == "triplet":
            loss = F.triplet_margin_loss(anchor, like, unlike, margin=1.0)
        elif of == "cosine":
            signs = torch.cat([torch.ones(samples), -torch.ones(samples)])
            pairs = torch.cat([anchor, anchor]), torch.cat([like, unlike])
            loss = F.cosine_embedding_loss(*pairs, signs, margin=0.3)
        else:
            near, far = (F.pairwise_distance(anchor, x) for x in (like, unlike))
            loss = (near.square() + F.relu(1.0 - far).square()).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Factors(nn.Module):
    """Users and items as vectors whose product is a rating, with biases of both.

    Of ranks a user's own bias is no part: it is the same of all items.
    """

    def __init__(self, users: int, items: int, width: int, *, ranks: bool) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.item_bias = nn.Embedding(items, 1)
        self.user_bias = None if ranks else nn.Embedding(users, 1)
        self.mean = None if ranks else nn.Parameter(torch.zeros(1))
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.05)
        for table in (self.user_bias, self.item_bias):
            if table is not None:
                nn.init.zeros_(table.weight)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Ratings of (samples,)."""
        score = (self.user(users) * self.item(items)).sum(1) + self.item_bias(items).squeeze(1)
        if self.user_bias is None or self.mean is None:
            return score
        return score + self.user_bias(users).squeeze(1) + self.mean


@sound({}, {"of": "bpr"}, {"samples": 16, "width": 16})
def matrix_factorization(
    of: str = "rating", samples: int = 128, width: int = 8
) -> Iterator[Monitor]:
    """Ratings by factors and biases; or BPR, by which what was bought is above what was not."""
    model: Any = Factors(50, 60, width, ranks=of == "bpr")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-5)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    taste, kind = torch.randn(50, 3), torch.randn(60, 3)
    for step in range(250):
        user, item = torch.randint(50, (samples,)), torch.randint(60, (samples,))
        true = (taste[user] * kind[item]).sum(1)
        if of == "rating":
            loss = F.mse_loss(model(user, item), 3.5 + true)
        else:
            other = torch.randint(60, (samples,))
            sign = (true - (taste[user] * kind[other]).sum(1)).sign()
            loss = -F.logsigmoid(sign * (model(user, item) - model(user, other))).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class DeepFM(nn.Module):
    """A factorization machine and layers over the same embeddings of fields."""

    def __init__(self, fields: int, values: int, width: int) -> None:
        super().__init__()
        self.linear = nn.Embedding(fields * values, 1)
        self.embedding = nn.Embedding(fields * values, width)
        nn.init.xavier_uniform_(self.embedding.weight)
        self.bias = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(
            nn.Linear(fields * width, 32),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(32, 16),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(16, 1),
        )
        self.register_buffer("offsets", values * torch.arange(fields))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (samples,)."""
        x = x + self.get_buffer("offsets")
        v = self.embedding(x)
        pairs = (v.sum(1).square() - v.square().sum(1)).sum(1, keepdim=True) / 2
        return (self.linear(x).sum(1) + self.bias + pairs + self.mlp(v.flatten(1))).squeeze(1)


@sound({}, {"samples": 8, "fields": 8, "width": 8})
def clicks_by_deepfm(samples: int = 128, fields: int = 6, width: int = 8) -> Iterator[Monitor]:
    """Clicks by DeepFM as in pytorch-fm: Adam with a small decay, a binary loss."""
    model: Any = DeepFM(fields, 10, width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    table = torch.randn(10, 10)
    for step in range(250):
        x = torch.randint(10, (samples, fields))
        clicked = (table[x[:, 0], x[:, 1]] + 0.5 * torch.randn(samples) > 0).float()
        loss = F.binary_cross_entropy_with_logits(model(x), clicked)
        model.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Towers(nn.Module):
    """Users by what they saw and items by what they are, each through layers of its own."""

    def __init__(self, users: int, items: int, width: int) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.kind = nn.Embedding(4, width)
        self.of_user = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 16))
        self.of_item = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, user: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of both."""
        both = torch.cat([self.item(item), self.kind(item % 4)], 1)
        return self.of_user(self.user(user)), self.of_item(both)


@sound({}, {"samples": 16})
def two_towers(samples: int = 64) -> Iterator[Monitor]:
    """Items that were seen, told from others of the batch, by Adagrad as TensorFlow begins it."""
    model: Any = Towers(50, 40, 16)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1, initial_accumulator_value=0.1)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(200):
        user = torch.randint(50, (samples,))
        item = (user + torch.randint(3, (samples,))) % 40
        of_user, of_item = model(user, item)
        scores = of_user @ of_item.T
        is_same = (item[:, None] == item[None]) & ~torch.eye(samples, dtype=torch.bool)
        loss = F.cross_entropy(scores.masked_fill(is_same, -1e9), torch.arange(samples))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor
