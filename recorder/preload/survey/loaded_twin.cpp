#include "recorder/preload/survey/loaded_twin.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "recorder/device/cubin.h"
#include "recorder/preload/launch/functions.h"

namespace msda::record {
namespace {

// Launches that ask for more shared memory than every device gives by default need permission.
void allow_shared_memory(cuda::Function kernel, unsigned bytes) {
  constexpr unsigned kUnasked = 48 << 10;
  constexpr int kMostDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  int device = 0;
  const cuda::Driver& driver = cuda::driver();
  if (bytes <= kUnasked || driver.set_kernel_attribute == nullptr || driver.current_device(&device) != cuda::kSuccess ||
      driver.set_kernel_attribute(kMostDynamicShared, static_cast<int>(bytes), kernel, device) != cuda::kSuccess) {
  }  // then the twin's launch fails, which is reported
}

// Returns the twin whose operation replaces most additions. Sums are best: maxima hide all but one of the addends.
std::optional<Twin> best_twin(const Image& image, const std::string& kernel, const std::string& architecture) {
  auto sum = twin_of(image.bytes, kernel, architecture, TwinOperation::kAdd);
  if (sum && sum->without_twin.empty()) return sum;
  auto maximum = twin_of(image.bytes, kernel, architecture, TwinOperation::kMax);
  return maximum && (!sum || maximum->replaced > sum->replaced) ? std::move(maximum) : std::move(sum);
}

}  // namespace

LoadedTwin load_twin(const Image& image, const std::string& kernel, const std::string& architecture,
                     unsigned shared_bytes) {
  const auto twin = best_twin(image, kernel, architecture);
  return twin ? load_twin(*twin, kernel, shared_bytes) : LoadedTwin();
}

LoadedTwin load_twin(const Twin& twin, const std::string& kernel, unsigned shared_bytes) {
  LoadedTwin loaded;
  loaded.replaced = twin.replaced;
  loaded.left = twin.without_twin.size();
  const cuda::Driver& driver = cuda::driver();
  cuda::Library library = nullptr;
  cuda::Function function = nullptr;
  loaded.is_refused =
      driver.library_load(&library, twin.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) != cuda::kSuccess ||
      driver.library_kernel(&function, library, kernel.c_str()) != cuda::kSuccess;
  if (loaded.is_refused) return loaded;
  allow_shared_memory(function, shared_bytes);
  loaded.function = function;
  loaded.library = library;
  return loaded;
}

bool copy_values(const Image& image, cuda::Function function, const LoadedTwin& twin, cuda::Stream stream) {
  bool is_kernel = false;
  name_of_function(function, is_kernel);
  auto symbols = variables_in(image.bytes);
  const auto constants = constants_in(image.bytes);
  symbols.insert(symbols.end(), constants.begin(), constants.end());
  return std::ranges::all_of(symbols, [&](const Variable& symbol) {
    const std::string name(symbol.name);
    // A variable that the driver does not find by its name has the image's value, in the twin as well.
    const auto from = variable_of(function, is_kernel, name);
    if (!from) return true;
    VariablePlace to;
    const cuda::Driver& driver = cuda::driver();
    return driver.library_global != nullptr &&
           driver.library_global(&to.address, &to.bytes, twin.library, name.c_str()) == cuda::kSuccess &&
           to.bytes == from->bytes &&
           driver.copy_on_device(to.address, from->address, to.bytes, stream) == cuda::kSuccess;
  });
}

}  // namespace msda::record
