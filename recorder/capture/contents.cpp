#include "recorder/capture/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>

namespace msda::capture {
namespace {

constexpr std::string_view kFirstLine = "msda-contents 1";

// Names may hold any byte but zero; in the list they hold no space, no line end and no '='.
std::string encoded(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte <= 0x20 || byte == 0x7f || c == '%' || c == '=') {
      text += fmt::format("%{:02X}", byte);
    } else {
      text += c;
    }
  }
  return text;
}

std::string decoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string name;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    const size_t high = i + 2 < text.size() ? kDigits.find(text[i + 1]) : std::string_view::npos;
    const size_t low = i + 2 < text.size() ? kDigits.find(text[i + 2]) : std::string_view::npos;
    if (high == std::string_view::npos || low == std::string_view::npos) throw std::invalid_argument("a bad escape");
    name += static_cast<char>(16 * high + low);
    i += 2;
  }
  return name;
}

// Removes and returns the part before `separator`, or the whole text.
std::string_view cut(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

void compare_attributes(const ContentEntry& was, const ContentEntry& is, const auto& differs) {
  for (const auto& [name, digest] : was.attributes) {
    const auto found = is.attributes.find(name);
    if (found == is.attributes.end()) {
      differs(fmt::format("has lost its attribute {}", name));
    } else if (found->second != digest) {
      differs(fmt::format("has another attribute {} than was written", name));
    }
  }
  for (const auto& [name, digest] : is.attributes) {
    if (!was.attributes.contains(name)) differs(fmt::format("has an attribute {} that was not written", name));
  }
}

}  // namespace

std::string to_text(const Contents& contents) {
  std::string text = fmt::format("{}\n", kFirstLine);
  for (const auto& [path, entry] : contents) {
    text += fmt::format("{} {} {} {} {}", encoded(path), entry.kind, encoded(entry.type), entry.shape,
                        encoded(entry.digest));
    for (const auto& [name, digest] : entry.attributes) text += fmt::format(" {}={}", encoded(name), digest);
    text += '\n';
  }
  return text;
}

Contents contents_from(std::string_view text) {
  if (cut(text, '\n') != kFirstLine) throw std::invalid_argument("no list of contents that this program reads");
  Contents contents;
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    const std::string path = decoded(cut(line, ' '));
    ContentEntry entry;
    for (std::string* field : {&entry.kind, &entry.type, &entry.shape, &entry.digest}) *field = decoded(cut(line, ' '));
    while (!line.empty()) {
      std::string_view attribute = cut(line, ' ');
      const std::string name = decoded(cut(attribute, '='));
      entry.attributes[name] = attribute;
    }
    contents[path] = std::move(entry);
  }
  return contents;
}

std::vector<Difference> compare(const Contents& listed, const Contents& found) {
  std::vector<Difference> differences;
  for (const auto& [path, was] : listed) {
    const auto differs = [&, &path = path](const std::string& why) { differences.push_back({path, why}); };
    const auto at = found.find(path);
    if (at == found.end()) {
      differs("is missing");
      continue;
    }
    const ContentEntry& is = at->second;
    if (!is.unreadable.empty()) continue;  // reported without a list, too
    if (is.kind != was.kind) differs(fmt::format("is a {}, it was written as a {}", is.kind, was.kind));
    if (is.type != was.type) differs(fmt::format("has another type than was written: {}, not {}", is.type, was.type));
    if (is.shape != was.shape) differs(fmt::format("has shape {}, it was written with {}", is.shape, was.shape));
    compare_attributes(was, is, differs);
  }
  for (const auto& [path, is] : found) {
    if (!listed.contains(path)) differences.push_back({path, "was not written with the rest"});
  }
  return differences;
}

}  // namespace msda::capture
