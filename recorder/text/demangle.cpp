#include "recorder/text/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace msda::text {

std::string demangled(const std::string& name) {
  constexpr size_t kLongest = 1 << 14;  // libstdc++ takes long for some longer ones
  if (name.size() > kLongest) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

}  // namespace msda::text
