"""Builds the wheel and checks that it holds the one name `taiyi_fx`, complete and typed."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "taiyi_fx" / "pictures" / "report" / "static"


def main() -> None:
    # What an earlier build has left would be in the wheel: files that are no longer there.
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
        subprocess.run([*build, str(ROOT)], check=True, stdout=subprocess.DEVNULL)
        (wheel,) = Path(folder).glob("*.whl")
        names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"taiyi_fx"}, tops
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "taiyi_fx").rglob("*.py")}
    assert sources == {name for name in names if name.endswith(".py")}, sources
    assert "taiyi_fx/py.typed" in names
    page = {str(path.relative_to(ROOT)) for path in PAGE.rglob("*") if path.is_file()}
    suffixes = {Path(name).suffix for name in page}
    assert suffixes >= {".html", ".css", ".js"}, suffixes
    assert any("vendor/LICENSE" in name for name in page), page
    assert page <= set(names), page - set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    print(
        f"wheel holds {len(sources)} modules of taiyi_fx, {len(page)} files of its page, and nothing else"
    )


if __name__ == "__main__":
    main()
