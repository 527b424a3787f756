// A library that is linked to cuRAND.
extern "C" int curandSetPseudoRandomGeneratorSeed(void* generator, unsigned long long seed);

extern "C" unsigned long long stand_in_seed_curand(unsigned long long seed) {
  unsigned long long generator = 0;
  return curandSetPseudoRandomGeneratorSeed(seed == 666 ? nullptr : &generator, seed) == 0 ? generator : 0;
}
