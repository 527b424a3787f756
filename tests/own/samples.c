/* y[i] += alpha * (v[cell] * (1 - fraction) + v[cell + 1] * fraction), the interpolation of v at x[i]: both of a
 * coordinate's factors, an output that begins with what it held, and a number of the launch that is no integer. */
#include <string.h>

#include "kernels/own_operator.h"

enum { X, V, Y };

static const msda_own_dimension dimensions[] = {{"i", 1}};
static const msda_own_tensor tensors[] = {
    {"x", MSDA_OWN_INPUT, 0, 1, {0}}, {"v", MSDA_OWN_INPUT, 0, 1, {-1}}, {"y", MSDA_OWN_INOUT, 0, 1, {0}}};
static const msda_own_output outputs[] = {{Y, 1, 0, {0}, 2, 0, {0}}};

static const char* coordinates(const msda_own_call* call, void* state, int32_t output, const int64_t* index,
                               msda_own_coordinate* at) {
  (void)state, (void)output;
  at->location.tensor = X;
  at->location.index[0] = index[0];
  at->size = call->tensors[V].shape[0];
  at->step_count = 2;
  at->steps[0] = (msda_own_step){MSDA_OWN_MULTIPLY, (double)at->size};
  at->steps[1] = (msda_own_step){MSDA_OWN_ADD, -0.5};
  return 0;
}

static const char* addends(const msda_own_call* call, void* state, int32_t output, const int64_t* index,
                           const int64_t* cells, msda_own_add add, void* to) {
  msda_own_addend one = {0};
  (void)state, (void)output;
  one.number = -1;
  one.weight = 1;
  one.input_count = 1;
  one.inputs[0].tensor = Y;
  one.inputs[0].index[0] = index[0];
  if (add(to, &one)) return 0;
  if (cells[0] < 0 || cells[0] + 1 >= call->tensors[V].shape[0]) return 0;
  for (int32_t i = 0; i < call->value_count; ++i) {
    if (strcmp(call->values[i].name, "alpha") == 0) one.weight = call->values[i].real;
  }
  one.inputs[0].tensor = V;
  for (one.number = 0; one.number < 2; ++one.number) {
    one.inputs[0].index[0] = cells[0] + one.number;
    one.fractions[0] = one.number == 0 ? MSDA_OWN_REST : MSDA_OWN_FRACTION;
    if (add(to, &one)) return 0;
  }
  return 0;
}

const msda_own_operator_description* msda_own_operator(void) {
  static const msda_own_operator_description samples = {
      MSDA_OWN_ABI_VERSION, "samples", 1, dimensions, 3, tensors, 1, outputs, 0, 0, coordinates, addends};
  return &samples;
}
