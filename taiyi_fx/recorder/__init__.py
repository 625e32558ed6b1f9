"""The flight recorder: the last steps of every site, and the bad step run again."""
