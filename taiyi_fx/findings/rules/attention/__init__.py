"""Rules of attention, and of routers and their experts."""
