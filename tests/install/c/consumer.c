/* The C ABI from an installed package. */
#include <kernels/msda.h>
#include <stdio.h>

int main(void) {
  const int64_t shape[4] = {1, 1, 1, 1};
  float x = 1;
  msda_call call = {0};
  call.value = msda_contiguous(&x, MSDA_FLOAT32, 4, shape);
  if (msda_forward(&call, 0, &call.value) != MSDA_INVALID_ARGUMENT) return 1;
  printf("%s\n", msda_last_error());
  return 0;
}
