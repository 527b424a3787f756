#include "recorder/preload/survey/evidence.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/device/communication.h"
#include "recorder/device/ptx.h"
#include "recorder/device/twin.h"
#include "recorder/preload/driver/own_kernel.h"
#include "recorder/preload/driver/own_memory.h"
#include "recorder/preload/driver/saver.h"
#include "recorder/preload/survey/first_sight.h"
#include "recorder/preload/survey/loaded_twin.h"

namespace msda::record {
namespace {

constexpr int kComparedLaunches = 4;

// What all of a kernel's additions have in common.
struct KnownAdditions {
  std::string missing;
  AddedType type = AddedType::kFloat32;
  std::string name;             // of the type
  bool has_magnitudes = false;  // their greatest addend can be measured
};

std::optional<AddedType> added_type(std::string_view name, int elements) {
  if (name == "f32" && elements == 1) return AddedType::kFloat32;
  if (name == "f64" && elements == 1) return AddedType::kFloat64;
  if (name == "f16" && elements == 2) return AddedType::kFloat16;
  if (name == "bf16" && elements == 2) return AddedType::kBfloat16;
  return std::nullopt;  // a vector: a twin would count only its first element
}

KnownAdditions known_additions(const Image& image, const std::string& kernel, const std::string& architecture) {
  KnownAdditions known;
  const auto additions = float_additions_in(image.bytes, kernel, architecture, TwinOperation::kCount);
  for (const FloatAddition& addition : additions) {
    // Additions at generic addresses have an ATOMS, too, for addresses in shared memory.
    if (std::string_view(addition.opcode) == "ATOMS") continue;
    const auto type = added_type(addition.type, addition.elements);
    if (!addition.has_twin()) known.missing = "no_twin";
    if (addition.result_used) known.missing = "results_used";
    if (addition.elements > 0 && !type) known.missing = "vectors";
    if (!known.name.empty() && known.name != addition.type) known.missing = "types";
    if (!known.missing.empty()) return known;
    known.type = *type;
    known.name = addition.type;
  }
  // A block that waits for another block's sum waits for ever if a twin makes other sums.
  const auto communication = communication_in(image.bytes, kernel, architecture);
  if (!communication || communication->may_communicate) known.missing = "communicates";
  if (known.name.empty()) known.missing = "no_twin";
  const auto extremes = float_additions_in(image.bytes, kernel, architecture, TwinOperation::kGreatest);
  known.has_magnitudes = std::ranges::all_of(extremes, [](const auto& addition) {
    return addition.has_twin() || std::string_view(addition.opcode) == "ATOMS";
  });
  return known;
}

// Device memory beside the pieces that a launch changed.
class EvidenceRoom {
 public:
  ~EvidenceRoom() {
    if (begin_ != 0) cuda::free_own(begin_);
  }
  EvidenceRoom() = default;
  EvidenceRoom(const EvidenceRoom&) = delete;
  EvidenceRoom& operator=(const EvidenceRoom&) = delete;

  // Returns false if that exceeds the share of what is free, or there is none.
  bool reserve(const std::vector<SettledPiece>& changed, double share) {
    constexpr uint64_t kAligned = 512;
    uint64_t end = kAligned;  // the results come first
    const auto take = [&](uint64_t bytes) {
      return std::exchange(end, end + (bytes + kAligned - 1) / kAligned * kAligned);
    };
    for (const auto& [address, before, after, flags, bytes] : changed) {
      pieces_.push_back({address, take(bytes), take(bytes), take(bytes), before, after, flags, bytes});
    }
    size_t free = 0, total = 0;
    if (cuda::driver().memory_info(&free, &total) != cuda::kSuccess ||
        static_cast<double>(end) > share * static_cast<double>(free) ||
        cuda::allocate_own(begin_, end) != cuda::kSuccess) {
      begin_ = 0;
      return false;
    }
    for (EvidencePiece& piece : pieces_) {
      for (uint64_t* place : {&piece.initial, &piece.counts, &piece.magnitudes}) *place += begin_;
    }
    return true;
  }
  cuda::DevicePointer results() const { return begin_; }
  const std::vector<EvidencePiece>& pieces() const { return pieces_; }

 private:
  cuda::DevicePointer begin_ = 0;
  std::vector<EvidencePiece> pieces_;
};

// Returns the pieces that the program's launch changed. Nothing if the device does not compute digests.
std::optional<std::vector<SettledPiece>> changed_pieces(const Trial& trial, cuda::Stream stream) {
  std::vector<DeviceRange> before;
  for (const SettledPiece& piece : trial.pieces()) before.push_back({piece.before, piece.bytes});
  const auto now = digests_of(trial.ranges(), stream), then = digests_of(before, stream);
  if (!now || !then) return std::nullopt;
  std::vector<SettledPiece> changed;
  for (size_t i = 0; i < now->size(); ++i) {
    if ((*now)[i] != (*then)[i]) changed.push_back(trial.pieces()[i]);
  }
  return changed;
}

class EvidenceRun {
 public:
  EvidenceRun(const Launched& launched, const Image& image, const std::string& kernel, const std::string& architecture,
              const Trial& trial, const KnownAdditions& known)
      : launched_(launched), image_(image), name_(kernel), architecture_(architecture), trial_(trial), known_(known) {}
  ~EvidenceRun() { code_.unload(); }
  EvidenceRun(const EvidenceRun&) = delete;
  EvidenceRun& operator=(const EvidenceRun&) = delete;

  // Returns why it ended early; empty if it did not. Memory is then as any of the launches left it.
  std::string measure(double share, Evidence& evidence) {
    const auto changed = changed_pieces(trial_, launched_.stream);
    if (!changed || !code_.is_loaded()) return "refused";
    if (!room_.reserve(*changed, share)) return "no_room";
    if (!clear_room() || !count() || (known_.has_magnitudes && !measure_magnitudes()) || !compare(evidence) ||
        cuda::driver().copy_to_host(&evidence.results, room_.results(), sizeof evidence.results, launched_.stream) !=
            cuda::kSuccess ||
        cuda::driver().synchronize(launched_.stream) != cuda::kSuccess) {
      return "refused";
    }
    return evidence.results.addresses == 0 ? "none_counted" : "";
  }

 private:
  bool set(cuda::DevicePointer address, unsigned char value, uint64_t bytes) const {
    return cuda::driver().set_bytes(address, value, bytes, launched_.stream) == cuda::kSuccess;
  }

  bool clear_room() const {
    constexpr unsigned char kNoNumber = 0xFF;  // with all bits set
    return set(room_.results(), 0, sizeof(EvidenceResults)) &&
           std::ranges::all_of(room_.pieces(), [&](const auto& piece) {
             return set(piece.counts, 0, piece.bytes) &&
                    set(piece.magnitudes, known_.has_magnitudes ? 0 : kNoNumber, piece.bytes);
           });
  }

  bool step(EvidenceStep step) {
    return code_.launch_for(std::span(room_.pieces()), kEvidenceThreads, launched_.stream,
                            [&](size_t) { return EvidenceTable(step, known_.type, room_.results()); });
  }

  // Launches the twin on the memory that the program's launch found; if it `clears`, with 0 in the words that are added
  // to.
  bool launch_twin(TwinOperation operation, bool clears) {
    const auto twin = twin_of(image_.bytes, name_, architecture_, operation);
    if (!twin) return false;
    LoadedTwin loaded = load_twin(*twin, name_, launched_.shared_bytes);
    const bool done = loaded.function != nullptr && trial_.put_back_before() &&
                      copy_values(image_, launched_.function, loaded, launched_.stream) &&
                      (!clears || step(EvidenceStep::kClear)) && trial_.launch_other(launched_, loaded.function, 0) &&
                      cuda::driver().synchronize(launched_.stream) == cuda::kSuccess;
    unload_own(loaded.library);
    return done;
  }

  // Counts the additions from what is there without them, because other stores of the kernel may have changed it.
  bool count() {
    std::vector<SavedPiece> initial;
    for (const EvidencePiece& piece : room_.pieces()) initial.push_back({piece.address, piece.initial, piece.bytes});
    return launch_twin(TwinOperation::kNothing, false) && Saver::instance().copy(initial, launched_.stream) &&
           launch_twin(TwinOperation::kCount, false) && step(EvidenceStep::kCount);
  }

  bool measure_magnitudes() {
    return launch_twin(TwinOperation::kGreatest, true) && step(EvidenceStep::kMeasure) &&
           launch_twin(TwinOperation::kLeast, true) && step(EvidenceStep::kMeasure);
  }

  bool compare(Evidence& evidence) {
    for (; evidence.launches < kComparedLaunches; ++evidence.launches) {
      if (!trial_.put_back_before() ||
          !trial_.launch_other(launched_, launched_.function, static_cast<int>(evidence.launches)) ||
          !step(EvidenceStep::kCompare)) {
        return false;
      }
    }
    return true;
  }

  const Launched& launched_;
  const Image& image_;
  const std::string &name_, &architecture_;
  const Trial& trial_;
  const KnownAdditions& known_;
  OwnKernel code_{kEvidencePtx, kEvidenceKernel};
  EvidenceRoom room_;
};

}  // namespace

Evidence evidence_of(const Launched& launched, const Image& image, const std::string& kernel,
                     const std::string& architecture, const Trial& trial, double share) {
  Evidence evidence;
  const KnownAdditions known = known_additions(image, kernel, architecture);
  evidence.missing = known.missing;
  if (!evidence.missing.empty()) return evidence;
  evidence.type = known.name;
  try {
    evidence.missing = EvidenceRun(launched, image, kernel, architecture, trial, known).measure(share, evidence);
  } catch (const std::exception&) {  // no memory of the host
    evidence.missing = "refused";
  }
  if (!trial.put_back_result() || cuda::driver().synchronize(launched.stream) != cuda::kSuccess) {
    evidence.missing = "refused";
  }
  return evidence;
}

void Evidence::describe(std::map<std::string, std::string>& texts, std::map<std::string, int64_t>& integers,
                        std::map<std::string, double>& numbers) const {
  if (!missing.empty()) {
    texts["evidence_missing"] = missing;
    return;
  }
  constexpr uint64_t kMostBelieved = uint64_t{1} << 40;  // by readers
  texts["evidence_type"] = type;
  integers["evidence_launches"] = launches;
  const std::pair<const char*, uint64_t> counts[] = {
      {"addresses", results.addresses},           {"additions", results.additions},
      {"most_additions", results.most_additions}, {"other_words", results.other_words},
      {"differing", results.differing},           {"exceeding", results.exceeding},
      {"unbounded", results.unbounded},           {"elsewhere", results.elsewhere}};
  for (const auto& [name, count] : counts) {
    integers[std::string("evidence_") + name] = static_cast<int64_t>(std::min(count, kMostBelieved));
  }
  const std::pair<const char*, double> sizes[] = {{"difference", results.difference()},
                                                  {"bound", results.bound()},
                                                  {"share", results.share()},
                                                  {"greatest_addend", results.magnitude()}};
  for (const auto& [name, size] : sizes) {
    const bool is_of_bound = std::string_view(name) == "share";
    if (is_of_bound && !std::isfinite(results.bound())) continue;  // 0: of none
    if (std::isfinite(size)) numbers[std::string("evidence_") + name] = size;
  }
}

}  // namespace msda::record
