"""All that a random forward may do, by subject."""

from tests.random_programs.features import (
    attributes,
    containers,
    control,
    counters,
    functions,
    randomness,
    tensors,
)

SUBJECTS = (attributes, containers, control, counters, functions, randomness, tensors)
FEATURES = [feature for subject in SUBJECTS for feature in subject.FEATURES]
