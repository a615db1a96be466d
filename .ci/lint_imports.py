"""import-linter on the package as it is installed.

In a checkout tasks/, explainers/ and metrics/ stand beside slalom_bench/, where the linter, which reads folders and
imports nothing, would not see them: a copy of the sources is laid out as in a wheel and linted there.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Lint the imports; what `lint-imports` says and returns."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "slalom_bench"
        for source in ("slalom_bench", "tasks", "explainers", "metrics"):
            target = package if source == "slalom_bench" else package / source
            for file in (ROOT / source).rglob("*.py"):
                copy = target / file.relative_to(ROOT / source)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
        command = ["lint-imports", "--config", str(ROOT / ".importlinter"), "--no-cache", "--no-logo"]
        return subprocess.run(command, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
