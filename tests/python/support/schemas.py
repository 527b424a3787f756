"""What commands print with --json follows the schemas in docs/."""

import functools
import json

import fastjsonschema
import jsonschema
from conftest import SOURCE

Mismatch = fastjsonschema.JsonSchemaValueException


@functools.cache
def _compiled(name):
    """As jsonschema interprets a schema, a long answer takes longer to check than the command takes to find it."""
    schema = json.loads((SOURCE / "docs" / f"{name}.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return fastjsonschema.compile(schema)


def check(result, name):
    """Raises Mismatch unless this is as docs/`name`.schema.json says."""
    _compiled(name)(result)
