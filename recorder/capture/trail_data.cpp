#include "recorder/capture/trail_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <utility>

namespace msda::capture {
namespace {

[[noreturn]] void fail(const std::string& why) { throw std::invalid_argument(why); }

constexpr TrailDataset kDatasets[] = {
    {"kind", 1, true},          {"flags", 1, true},      {"stream", 2, true},   {"kernel", 4, true},
    {"configuration", 4, true}, {"parameters", 4, true}, {"caller", 4, true},   {"parts", 4, true},
    {"bytes", 8, true},         {"digest", 8, true},     {"names", 1},          {"parameter_bytes", 1},
    {"parameter_ends", 8},      {"changes_row", 8},      {"changes_offset", 4}, {"changes_word", 8}};

// Calls visit(name, pointer to member) for each field that has a dataset.
template <class Visit>
void for_each_field(const Visit& visit, const TrailRow*) {
  visit("kind", &TrailRow::kind);
  visit("flags", &TrailRow::flags);
  visit("stream", &TrailRow::stream);
  visit("kernel", &TrailRow::kernel);
  visit("configuration", &TrailRow::configuration);
  visit("parameters", &TrailRow::parameters);
  visit("caller", &TrailRow::caller);
  visit("parts", &TrailRow::parts);
  visit("bytes", &TrailRow::bytes);
  visit("digest", &TrailRow::digest);
}
template <class Visit>
void for_each_field(const Visit& visit, const Trail::Change*) {
  visit("changes_row", &Trail::Change::row);
  visit("changes_offset", &Trail::Change::offset);
  visit("changes_word", &Trail::Change::word);
}

template <class Record>
void split(const std::vector<Record>& records, TrailData& data) {
  const auto add = [&](const char* name, auto field) {
    constexpr size_t kSize = sizeof(std::declval<Record>().*field);
    std::vector<std::byte>& column = data.datasets[name];
    column.resize(records.size() * kSize);
    for (size_t i = 0; i < records.size(); ++i) std::memcpy(column.data() + i * kSize, &(records[i].*field), kSize);
  };
  for_each_field(add, static_cast<const Record*>(nullptr));
}

const std::vector<std::byte>& dataset_of(const TrailData& data, std::string_view name) {
  const auto found = data.datasets.find(name);
  if (found == data.datasets.end()) fail(fmt::format("{} is missing", name));
  return found->second;
}

template <class Record>
std::vector<Record> joined(const TrailData& data, const char* first, size_t bytes_of_first) {
  std::vector<Record> records(dataset_of(data, first).size() / bytes_of_first);
  const auto take = [&](const char* name, auto field) {
    constexpr size_t kSize = sizeof(std::declval<Record>().*field);
    const std::vector<std::byte>& column = dataset_of(data, name);
    if (column.size() != records.size() * kSize) {
      fail(fmt::format("{} has {} elements, {} has {}", name, column.size() / kSize, first, records.size()));
    }
    for (size_t i = 0; i < records.size(); ++i) std::memcpy(&(records[i].*field), column.data() + i * kSize, kSize);
  };
  for_each_field(take, static_cast<const Record*>(nullptr));
  return records;
}

std::vector<uint64_t> ends_of(const TrailData& data, size_t bytes) {
  const std::vector<std::byte>& stored = dataset_of(data, "parameter_ends");
  std::vector<uint64_t> ends(stored.size() / sizeof(uint64_t));
  if (!ends.empty()) std::memcpy(ends.data(), stored.data(), ends.size() * sizeof(uint64_t));
  if (!std::ranges::is_sorted(ends) || (ends.empty() ? 0 : ends.back()) != bytes) {
    fail(fmt::format("parameter_ends does not divide the {} bytes of parameter_bytes", bytes));
  }
  return ends;
}

void add_parameters(const TrailData& data, Trail& trail) {
  const std::vector<std::byte>& bytes = dataset_of(data, "parameter_bytes");
  auto begin = bytes.begin();
  for (const uint64_t end : ends_of(data, bytes.size())) {
    const auto next = bytes.begin() + static_cast<std::ptrdiff_t>(end);
    trail.parameters.emplace_back(begin, next);
    begin = next;
  }
}

void check_rows(const Trail& trail) {
  const auto check = [](size_t row, const char* what, uint32_t index, size_t count) {
    if (index == kNoEntry || index < count) return;
    fail(fmt::format("row {} has {} {}, and there are {}", row, what, index, count));
  };
  for (size_t i = 0; i < trail.rows.size(); ++i) {
    const TrailRow& row = trail.rows[i];
    if (row.kind >= TrailKind::kCount)
      fail(fmt::format("row {} is of no known kind, {}", i, static_cast<int>(row.kind)));
    check(i, "kernel", row.kernel, trail.kernels.size());
    check(i, "configuration", row.configuration, trail.configurations.size());
    check(i, "parameters", row.parameters, trail.parameters.size());
    check(i, "caller", row.caller, trail.callers.size());
    check(i, "parts", row.parts, trail.parts.size());
  }
}

void check_changes(const Trail& trail) {
  if (!std::ranges::is_sorted(trail.changes, {}, &Trail::Change::row)) fail("changes_row is not in the rows' order");
  for (const auto& [row, offset, word] : trail.changes) {
    if (row >= trail.rows.size()) fail(fmt::format("changes_row has row {} of {}", row, trail.rows.size()));
    const uint32_t parameters = trail.rows[row].parameters;
    const size_t bytes = parameters == kNoEntry ? 0 : trail.parameters[parameters].size();
    if (offset >= bytes) fail(fmt::format("changes_offset has {} in row {}, of {} bytes", offset, row, bytes));
  }
}

}  // namespace

std::span<const TrailDataset> trail_datasets() { return kDatasets; }

TrailData to_data(const Trail& trail) {
  TrailData data{trail.missing, {}};
  split(trail.rows, data);
  split(trail.changes, data);
  std::vector<std::byte>& bytes = data.datasets["parameter_bytes"];
  std::vector<uint64_t> ends;
  for (const auto& parameters : trail.parameters) {
    bytes.insert(bytes.end(), parameters.begin(), parameters.end());
    ends.push_back(bytes.size());
  }
  const auto stored = std::as_bytes(std::span(ends));
  data.datasets["parameter_ends"].assign(stored.begin(), stored.end());
  const std::string names = names_to_json(trail);
  const auto text = std::as_bytes(std::span(names));
  data.datasets["names"].assign(text.begin(), text.end());
  return data;
}

Trail to_trail(const TrailData& data) {
  Trail trail;
  if (data.missing < 0) fail(fmt::format("missing is {}", data.missing));
  trail.missing = data.missing;
  trail.rows = joined<TrailRow>(data, "kind", sizeof(TrailKind));
  trail.changes = joined<Trail::Change>(data, "changes_row", sizeof(uint64_t));
  const std::vector<std::byte>& names = dataset_of(data, "names");
  names_from_json({reinterpret_cast<const char*>(names.data()), names.size()}, trail);
  add_parameters(data, trail);
  check_rows(trail);
  check_changes(trail);
  return trail;
}

}  // namespace msda::capture
