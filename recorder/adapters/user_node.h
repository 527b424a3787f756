// A value of an adapter file, and its place there, which messages give as a JSON pointer.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/adapters/expression.h"
#include "recorder/adapters/user.h"

namespace msda::adapters {

using Json = nlohmann::json;

template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

inline bool is_identifier(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && name.size() <= 64 && is_letter(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// A value of the file, and its place there.
class Node {
 public:
  Node(const std::string& file, const Json& json, std::string pointer)
      : file_(&file), json_(&json), pointer_(std::move(pointer)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw BadAdapterFile(
        *file_ + ": " + (pointer_.empty() ? "the file" : pointer_) + " " + what +
        (pointer_.find("/operator") == std::string::npos ? "; docs/user-adapters.md" : "; docs/own-operators.md") +
        " describes the format");
  }

  // Checks that the object has no other keys.
  const Node& with_keys(std::initializer_list<std::string_view> keys) const {
    return with_keys(std::vector<std::string_view>(keys));
  }
  const Node& with_keys(const std::vector<std::string_view>& keys) const {
    if (!json_->is_object()) fail("is not an object");
    for (const auto& [key, value] : json_->items()) {
      if (std::ranges::find(keys, key) == keys.end()) {
        fail("has the unknown key \"" + key + "\"; there are " + listed(keys));
      }
    }
    return *this;
  }
  std::optional<Node> find(const char* key) const {
    const auto found = json_->find(key);
    if (found == json_->end()) return std::nullopt;
    return Node(*file_, *found, pointer_ + "/" + key);
  }
  Node at(const char* key) const {
    const auto found = find(key);
    if (!found) fail("has no \"" + std::string(key) + "\"");
    return *found;
  }
  std::vector<Node> list(size_t least, size_t most) const {
    if (!json_->is_array()) fail("is not a list");
    if (json_->size() < least || json_->size() > most) {
      fail("has " + std::to_string(json_->size()) + " elements, not " + std::to_string(least) + " to " +
           std::to_string(most));
    }
    std::vector<Node> nodes;
    for (size_t i = 0; i < json_->size(); ++i)
      nodes.emplace_back(*file_, (*json_)[i], pointer_ + "/" + std::to_string(i));
    return nodes;
  }
  // Returns the members of an object, with their names.
  std::vector<std::pair<std::string, Node>> members() const {
    if (!json_->is_object()) fail("is not an object");
    std::vector<std::pair<std::string, Node>> all;
    for (const auto& [key, value] : json_->items()) all.emplace_back(key, Node(*file_, value, pointer_ + "/" + key));
    return all;
  }
  const Json& json() const { return *json_; }
  const std::string& pointer() const { return pointer_; }
  const std::string& text() const {
    if (!json_->is_string()) fail("is not a text");
    return json_->get_ref<const std::string&>();
  }
  bool boolean() const {
    if (!json_->is_boolean()) fail("is not true or false");
    return json_->get<bool>();
  }
  uint64_t integer(int64_t least, int64_t most) const {
    // Compared in its own type: a number that does not fit must not be truncated to one that does.
    const bool fits = json_->is_number_unsigned() && json_->get<uint64_t>() <= static_cast<uint64_t>(most) &&
                      json_->get<uint64_t>() >= static_cast<uint64_t>(least);
    if (!fits) fail("is not an integer from " + std::to_string(least) + " to " + std::to_string(most));
    return json_->get<uint64_t>();
  }
  std::string identifier() const {
    if (!is_identifier(text())) fail("is not a name of up to 64 letters, digits and _, a letter first");
    return text();
  }
  // Returns an expression: a text, or a plain number.
  std::string expression() const {
    if (json_->is_number_unsigned()) return std::to_string(json_->get<uint64_t>());
    if (!json_->is_string()) fail("is neither an expression nor a number from 0 on");
    return text();
  }
  // Returns the table's entry with this name.
  template <class Table>
  const auto& one_of(const Table& table) const {
    std::vector<std::string> names;
    for (const auto& entry : table) {
      if (text() == entry.name) return entry;
      names.emplace_back(entry.name);
    }
    fail("is \"" + text() + "\"; there are " + listed(names));
  }
  // Returns the index in a list of words.
  template <class Words>
  size_t word_of(const Words& words) const {
    const auto found = std::ranges::find_if(words, [&](const char* word) { return text() == word; });
    if (found == std::end(words)) fail("is \"" + text() + "\"; there are " + listed(words));
    return static_cast<size_t>(found - std::begin(words));
  }
  template <class Work>
  auto reading_expression(Work work) const {
    try {
      return work();
    } catch (const BadExpression& e) {
      fail(std::string("is no expression: ") + e.what());
    }
  }

 private:
  const std::string* file_;
  const Json* json_;
  std::string pointer_;
};

}  // namespace msda::adapters
