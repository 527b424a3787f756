#include "recorder/preload/session/asked_adapters.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "recorder/adapters/made_once.h"
#include "recorder/adapters/user.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/own_thread.h"
#include "recorder/preload/session/warn.h"

namespace msda::record {
namespace {

std::vector<const adapters::Adapter*> read_asked_adapters() {
  std::vector<const adapters::Adapter*> all;
  for (const std::string& path : config().adapters) {
    try {
      for (auto& adapter : adapters::read_user_adapters(path)) all.push_back(adapter.release());  // never deleted
    } catch (const adapters::BadAdapterFile& e) {
      warn(std::string(e.what()) + "; recording continues without this file");
    }
  }
  for (const auto& adapter : adapters::built_in()) all.push_back(adapter.get());
  return all;
}

}  // namespace

std::span<const adapters::Adapter* const> asked_adapters() noexcept {
  try {
    using Adapters = std::vector<const adapters::Adapter*>;
    static constinit MadeOnce<const Adapters> all;
    return all.get([] {
      Adapters read;  // files and definitions, which takes stack
      if (!on_enough_stack([&] { read = read_asked_adapters(); })) read = read_asked_adapters();
      return std::make_unique<const Adapters>(std::move(read));
    });
  } catch (...) {  // no memory
    return {};
  }
}

bool keeps_code_of(std::string_view function) noexcept {
  return config().watches_all() ||
         std::ranges::any_of(asked_adapters(), [&](const auto* adapter) { return adapter->matches(function); });
}

}  // namespace msda::record
