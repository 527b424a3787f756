#include "replay/original/kept_results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "replay/base/errors.h"

namespace msda::replay {
namespace {

// Returns -1 and sets errno if it cannot be made.
int open_without_name(const std::string& folder) {
  std::string name = folder + "/msda-replay-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file >= 0) ::unlink(name.c_str());
  return file;
}

}  // namespace

KeptResults::KeptResults(const std::string& folder, uint64_t most) : size_(most) {
  const auto refuse = [&](int error) {
    throw BadInput(fmt::format("--poison-folder {}: cannot keep {:.3g} GiB there: {}; name a folder on a larger disk",
                               folder, static_cast<double>(most) / 0x1p30, std::strerror(error)));
  };
  if (most == 0) return;
  const int fd = open_without_name(folder);
  if (fd < 0) refuse(errno);
  // Reserved, so that the disk cannot be found full at a write into the mapping, which would end the process.
  int error = ::posix_fallocate(fd, 0, static_cast<off_t>(most));
  void* const mapped = error == 0 ? ::mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (error == 0 && mapped == MAP_FAILED) error = errno;
  ::close(fd);
  if (error != 0) refuse(error);
  file_ = static_cast<std::byte*>(mapped);
}

KeptResults::KeptResults(KeptResults&& source) noexcept
    : in_memory_(std::move(source.in_memory_)),
      file_(std::exchange(source.file_, nullptr)),
      size_(std::exchange(source.size_, 0)),
      used_(std::exchange(source.used_, 0)) {}

KeptResults::~KeptResults() {
  if (file_ != nullptr) ::munmap(file_, size_);
}

std::span<const std::byte> KeptResults::keep(std::vector<std::byte> bytes) {
  if (file_ == nullptr) return in_memory_.emplace_back(std::move(bytes));
  if (bytes.size() > size_ - used_) throw std::logic_error("more results than there is room for");
  std::byte* const at = file_ + used_;
  std::memcpy(at, bytes.data(), bytes.size());
  used_ += bytes.size();
  return {at, bytes.size()};
}

}  // namespace msda::replay
