#include "recorder/capture/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "recorder/capture/digest.h"
#include "recorder/capture/hdf5.h"

namespace msda::capture::hdf5 {
namespace {

// Far larger than any attribute of a capture; larger ones are not read.
constexpr int64_t kMostAttributeBytes = int64_t{64} << 20;
// Deeper than any group of a capture; a damaged link may lead back to a parent group.
constexpr int kMostDepth = 16;

std::string member_texts(hid_t type, bool is_enum) {
  std::string text;
  const int count = H5Tget_nmembers(type);
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<unsigned>(i);
    char* name = H5Tget_member_name(type, at);
    if (is_enum) {
      const Type base(H5Tget_super(type));
      std::byte value[64] = {};
      if (H5Tget_size(type) <= sizeof value) {
        H5Tget_member_value(type, at, value);
        H5Tconvert(base.get(), H5T_NATIVE_INT64, 1, value, nullptr, H5P_DEFAULT);
      }
      int64_t number = 0;
      std::memcpy(&number, value, sizeof number);
      text += fmt::format(",{}:{}", name != nullptr ? name : "", number);
    } else {
      const Type member(H5Tget_member_type(type, at));
      text += fmt::format(",{}@{}:{}", name != nullptr ? name : "", H5Tget_member_offset(type, at),
                          type_text(member.get()));
    }
    H5free_memory(name);
  }
  return text;
}

std::string atomic_fields(hid_t type) {
  H5T_pad_t low = H5T_PAD_ZERO, high = H5T_PAD_ZERO;
  H5Tget_pad(type, &low, &high);
  return fmt::format("{},{},{},{},{},{}", H5Tget_size(type), static_cast<int>(H5Tget_order(type)),
                     H5Tget_precision(type), H5Tget_offset(type), static_cast<int>(low), static_cast<int>(high));
}

std::string shape_text(hid_t space) {
  const H5S_class_t kind = H5Sget_simple_extent_type(space);
  if (kind == H5S_SCALAR) return "scalar";
  if (kind == H5S_NULL) return "null";
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> sizes(static_cast<size_t>(rank > 0 ? rank : 0));
  H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  return fmt::format("{}", fmt::join(sizes, "x"));
}

// Appends an attribute's value as stored in the file; variable-length texts each followed by a zero byte.
bool add_value(std::string& bytes, hid_t attribute, hid_t type, int64_t count) {
  const auto size = static_cast<int64_t>(H5Tget_size(type));
  if (count < 0 || size <= 0 || count > kMostAttributeBytes / size) return false;
  if (count == 0) return true;
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> texts(static_cast<size_t>(count), nullptr);
    const bool read = H5Aread(attribute, type, texts.data()) >= 0;
    for (char* text : texts) {
      bytes += text != nullptr ? text : "";
      bytes += '\0';
      H5free_memory(text);
    }
    return read;
  }
  if (H5Tdetect_class(type, H5T_VLEN) != 0 || H5Tdetect_class(type, H5T_REFERENCE) != 0) return true;  // not ours
  const size_t head = bytes.size();
  bytes.resize(head + static_cast<size_t>(count * size));
  return H5Aread(attribute, type, bytes.data() + head) >= 0;
}

struct AttributeEntry {
  std::string digest;               // empty if it cannot be read
  std::optional<std::string> text;  // of one that is one text
};

// Keeps half of the digest's digits: the list is long, and it must reveal accidents, not forgery.
AttributeEntry describe_attribute(hid_t object, const std::string& name) {
  const Attribute attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
  const Type type(H5Aget_type(attribute.get()));
  const Space space(H5Aget_space(attribute.get()));
  if (!attribute.valid() || !type.valid() || !space.valid() || !is_sound(type.get())) return {};
  std::string bytes = fmt::format("{} {}\n", type_text(type.get()), shape_text(space.get()));
  const size_t head = bytes.size();
  const int64_t count = H5Sget_simple_extent_npoints(space.get());
  if (!add_value(bytes, attribute.get(), type.get(), count)) return {};
  const std::string whole = digest(std::as_bytes(std::span(bytes)));
  AttributeEntry entry{whole.substr(whole.find(':') + 1, 16), {}};
  if (count == 1 && H5Tis_variable_str(type.get()) > 0) entry.text = bytes.c_str() + head;
  return entry;
}

void add_attributes(hid_t object, bool is_root, ContentEntry& entry) {
  std::vector<std::string> names;
  if (!list_attributes(object, names)) {
    entry.unreadable = fmt::format("has attributes that cannot be read: {}", last_error());
    return;
  }
  for (const std::string& name : names) {
    if (is_root && name == kContents) continue;
    AttributeEntry attribute = describe_attribute(object, name);
    if (attribute.digest.empty()) entry.unreadable = fmt::format("has an attribute {} that cannot be read", name);
    entry.attributes[name] = std::move(attribute.digest);
    if (name == "digest" && entry.kind == "dataset" && attribute.text) entry.digest = *std::move(attribute.text);
  }
}

void add_dataset(hid_t dataset, ContentEntry& entry) {
  entry.kind = "dataset";
  const Type type(H5Dget_type(dataset));
  const Space space(H5Dget_space(dataset));
  entry.type = type_text(type.get());
  entry.shape = shape_text(space.get());
}

constexpr std::string_view kInvocations = "/invocations";

// Visits a file's objects.
struct Description {
  const HeaderCheck* headers;
  Share& share;
  const VisitObject& visit;

  void add(hid_t parent, const char* name, const std::string& path, int depth) {
    ContentEntry entry{"other", "-", "-", "-", {}};
    const Object object(H5Oopen(parent, name, H5P_DEFAULT));
    if (!object.valid()) {
      entry.unreadable = fmt::format("cannot be opened: {}", last_error());
      return report(path, H5I_INVALID_HID, std::move(entry));
    }
    const H5I_type_t kind = H5Iget_type(object.get());
    if (kind == H5I_DATASET) add_dataset(object.get(), entry);
    const auto broken = headers != nullptr ? headers->broken_attribute(object.get()) : std::nullopt;
    if (broken) {
      entry.unreadable = fmt::format("has an attribute {} that cannot be read: {}", *broken, kBrokenAttribute);
    } else {
      add_attributes(object.get(), depth == 0, entry);
    }
    const auto links = kind == H5I_GROUP ? links_of(object.get(), depth, entry) : std::vector<Link>();
    report(path, object.get(), std::move(entry));
    add_members(object.get(), path, links, depth);
  }

  void report(const std::string& path, hid_t object, ContentEntry&& entry) const {
    if (share.has(path)) visit(path, object, std::move(entry));
  }

  static std::vector<Link> links_of(hid_t group, int depth, ContentEntry& entry) {
    entry.kind = "group";
    std::vector<Link> links;
    if (depth > kMostDepth) {
      entry.unreadable = "is nested too deep";
    } else if (!list_links(group, links)) {
      entry.unreadable = fmt::format("cannot be listed: {}", last_error());
    }
    return links;
  }

  void add_members(hid_t group, const std::string& path, const std::vector<Link>& links, int depth) {
    const bool divided = path == kInvocations;
    if (divided) divide(links);
    for (const auto& [link, is_hard] : links) {
      if (depth == 0 && link == kContents) continue;
      const std::string child = (depth == 0 ? "/" : path + "/") + link;
      if (!share.has(child) && child != kInvocations) continue;
      if (is_hard) {
        add(group, link.c_str(), child, depth + 1);
      } else {
        report(child, H5I_INVALID_HID, {"link", "-", "-", "-", {}});
      }
    }
  }

  void divide(const std::vector<Link>& links) {
    const auto bound = [&](size_t part) { return links[links.size() * part / share.parts].name; };
    if (links.empty()) return;
    if (share.part > 0) share.begin = bound(share.part);
    share.end.reset();
    if (share.part + 1 < share.parts) share.end = bound(share.part + 1);
  }
};

}  // namespace

std::string type_text(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_INTEGER) {
    return fmt::format("integer({},{})", atomic_fields(type), static_cast<int>(H5Tget_sign(type)));
  }
  if (kind == H5T_FLOAT) {
    size_t sign = 0, exponent_at = 0, exponent = 0, mantissa_at = 0, mantissa = 0;
    H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa);
    return fmt::format("float({},{},{},{},{},{},{},{},{})", atomic_fields(type), sign, exponent_at, exponent,
                       mantissa_at, mantissa, H5Tget_ebias(type), static_cast<int>(H5Tget_norm(type)),
                       static_cast<int>(H5Tget_inpad(type)));
  }
  if (kind == H5T_STRING) {
    return fmt::format("string({},{},{})",
                       H5Tis_variable_str(type) > 0 ? "variable" : std::to_string(H5Tget_size(type)),
                       static_cast<int>(H5Tget_strpad(type)), static_cast<int>(H5Tget_cset(type)));
  }
  if (kind == H5T_ENUM || kind == H5T_COMPOUND) {
    const bool is_enum = kind == H5T_ENUM;
    std::string text = fmt::format("{}({}", is_enum ? "enum" : "compound", H5Tget_size(type));
    if (is_enum) text += "," + type_text(Type(H5Tget_super(type)).get());
    return text + member_texts(type, is_enum) + ")";
  }
  return fmt::format("class{}({})", static_cast<int>(kind), H5Tget_size(type));
}

bool Share::has(std::string_view path) const {
  if (!path.starts_with(kInvocations) || path.size() <= kInvocations.size() || path[kInvocations.size()] != '/') {
    return part == 0;
  }
  path.remove_prefix(kInvocations.size() + 1);
  const std::string_view name = path.substr(0, path.find('/'));
  return (!begin || *begin <= name) && (!end || name < *end);
}

void describe(hid_t file, const HeaderCheck* headers, Share& share, const VisitObject& visit) {
  if (share.part > 0) share.begin = share.end = "";  // of a file without invocations, nothing
  Description description{headers, share, visit};
  description.add(file, "/", "/", 0);
}

}  // namespace msda::capture::hdf5
