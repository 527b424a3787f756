#include "recorder/capture/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace msda::capture {
namespace {

std::string text_of(const XXH128_hash_t& hash) {
  return fmt::format("xxh3-128:{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string digest(std::span<const std::byte> bytes) { return text_of(XXH3_128bits(bytes.data(), bytes.size())); }

struct Digester::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  State() {
    if (xxh3 == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh3);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(xxh3); }
};

Digester::Digester() : state_(std::make_unique<State>()) {}
Digester::Digester(Digester&&) noexcept = default;
Digester::~Digester() = default;
void Digester::add(std::span<const std::byte> bytes) { XXH3_128bits_update(state_->xxh3, bytes.data(), bytes.size()); }
std::string Digester::digest() const { return text_of(XXH3_128bits_digest(state_->xxh3)); }

}  // namespace msda::capture
