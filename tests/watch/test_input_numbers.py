"""What is found in the inputs of one forward."""

import pytest
import torch

from taiyi_fx.watch.input_numbers import (
    distribution,
    furthest,
    interleaving,
    repeats,
    shown_tokens,
)


def table(rows=200, entries=6):
    return torch.randn(rows, entries, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("code", [-999.0, 1e4])
def test_an_entry_with_a_code_for_what_is_missing_is_the_furthest(code):
    x = table()
    x[::20, 4] = code
    found = furthest(x).read()
    others = x[x[:, 4] != code, 4].double()
    ends = others.amin() if code < 0 else others.amax()
    assert (found.entry, found.value, found.share) == (4, code, pytest.approx(0.05))
    distance = abs(float(ends) - code) / float(others.std(correction=0))
    assert found.distance == pytest.approx(distance)


@pytest.mark.parametrize(
    "x",
    [
        table(),
        (table() > 0).float(),
        torch.nn.functional.one_hot(torch.arange(200) % 6, 6).float(),
        table().clamp(min=-1),
        torch.zeros(200, 6),
        torch.where(table() > 1.5, -999.0, 1.0),
    ],
    ids=["drawn", "flags", "classes", "clamped", "zeros", "two values"],
)
def test_other_tables_have_none_that_is_far(x):
    found = furthest(x).read()
    assert found.distance < 5


def test_few_rows_and_images_are_no_tables():
    assert furthest(table(31)) is furthest(torch.randn(64, 3, 4, 4)) is None


def test_of_a_large_input_the_first_samples_are_looked_at():
    x = torch.cat([torch.zeros(1000, 1000), torch.ones(1000, 1000)])
    assert distribution(x).read() == (0, 0, torch.finfo(torch.float32).eps)


def copies(*values):
    return repeats(values).read()[:4]


def test_samples_are_different_by_one_bit():
    x = torch.randn(64, 3, 5, 5)
    assert copies(x) == (64, 64, 64, False)
    other = x.clone()
    other[:, 1, 2, 3] = torch.nextafter(x[:, 1, 2, 3], torch.tensor(torch.inf))
    assert copies(torch.cat([x, other])) == (128, 128, 128, False)
    assert copies(torch.cat([x, x])) == (128, 64, 128, True)
    assert copies(x.repeat_interleave(2, 0)) == (128, 64, 128, True)
    assert copies(x[torch.randperm(64) % 10]) == (64, 10, 64, False)


def test_the_same_samples_have_the_same_codes_in_other_batches():
    x, labels = torch.randn(64, 5), torch.arange(64)
    one, other = (repeats([x[at], labels[at]]).read() for at in (range(48), range(16, 64)))
    assert len(one.codes & other.codes) == 32
    assert len(one.codes & repeats([x[:48], labels[1:49]]).read().codes) == 0


def test_permuted_samples_are_others():
    x = torch.rand(1, 16)
    every = torch.cat([x[:, torch.randperm(16)] for _ in range(32)])
    assert copies(every)[1] == len(every.unique(dim=0))
    flags = (torch.rand(4096, 12) > 0.5).float()
    assert copies(flags)[1] == len(flags.unique(dim=0))


@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn),
        *(torch.complex64, torch.complex128, torch.bool, torch.int8),
    ],
)
def test_samples_of_any_type_are_told_apart(dtype):
    x = torch.randint(2, (32, 40)).to(dtype)
    assert copies(torch.cat([x, x]))[1] == 32


def test_samples_that_are_views_of_conjugates_are_told_apart():
    x = torch.randn(32, 5, dtype=torch.complex64)
    assert copies(torch.cat([x, x]).conj())[1] == copies(x.conj().imag)[1] == 32


def test_samples_of_codes_and_padding_are_not_continuous():
    x = torch.randn(32, 6)
    x[:10, 1:] = 0
    assert copies(x)[2] == 22
    assert copies(torch.randint(3, (32, 6)).float())[2] == 0
    assert copies(torch.randint(3, (32, 6)))[2] == 0


def test_few_or_very_many_samples_and_inputs_without_them_say_nothing():
    assert repeats([torch.randn(15, 4)]) is repeats([torch.randn(5000, 4)]) is None
    assert repeats([torch.randn(32, 4), torch.randn(2, 90)]) is None


def pictures(count=16, size=24):
    """Smooth ones, in colours that differ."""
    made = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 4, 4, generator=made)
    return torch.nn.functional.interpolate(coarse, size=(size, size), mode="bilinear")


def test_channels_that_came_last_are_told_by_their_neighbours():
    x = pictures()
    for y, is_torn in ((x, False), (x.permute(0, 2, 3, 1).reshape(x.shape), True)):
        one = interleaving(y).read()
        assert one.shape == (3, 24, 24)
        flat = y.double().flatten(1)
        expected = [float((flat[:, k:] - flat[:, :-k]).square().mean().sqrt()) for k in (1, 3)]
        assert [one.next, one.next_but_channels] == pytest.approx(expected, rel=1e-5)
        ends = [flat[:, i + 3] - flat[:, i] for c in (576, 1152) for i in range(c - 3, c)]
        across = float(torch.stack(ends).square().mean().sqrt())
        assert one.across == pytest.approx(across, rel=1e-5)
        assert (one.next_but_channels < one.next) == is_torn


@pytest.mark.parametrize(
    "shape", [(8, 1, 9, 9), (8, 100, 500), (8, 9, 30), (8, 64), (2, 3, 4, 5, 6)]
)
def test_others_have_no_order(shape):
    assert interleaving(torch.zeros(shape)) is None


TOKENS = torch.tensor([[5, 6, 7, 0], [8, 9, 0, 0]])


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32])
def test_a_mask_of_tokens_is_told_by_what_it_shows(dtype):
    mask = (TOKENS != 0).to(dtype)
    assert shown_tokens(TOKENS, mask).read() == (5, 3, None, False)
    assert shown_tokens(TOKENS, mask == 0).read() == (3, 5, 0, True)
    assert shown_tokens(TOKENS, torch.zeros_like(mask)).read() == (0, 8, None, True)
    assert shown_tokens(TOKENS, torch.ones_like(mask)).read() == (8, 0, None, False)


def test_other_masks_show_nothing_that_is_known():
    assert shown_tokens(TOKENS, torch.zeros(2, 1, 4, 4)) is None
    assert shown_tokens(TOKENS.float(), TOKENS) is None
    assert shown_tokens(TOKENS[:0], TOKENS[:0]) is None
    for mask in (TOKENS, torch.full((2, 4), -torch.inf), torch.full((2, 4), torch.nan)):
        assert shown_tokens(TOKENS, mask).read()[:2] == (0, 0)
