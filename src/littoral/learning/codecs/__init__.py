from typing import Any

Codec = Any
