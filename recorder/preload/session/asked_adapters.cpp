#include "recorder/preload/session/asked_adapters.h"

#include <algorithm>
#include <vector>

#include "recorder/adapters/user.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/warn.h"

namespace msda::record {
namespace {

std::vector<const adapters::Adapter*> read() {
  std::vector<const adapters::Adapter*> all;
  for (const std::string& path : config().adapters) {
    try {
      for (auto& adapter : adapters::read_user_adapters(path)) all.push_back(adapter.release());  // never deleted
    } catch (const adapters::BadAdapterFile& e) {
      warn(std::string(e.what()) + "; recording continues without this file");
    }
  }
  all.insert(all.end(), adapters::built_in().begin(), adapters::built_in().end());
  return all;
}

}  // namespace

std::span<const adapters::Adapter* const> asked_adapters() noexcept {
  try {
    // Never destroyed: the program may launch while it exits.
    static const auto* const kAll = new std::vector<const adapters::Adapter*>(read());
    return *kAll;
  } catch (...) {  // no memory
    return {};
  }
}

bool is_known_to_adapters(std::string_view function) noexcept {
  return std::ranges::any_of(asked_adapters(), [&](const auto* adapter) { return adapter->matches(function); });
}

}  // namespace msda::record
