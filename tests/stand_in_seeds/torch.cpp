// A generator as torch has it: a class with a vtable, whose seed is set by a virtual function of torch's very name.
#include <cstdint>
#include <stdexcept>

namespace at {

struct GENERATOR {
  virtual ~GENERATOR() = default;
  virtual void set_current_seed(uint64_t seed);
  virtual uint64_t current_seed() const { return seed_; }

 private:
#ifdef OTHER_LAYOUT  // as another version's: seeded by the wrong library, it would keep its seed
  uint64_t more_ = 0;
#endif
  uint64_t seed_ = 1;
};

void GENERATOR::set_current_seed(uint64_t seed) {
  if (seed == 666) throw std::runtime_error("not while a graph is captured");
  seed_ = seed;
}

}  // namespace at

// Sets the seed of a new generator, and returns the seed that it then has; 0 if it threw.
extern "C" uint64_t stand_in_manual_seed(uint64_t seed) {
  at::GENERATOR* volatile generator = new at::GENERATOR;
  uint64_t got = 0;
  try {
    generator->set_current_seed(seed);
    got = generator->current_seed();
  } catch (const std::runtime_error&) {
  }
  delete generator;
  return got;
}
