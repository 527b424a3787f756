"""The list of contents of a capture (docs/capture-format.md): every object with its type, shape, digest and attributes."""

import re

import h5py
import numpy as np

from .digest import digest

NAME = "contents"
_SPECIAL = re.compile(rb"[\x00-\x20\x7F%=]")


def _encoded(name):
    """Returns a name or a type without spaces, line ends and equals signs."""
    data = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    return _SPECIAL.sub(lambda special: b"%%%02X" % ord(special[0]), data)


def _atomic_fields(type_):
    numbers = (type_.get_size(), type_.get_order(), type_.get_precision(), type_.get_offset(), *type_.get_pad())
    return ",".join(map(str, map(int, numbers)))


def _type_text(type_):
    kind = type_.get_class()
    if kind == h5py.h5t.INTEGER:
        return f"integer({_atomic_fields(type_)},{int(type_.get_sign())})"
    if kind == h5py.h5t.FLOAT:
        numbers = (*type_.get_fields(), type_.get_ebias(), type_.get_norm(), type_.get_inpad())
        return f"float({_atomic_fields(type_)},{','.join(map(str, map(int, numbers)))})"
    if kind == h5py.h5t.STRING:
        size = "variable" if type_.is_variable_str() else type_.get_size()
        return f"string({size},{int(type_.get_strpad())},{int(type_.get_cset())})"
    if kind == h5py.h5t.ENUM:
        members = "".join(f",{type_.get_member_name(i).decode()}:{type_.get_member_value(i)}" for i in range(type_.get_nmembers()))
        return f"enum({type_.get_size()},{_type_text(type_.get_super())}{members})"
    if kind == h5py.h5t.COMPOUND:
        members = "".join(
            f",{type_.get_member_name(i).decode()}@{type_.get_member_offset(i)}:{_type_text(type_.get_member_type(i))}"
            for i in range(type_.get_nmembers()))
        return f"compound({type_.get_size()}{members})"
    return f"class{int(kind)}({type_.get_size()})"


def _shape_text(space):
    kind = space.get_simple_extent_type()
    if kind == h5py.h5s.SCALAR:
        return "scalar"
    return "null" if kind == h5py.h5s.NULL else "x".join(map(str, space.get_simple_extent_dims()))


def _value_bytes(attribute):
    """Returns the bytes as stored in the file; variable-length texts each followed by a zero byte."""
    value = np.empty(attribute.shape, attribute.dtype)
    attribute.read(value)
    if value.dtype != object:
        return value.tobytes()
    texts = [text if isinstance(text, bytes) else (text or "").encode() for text in value.reshape(-1)]
    return b"".join(text + b"\0" for text in texts)


def _attribute_digest(attribute):
    type_ = attribute.get_type()
    head = f"{_type_text(type_)} {_shape_text(attribute.get_space())}\n".encode()
    return digest(head + _value_bytes(attribute)).split(":")[1][:16]


def _line(path, item):
    kind, type_, shape = "group", "-", "-"
    if isinstance(item, h5py.Dataset):
        kind, type_, shape = "dataset", _type_text(item.id.get_type()), _shape_text(item.id.get_space())
    names = sorted(name.encode("utf-8", "surrogateescape") for name in item.attrs if (path, name) != ("/", NAME))
    attributes = [_encoded(name) + b"=" + _attribute_digest(h5py.h5a.open(item.id, name)).encode() for name in names]
    data = item.attrs.get("digest", "-") if kind == "dataset" else "-"
    return b" ".join([_encoded(path), kind.encode(), _encoded(type_), shape.encode(), _encoded(data), *attributes])


def text_of(file):
    """Returns the list for an open file, as bytes."""
    objects = {b"/": file["/"], **{path.encode("utf-8", "surrogateescape"): item for path, item in _below("", file)}}
    lines = [_line(path.decode("utf-8", "surrogateescape"), objects[path]) for path in sorted(objects) if path != b"/" + NAME.encode()]
    return b"\n".join([b"msda-contents 1", *lines, b""])


def _below(path, group):
    """All paths, where visititems() has one for each object, which may have several."""
    for name, item in group.items():
        yield f"{path}/{name}", item
        if isinstance(item, h5py.Group):
            yield from _below(f"{path}/{name}", item)


def write(file):
    """Adds the list to a complete file."""
    data = np.frombuffer(text_of(file), np.uint8)
    dataset = file.create_dataset(NAME, data=data)
    dataset.attrs["digest"] = file.attrs[NAME] = digest(data)
    dataset.dims[0].label = "byte"
