// Results of many launches, kept until all are there to be compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace msda::replay {

// In memory; or in a file without a name, mapped into memory, which needs none: the system writes its pages out and
// reads them again.
class KeptResults {
 public:
  KeptResults() = default;
  // Reserves room for so many bytes on the folder's disk, which is free again when the process ends. Throws BadInput if
  // there is not so much.
  KeptResults(const std::string& folder, uint64_t most);
  ~KeptResults();
  KeptResults(KeptResults&& source) noexcept;
  KeptResults& operator=(KeptResults&&) = delete;

  // Valid as long as this is.
  std::span<const std::byte> keep(std::vector<std::byte> bytes);

 private:
  std::vector<std::vector<std::byte>> in_memory_;
  std::byte* file_ = nullptr;
  uint64_t size_ = 0, used_ = 0;
};

}  // namespace msda::replay
