#include "recorder/preload/session/frame_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "recorder/preload/session/warn.h"
#include "recorder/spool/output.h"
#include "recorder/spool/session_file.h"

namespace msda::record {

std::string FrameStream::open() {
  const std::string wanted = output_of(config_.output);
  folder_ = wanted.substr(0, wanted.rfind('/') + 1);
  for (int attempt = 0; attempt < 100; ++attempt) {
    output_ = spool::output_name(wanted, getpid(), attempt);
    if (access(output_.c_str(), F_OK) == 0 && !may_replace(output_)) continue;
    spool_path_ = output_ + ".spool";
    const int error = spool_.open(spool_path_);
    if (error == EEXIST) continue;
    if (error != 0) return spool_path_ + ": cannot create it: " + std::strerror(error) + "; nothing is recorded";
    if (attempt > 0 && output_ != config_.announced_output) warn(wanted + " exists; recording into " + output_);
    if (config_.max_bytes == 0) least_free_ = spool::default_limit(folder_).value_or(0);
    return "";
  }
  return wanted + " exists, and a hundred other names too; nothing is recorded";
}

// Returns true for what an earlier run made, with --force; the captures of this run are all kept.
bool FrameStream::may_replace(const std::string& output) const {
  return config_.force && (config_.session.empty() || !spool::SessionFile::has_capture(config_.session, output));
}

bool FrameStream::has_room(uint64_t bytes) {
  constexpr uint64_t kLookEvery = 16 << 20;
  if (config_.max_bytes > 0 && bytes_ + bytes > config_.max_bytes) {
    end("MSDA_RECORD_MAX_BYTES is reached; recording ends here");
    return false;
  }
  if (least_free_ == 0 || since_look_.fetch_add(bytes) + bytes < kLookEvery) return true;
  since_look_ = 0;
  const auto free = spool::free_bytes(folder_);
  if (!free || *free >= least_free_ + bytes) return true;
  end("half of the disk space that was free when recording began is used; recording ends here (MSDA_RECORD_MAX_BYTES "
      "sets another limit)");
  return false;
}

std::string FrameStream::cannot_write() const {
  const int error = spool_.error() != 0 ? spool_.error() : ENOMEM;
  if (error == EBADF) return spool_path_ + ": the program closed it, and it is no longer there; recording ends here";
  if (error == EMFILE) {
    return spool_path_ +
           ": the program closed it, and has no descriptor left to open it with (ulimit -n); recording ends here";
  }
  return spool_path_ + ": cannot write it: " + std::strerror(error) + "; recording ends here";
}

void FrameStream::end(std::string why) {
  if (ended_.exchange(true)) return;
  const std::lock_guard lock(trouble_mutex_);
  trouble_ = std::move(why);
}

std::optional<std::string> FrameStream::take_trouble() {
  if (!ended_ || told_) return std::nullopt;
  const std::lock_guard lock(trouble_mutex_);
  if (trouble_.empty() || told_.exchange(true)) return std::nullopt;
  return trouble_;
}

void FrameStream::dropped(uint64_t bytes) {
  for (uint64_t counted = bytes_; !bytes_.compare_exchange_weak(counted, counted - std::min(counted, bytes));) {
  }
}

uint64_t FrameStream::append_begin(const CallFacts& facts, uint64_t invocation, uint32_t attempt) {
  return append(spool::Begin{facts, invocation, attempt, facts.grid, facts.block});
}

uint64_t FrameStream::append_end(uint64_t invocation, uint32_t attempt,
                                 const std::map<std::string, std::string>& digests) {
  const uint64_t bytes = digests.empty() ? 0 : append(spool::Digests{invocation, attempt, digests});
  return bytes + append(spool::End{invocation, attempt});
}

uint64_t FrameStream::append_tensors(uint64_t invocation, uint32_t attempt, const char* section,
                                     const std::vector<HostTensor>& tensors, const RingBlock* block) {
  uint64_t bytes = 0;
  for (const HostTensor& tensor : tensors) {
    spool::Tensor message{invocation, attempt, section, tensor};
    if (tensor.zeros) {
      message.zeros = true;
      bytes += append(message);
    } else if (block != nullptr && tensor.offset) {
      message.block = block->number();
      message.offset = *tensor.offset;
      message.bytes = tensor.bytes.size();
      bytes += append_sized(message, {}, tensor.bytes.size());
    } else {
      bytes += append(message, tensor.bytes);
    }
  }
  return bytes;
}

}  // namespace msda::record
