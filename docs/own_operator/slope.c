/* An operator of your own as a library: the gradient of a linear interpolation between the rows of v with respect to
 * where it is taken,
 *
 *     grad_x[i] = width * sum over c of grad[i, c] * (v[cell + 1, c] - v[cell, c]),    cell = floor(x[i] * width -
 * 0.5),
 *
 * and 0 outside. It jumps where a sample comes into the next cell. slope.json names the library,
 * slope_by_expression.json says the same by expressions. Build it with
 *
 *     cc -std=c99 -O2 -fPIC -shared -fvisibility=hidden -I INCLUDE slope.c -o libslope.so
 *
 * where INCLUDE is the folder that holds kernels/own_operator.h: PREFIX/include/msda_replay, or a source tree. */
#include "kernels/own_operator.h"

enum { I, C }; /* dimensions */
enum { X, V, GRAD, GRAD_X };

static const msda_own_dimension dimensions[] = {{"i", 1}, {"c", 1}};
static const msda_own_tensor tensors[] = {
    {"x", MSDA_OWN_INPUT, 0, 1, {I}},
    {"v", MSDA_OWN_INPUT, 0, 2, {-1, C}}, /* its rows have a size of their own: the width */
    {"grad", MSDA_OWN_INPUT, 0, 2, {I, C}},
    {"grad_x", MSDA_OWN_OUTPUT, 0, 1, {I}},
};
/* One coordinate; two addends for each c. */
static const msda_own_output outputs[] = {{GRAD_X, 1, 1, {C}, 2, 0, {0}}};

static const char* coordinates(const msda_own_call* call, void* state, int32_t output, const int64_t* index,
                               msda_own_coordinate* px) {
  const int64_t width = call->tensors[V].shape[0];
  (void)state, (void)output;
  px->location.tensor = X;
  px->location.index[0] = index[0];
  px->size = width;
  px->step_count = 2;
  px->steps[0].operation = MSDA_OWN_MULTIPLY;
  px->steps[0].operand = (double)width;
  px->steps[1].operation = MSDA_OWN_SUBTRACT;
  px->steps[1].operand = 0.5;
  return 0;
}

static const char* addends(const msda_own_call* call, void* state, int32_t output, const int64_t* index,
                           const int64_t* cells, msda_own_add add, void* to) {
  const int64_t width = call->tensors[V].shape[0];
  (void)state, (void)output;
  if (cells[0] < 0 || cells[0] + 1 >= width) return 0;
  for (int64_t c = 0; c < call->sizes[C]; ++c) {
    for (int lower = 0; lower < 2; ++lower) {
      msda_own_addend one = {0};
      one.number = 2 * c + lower;
      one.weight = (double)(lower ? -width : width);
      one.input_count = 2;
      one.inputs[0].tensor = GRAD;
      one.inputs[0].index[0] = index[0];
      one.inputs[0].index[1] = c;
      one.inputs[1].tensor = V;
      one.inputs[1].index[0] = cells[0] + 1 - lower;
      one.inputs[1].index[1] = c;
      if (add(to, &one)) return 0; /* the caller knows why */
    }
  }
  return 0;
}

const msda_own_operator_description* msda_own_operator(void) {
  static const msda_own_operator_description slope = {
      MSDA_OWN_ABI_VERSION, "slope", 2, dimensions, 4, tensors, 1, outputs, 0, 0, coordinates, addends};
  return &slope;
}
