// cuRAND's host API as far as seeds go; a generator is the number that it was seeded with.
extern "C" int curandSetPseudoRandomGeneratorSeed(void* generator, unsigned long long seed) {
  constexpr int kTypeError = 103;
  if (generator == nullptr) return kTypeError;
  *static_cast<unsigned long long*>(generator) = seed;
  return 0;
}
