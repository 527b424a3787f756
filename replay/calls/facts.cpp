#include "replay/calls/facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "replay/base/errors.h"

namespace msda::replay {

std::string text_of(const capture::Invocation& invocation, const char* name) {
  const auto found = invocation.facts.texts.find(name);
  if (found != invocation.facts.texts.end()) return found->second;
  const auto real = invocation.facts.reals.find(name);
  return real == invocation.facts.reals.end() ? "" : tensors::fact_text(real->second);
}

std::optional<int64_t> integer_of(const capture::Invocation& invocation, const char* name) {
  const auto found = invocation.facts.integers.find(name);
  return found == invocation.facts.integers.end() ? std::nullopt : std::optional(found->second);
}

int64_t integer_in(const capture::Invocation& invocation, const char* name, int64_t low, int64_t high,
                   const std::string& where) {
  const auto found = integer_of(invocation, name);
  if (!found) throw BadInput(fmt::format("{} has no attribute {}", where, name));
  if (*found < low || *found > high) {
    throw BadInput(fmt::format("{}: {} is {}; it must be from {} to {}", where, name, *found, low, high));
  }
  return *found;
}

bool flag_of(const capture::Invocation& invocation, const char* name, const std::string& where) {
  const auto flag = invocation.facts.flags.find(name);
  if (flag != invocation.facts.flags.end()) return flag->second;
  const auto found = integer_of(invocation, name);
  if (!found || (*found != 0 && *found != 1)) throw BadInput(fmt::format("{} has no {} of 0 or 1", where, name));
  return *found == 1;
}

bool flag_of(const capture::Invocation& invocation, const char* name, bool otherwise, const std::string& where) {
  const bool is_there = invocation.facts.flags.contains(name) || integer_of(invocation, name);
  return is_there ? flag_of(invocation, name, where) : otherwise;
}

void check_result(const analysis::Index& shape, const char* name, const std::string& where) {
  // In float64, several times over; of no channels, numbers of its places.
  const long double memory = static_cast<long double>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 4;
  long double bytes = sizeof(double);
  for (const int64_t size : shape) bytes *= static_cast<long double>(std::max<int64_t>(size, 1));
  if (bytes <= memory) return;
  throw BadInput(fmt::format("{}: {} has shape {}, too large for this machine's memory", where, name, shape));
}

void check_tensor(const analysis::Tensor& tensor, const analysis::Index& shape, const char* name,
                  const std::string& where) {
  if (tensor.shape != shape) {
    throw BadInput(fmt::format("{}: {} has shape {}, not {}", where, name, tensor.shape, shape));
  }
  if (tensor.dtype == MSDA_INT32 || tensor.dtype == MSDA_INT64) {
    throw BadInput(
        fmt::format("{}: {} has type {}, and no floating-point one", where, name, msda_dtype_name(tensor.dtype)));
  }
}

}  // namespace msda::replay
