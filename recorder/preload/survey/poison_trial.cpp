#include "recorder/preload/survey/poison_trial.h"

#include <algorithm>
#include <utility>

#include "recorder/preload/driver/poisoner.h"

namespace msda::record {
namespace {

constexpr uint64_t kBytesOfBits = sizeof(uint32_t);

bool succeeded(cuda::Result result) { return result == cuda::kSuccess; }

}  // namespace

void PoisonTrial::find_unwritten(Result& result) {
  for (const SettledPiece& piece : trial_.pieces()) {
    // Small variables may lie anywhere; only whole words are compared.
    if (piece.address % sizeof(uint32_t) != 0) continue;
    pieces_.push_back({piece.address, piece.before, piece.after, piece.flags, 0, 0, piece.bytes});
    auto words = unwritten_.words_of({piece.address, piece.bytes});
    if (!words) continue;
    result.unwritten += words->count;
    result.allocation_bytes += piece.bytes;
    poisoned_.push_back({pieces_.size() - 1, std::move(*words), (piece.bytes - 1) / kBytesOfUnwrittenRow + 1});
  }
}

bool PoisonTrial::reserve(CopySpace& space) {
  uint64_t end = 0;
  const auto take = [&](uint64_t bytes) { return std::exchange(end, end + aligned(bytes)); };
  for (const Piece& piece : poisoned_) {
    pieces_[piece.number].bits = take(kBytesOfBits * piece.rows);
    pieces_[piece.number].left = take(kBytesOfBits * piece.rows);
  }
  counts_ = take(2 * sizeof(uint64_t) * pieces_.size());
  int64_t on_host = 1;  // they are few
  const cuda::DevicePointer begin = space.reserve(end, on_host);
  for (const Piece& piece : poisoned_) {
    for (uint64_t* place : {&pieces_[piece.number].bits, &pieces_[piece.number].left}) *place += begin;
  }
  counts_ += begin;
  return begin != 0;
}

bool PoisonTrial::set_bits() {
  const cuda::Driver& driver = cuda::driver();
  const cuda::Stream stream = launched_.stream;
  constexpr unsigned char kAllSet = 0xFF;
  left_.resize(pieces_.size());
  if (driver.copy_to_device == nullptr) return false;
  return std::ranges::all_of(poisoned_, [&](const Piece& piece) {
    const UnwrittenPiece& on_device = pieces_[piece.number];
    std::vector<uint32_t> rest = piece.words.bits;  // behind those that are all set
    const uint64_t full = rest.empty() ? piece.words.all / 32 : 0;
    if (const auto last = piece.words.all % 32; rest.empty() && last != 0) rest.push_back((uint32_t{1} << last) - 1);
    rest.resize(piece.rows - full);
    return (full == 0 || succeeded(driver.set_bytes(on_device.bits, kAllSet, kBytesOfBits * full, stream))) &&
           (rest.empty() || succeeded(driver.copy_to_device(on_device.bits + kBytesOfBits * full, rest.data(),
                                                            kBytesOfBits * rest.size(), stream))) &&
           // Must finish before `rest` is destroyed.
           succeeded(driver.synchronize(stream)) &&
           succeeded(driver.copy_on_device(on_device.left, on_device.bits, kBytesOfBits * piece.rows, stream));
  });
}

bool PoisonTrial::launch(const Poison* poison) {
  const cuda::Driver& driver = cuda::driver();
  const cuda::Stream stream = launched_.stream;
  auto pieces = pieces_;
  if (poison == nullptr) {
    for (UnwrittenPiece& piece : pieces) piece.bits = piece.left = 0;
  }
  const Poison pattern = poison != nullptr ? *poison : Poison::kSmall;
  std::vector<uint64_t> counts(2 * pieces.size());
  const size_t bytes = sizeof(uint64_t) * counts.size();
  Poisoner& poisoner = Poisoner::instance();
  using enum UnwrittenTable::Mode;
  const bool is_done = trial_.put_back_before() && succeeded(driver.set_bytes(counts_, 0, bytes, stream)) &&
                       poisoner.start(pieces, kFill, pattern, counts_, stream) && succeeded(launch_again(launched_)) &&
                       poisoner.start(pieces, kCheck, pattern, counts_, stream) &&
                       succeeded(driver.copy_to_host(counts.data(), counts_, bytes, stream));
  if (!succeeded(driver.synchronize(stream)) || !is_done) return false;
  depend_ = 0;
  for (size_t i = 0; i < pieces.size(); ++i) depend_ += counts[2 * i];
  for (size_t i = 0; poison != nullptr && i < pieces.size(); ++i) left_[i] = counts[2 * i + 1];
  return true;
}

bool PoisonTrial::is_confirmed(Poison poison, int times) {
  for (int time = 0; time < times; ++time) {
    if (!launch(nullptr) || depend_ > 0 || !launch(&poison) || depend_ == 0) return false;
  }
  return true;
}

// Forgets allocations that received results which depend on unwritten memory: what was copied from such memory is a
// result, and its readers are not accused.
bool PoisonTrial::note_written(bool depends) {
  for (Piece& piece : poisoned_) {
    const UnwrittenPiece& on_device = pieces_[piece.number];
    const uint64_t left = left_[piece.number];
    if (left == piece.words.count) continue;
    Unwritten::Words words{piece.words.all, depends ? 0 : left, {}};
    if (words.count > 0) {
      words.bits.resize(piece.rows);
      if (!succeeded(cuda::driver().copy_to_host(words.bits.data(), on_device.left, kBytesOfBits * piece.rows,
                                                 launched_.stream)) ||
          !succeeded(cuda::driver().synchronize(launched_.stream))) {
        return false;
      }
    }
    unwritten_.leave(on_device.address, std::move(words));
  }
  return true;
}

void PoisonTrial::count_all_written() {
  for (const Piece& piece : poisoned_) {
    const UnwrittenPiece& on_device = pieces_[piece.number];
    unwritten_.written({on_device.address, on_device.bytes});
  }
}

// Small numbers come first: they reveal kernels that take indices from unwritten memory, which are then not launched on
// large ones.
bool PoisonTrial::launch_all(Result& result, bool is_judged, int confirmations) {
  for (const Poison poison : {Poison::kSmall, Poison::kNaN}) {
    if (!launch(&poison)) return false;
    if (depend_ == 0 || !is_judged) continue;
    const uint64_t depend = depend_;
    if (is_confirmed(poison, confirmations)) {
      result.depend = depend;
      return true;
    }
  }
  return true;
}

PoisonTrial::Result PoisonTrial::run(CopySpace& space, bool is_judged, int confirmations) {
  using enum Result::State;
  Result result;
  find_unwritten(result);
  if (poisoned_.empty()) return result;
  result.state = kNoRoom;
  if (!reserve(space)) {
    count_all_written();
    return result;
  }
  bool is_done = false;
  try {
    is_done = set_bits() && launch_all(result, is_judged, confirmations);
  } catch (...) {  // no memory of the host; the results are put back all the same
  }
  is_done = trial_.put_back_result() && succeeded(cuda::driver().synchronize(launched_.stream)) && is_done;
  is_done = is_done && note_written(result.depend > 0);
  result.state = is_done ? kDone : kRefused;
  if (!is_done) count_all_written();
  return result;
}

std::vector<UnwrittenMemory> PoisonTrial::found() const {
  std::vector<UnwrittenMemory> found;
  for (const Piece& piece : poisoned_) found.push_back({pieces_[piece.number].address, piece.words});
  return found;
}

std::vector<UnwrittenMemory> unwritten_in(const Trial& trial, const Unwritten& unwritten) {
  std::vector<UnwrittenMemory> found;
  for (const SettledPiece& piece : trial.pieces()) {
    if (auto words = unwritten.words_of({piece.address, piece.bytes}))
      found.push_back({piece.address, *std::move(words)});
  }
  return found;
}

}  // namespace msda::record
