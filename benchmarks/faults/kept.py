"""Keeps what was known of each training, so that changed rules are tried on it within seconds."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch
from urllib.parse import quote

from taiyi_fx.atomic_write import atomic_write
from taiyi_fx.findings import Evidence, Findings, find
from taiyi_fx.records.record import Records
from taiyi_fx.watch.diagnosis import Diagnosis


def findings_by(folder: Path, name: str, train: Callable[[], object]) -> list[Findings]:
    """What today's rules find at each look at a training.

    Only rules may change while a folder is kept: what is read of a training, and what is found by
    other means than rules, is as it was then.

    Args:
        folder: Holds the evidence of each training.
        name: The training's.
        train: Trains, and looks at `monitor.findings`; called where no evidence is kept.
    """
    file = folder / f"{quote(name, safe=' ()=,')}.pickle"
    if not file.exists():
        with _looking() as looks:
            train()
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as part:
            part.write_bytes(pickle.dumps(looks))
    looks = map(pickle.loads, pickle.loads(file.read_bytes()))
    return [find(Evidence(**vars(look))) for look in looks]  # with what it has learnt to hold since


@contextmanager
def _looking() -> Iterator[list[bytes]]:
    """The evidence of each look, as it was then: what it holds may change later."""
    looks: list[bytes] = []

    def of_records(diagnosis: Diagnosis, records: Records) -> Findings:
        known = diagnosis.with_all_known(Evidence.of_records(records, diagnosis.facts))
        looks.append(pickle.dumps(known))
        return find(known)

    with patch.object(Diagnosis, "of_records", of_records):
        yield looks
