"""Models, data and losses of authors' own, sound as they are, which sets of faults share."""
