#include "recorder/capture/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

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

// Reads the rest of a line, after its path.
ContentEntry entry_of(std::string_view line) {
  ContentEntry entry;
  for (std::string* field : {&entry.kind, &entry.type, &entry.shape, &entry.digest}) *field = decoded(cut(line, ' '));
  while (!line.empty()) {
    std::string_view attribute = cut(line, ' ');
    const std::string name = decoded(cut(attribute, '='));
    entry.attributes[name] = attribute;
  }
  return entry;
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

ListedContents::ListedContents(std::string text) : text_(std::move(text)) {
  std::string_view rest = text_;
  if (cut(rest, '\n') != kFirstLine) throw std::invalid_argument("no list of contents that this program reads");
  while (!rest.empty()) {
    std::string_view line = cut(rest, '\n');
    const std::string_view path = cut(line, ' ');
    lines_.push_back({path, line});
  }
  std::ranges::sort(lines_, {}, &Line::path);
}

void ListedContents::compare(const std::string& path, const ContentEntry& is, std::vector<Difference>& differences) {
  const auto differs = [&](const std::string& why) { differences.push_back({path, why}); };
  const std::string name = encoded(path);
  const auto line = std::ranges::lower_bound(lines_, std::string_view(name), {}, &Line::path);
  if (line == lines_.end() || line->path != name) return differs("was not written with the rest");
  line->found = true;
  if (!is.unreadable.empty()) return;  // reported without a list, too
  const ContentEntry was = entry_of(line->rest);
  if (is.kind != was.kind) differs(fmt::format("is a {}, it was written as a {}", is.kind, was.kind));
  if (is.type != was.type) differs(fmt::format("has another type than was written: {}, not {}", is.type, was.type));
  if (is.shape != was.shape) differs(fmt::format("has shape {}, it was written with {}", is.shape, was.shape));
  compare_attributes(was, is, differs);
}

void ListedContents::add_missing(const std::function<bool(std::string_view)>& concerns,
                                 std::vector<Difference>& differences) {
  for (const Line& line : lines_) {
    if (line.found) continue;
    if (const std::string path = decoded(line.path); concerns(path)) differences.push_back({path, "is missing"});
  }
}

}  // namespace msda::capture
