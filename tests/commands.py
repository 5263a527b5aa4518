"""The command line in this process: as ``littoral`` in a shell, without the seconds that a new Python takes."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess

import pytest

from littoral import cli


def here(*words: object, check: bool = True) -> CompletedProcess[str]:
    """Run a command; what it printed and its exit code, which must be 0 unless ``check`` is off."""
    command, out, err, code = ["littoral", *map(str, words)], io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", command)
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    assert not check or code == 0, err.getvalue()
    return CompletedProcess(command, code, out.getvalue(), err.getvalue())
