"""``python -m taiyi_fx`` is ``taiyi-fx``."""

from taiyi_fx.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
