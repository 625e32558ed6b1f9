"""All that a random forward may do, by subject."""

from tests.random_programs.features import (
    attributes,
    classes,
    containers,
    control,
    counters,
    functions,
    randomness,
    tensors,
)

SUBJECTS = (attributes, classes, containers, control, counters, functions, randomness, tensors)
FEATURES = [feature for subject in SUBJECTS for feature in subject.FEATURES]
