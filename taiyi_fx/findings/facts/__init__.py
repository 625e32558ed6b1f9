"""All that is known of a training: its numbers, and facts that no number tells."""
