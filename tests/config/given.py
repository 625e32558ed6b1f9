"""A small model, and what a configuration of it comes to."""

import pytest
from torch import nn

import taiyi_fx
from taiyi_fx.config.check import check


class Blok(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        self.free = nn.BatchNorm2d(2, affine=False, track_running_stats=False)

    def forward(self, x):
        return self.free(self.bn(self.conv1(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1, self.layer2 = nn.Sequential(Blok(), Blok()), nn.Sequential(Blok())
        self.fc = nn.Linear(2, 2)
        self.alias = self.fc


def matched(key, model=None, quantity="InputSndNorm"):
    config = check(model or Net(), {key: [quantity]})
    return [subscription.module for subscription in config.subscriptions]


def problems(cfg, model=None):
    with pytest.raises(taiyi_fx.ConfigError) as error:
        check(model or Net(), cfg)
    return error.value.problems
