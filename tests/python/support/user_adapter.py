"""The example of docs/user-adapters.md."""

import json
import re

from conftest import SOURCE

# The example of the documentation is the adapter of the stand-in's kernel.
EXAMPLE = json.loads(re.search(r"```json\n(.*?)```", (SOURCE / "docs" / "user-adapters.md").read_text(), re.S)[1])
