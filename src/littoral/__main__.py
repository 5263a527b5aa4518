"""``python -m littoral`` is the ``littoral`` command."""

from littoral.cli import main

main()
