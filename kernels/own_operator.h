/* An operator of your own as a shared library, which msda-replay judges as it judges the built-in operators. An adapter
 * file names the library: docs/own-operators.md. The header is C99 and C++, and all that the library needs: it links
 * nothing of this project.
 *
 * A library states, as data, what its kernel computes: each element of an output is a sum of addends, and an addend is
 * a product of elements of floating-point tensors and a weight. The library does not see the values of these elements:
 * which addends there are, and their weights, depend on the sizes, the numbers in integer tensors and the kernel's own
 * numbers and, where an element has coordinates, on the cells that these lie in.
 *
 * It exports one function, msda_own_operator(). docs/own_operator/slope.c is an example.
 *
 * Where it runs. In a process of its own, which msda-replay starts before it reads a capture; the recorder never loads
 * it. There its functions are called by one thread, one at a time, with standard output and standard error
 * discarded. A crash, more than 10 s of computing time or 20 s in all for one request (256 elements or fewer; open()
 * has a second more for each million integers, or two in all), an invalid answer and an error end the command with one
 * line and exit status 2.
 *
 * Ownership. What the library points to stays as it is: the description for the life of the process, a state from
 * open() until close(). What it is given belongs to the caller: a call, its tensors and values stay until close(), the
 * rest until the function returns. add() copies the addend.
 *
 * Errors. Functions return null, or one line of ASCII that says what is wrong with the call (up to 200 characters are
 * shown): it refuses the call. The text is not freed.
 *
 * Answers are kept: equal questions must have equal answers, in whatever order they come.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define MSDA_OWN_EXPORT __declspec(dllexport)
#else
#define MSDA_OWN_EXPORT __attribute__((visibility("default")))
#endif

/* The version of this header. Another one is refused. */
#define MSDA_OWN_ABI_VERSION 1

#define MSDA_OWN_MOST_DIMENSIONS 8 /* in all, and of a tensor */
#define MSDA_OWN_MOST_TENSORS 32
#define MSDA_OWN_MOST_OUTPUTS 3
#define MSDA_OWN_MOST_COORDINATES 3
#define MSDA_OWN_MOST_INPUTS 4 /* in an addend */
#define MSDA_OWN_MOST_STEPS 8
#define MSDA_OWN_MOST_ADDENDS (1 << 25) /* of all elements of an output */

/* ---- The description: what is the same for every call. */

/* Something that tensors have axes of: "row", "channel". Its size is that of these axes, which must agree. */
typedef struct msda_own_dimension {
  const char* name;        /* letters, digits and _; shown in findings */
  int32_t may_be_left_out; /* 1: `minimize` may leave out indices and number the rest anew, because the dimension does
                          nothing but name places in tensors: no integer tensor and no weight depends on it */
} msda_own_dimension;

typedef enum msda_own_role {
  MSDA_OWN_INPUT = 0,
  MSDA_OWN_OUTPUT = 1,
  MSDA_OWN_INOUT = 2 /* an output whose elements begin with what it held: a factor of the addend number -1 */
} msda_own_role;

/* A tensor of the adapter file. The file may have others, and may call an input or an output "inout". */
typedef struct msda_own_tensor {
  const char* name;   /* as in the adapter file */
  int32_t role;       /* msda_own_role */
  int32_t is_integer; /* 1: int32 or int64; 0: a floating-point type. Outputs are floating-point */
  int32_t rank;       /* from 1 */
  int32_t dimensions[MSDA_OWN_MOST_DIMENSIONS]; /* of each axis: its number in the description; -1: a size of its own,
                                                   which outputs have not */
} msda_own_tensor;

typedef struct msda_own_output {
  int32_t tensor;           /* its number in the description: of role output or inout */
  int32_t coordinate_count; /* of an element: at their whole numbers the output jumps */
  int32_t over_count;       /* dimensions that name an addend of an element, the slowest first; none is an axis of it */
  int32_t over[MSDA_OWN_MOST_DIMENSIONS];
  int32_t addends;       /* from 1: for each place in these. Addend a of place p has the number p * addends + a */
  int32_t channel_count; /* dimensions along which addends arrive together, as where a warp adds a row: axes of the
                            output, and the addends of all their indices have the same numbers */
  int32_t channels[MSDA_OWN_MOST_DIMENSIONS];
} msda_own_output;

/* ---- A call. */

typedef struct msda_own_data {
  const int64_t* shape;   /* `rank` sizes */
  const int64_t* numbers; /* of an integer tensor, row-major; null for floating-point ones, and for outputs */
} msda_own_data;

/* A number of the launch, as the adapter file names it: "rows", "scale.alpha", "grid.x". It stays as it was launched
 * where `minimize` makes the call smaller, and sizes do not. */
typedef struct msda_own_value {
  const char* name;
  int32_t is_integer; /* 0: of type float32 or float64, or beyond 63 bits: then `integer` is 0 */
  int64_t integer;
  double real; /* the same number */
} msda_own_value;

typedef struct msda_own_call {
  const int64_t* sizes;         /* by dimension */
  const msda_own_data* tensors; /* by tensor */
  int32_t value_count;
  const msda_own_value* values;
} msda_own_call;

/* ---- What the library answers. */

/* An element of a floating-point tensor of role input or inout. */
typedef struct msda_own_element {
  int32_t tensor;
  int64_t index[MSDA_OWN_MOST_DIMENSIONS]; /* the first `rank` count */
} msda_own_element;

typedef enum msda_own_operation {
  MSDA_OWN_ADD = 0,
  MSDA_OWN_SUBTRACT = 1,
  MSDA_OWN_MULTIPLY = 2,
  MSDA_OWN_DIVIDE = 3
} msda_own_operation;

/* A coordinate, in cells: a location, changed by steps as the kernel computes them, each rounded to its type.
 * location * size - 0.5 is {MSDA_OWN_MULTIPLY, size}, {MSDA_OWN_SUBTRACT, 0.5}. Its cell is the integer below, its
 * fraction the rest. */
typedef struct msda_own_step {
  int32_t operation; /* msda_own_operation */
  double operand;    /* finite */
} msda_own_step;

typedef struct msda_own_coordinate {
  msda_own_element location;
  int64_t size; /* how many cells there are: 1 to 2^30; for messages */
  int32_t step_count;
  msda_own_step steps[MSDA_OWN_MOST_STEPS];
} msda_own_coordinate;

typedef enum msda_own_factor {
  MSDA_OWN_ONE = 0,
  MSDA_OWN_FRACTION = 1, /* of the coordinate */
  MSDA_OWN_REST = 2      /* 1 - fraction */
} msda_own_factor;

/* An addend. All zeros means weight 0 and no inputs. */
typedef struct msda_own_addend {
  int64_t number; /* names it among the element's, see msda_own_output; -1: what the element begins with */
  double weight;  /* finite */
  int32_t fractions[MSDA_OWN_MOST_COORDINATES]; /* msda_own_factor, by coordinate: multiplied into the weight */
  int32_t input_count;                          /* 0 to 4 */
  msda_own_element inputs[MSDA_OWN_MOST_INPUTS];
} msda_own_addend;

/* Takes one addend; `to` is what the library was given beside it. Numbers ascend. Not null: it was refused, or there
 * are too many; the library returns. */
typedef const char* (*msda_own_add)(void* to, const msda_own_addend* addend);

typedef struct msda_own_operator_description {
  int32_t abi_version; /* MSDA_OWN_ABI_VERSION */
  const char* name;    /* as the adapter file's key operator/name */
  int32_t dimension_count;
  const msda_own_dimension* dimensions;
  int32_t tensor_count;
  const msda_own_tensor* tensors;
  int32_t output_count;
  const msda_own_output* outputs;

  /* May be null: there is nothing to prepare. Makes what the functions below need of this call, as a table of the rows
   * that each element adds up, and returns it by `state`, which may stay null. close(), null or not as open() is, frees
   * it; it is not called if open() returns an error. Several calls may be open at a time. */
  const char* (*open)(const msda_own_call* call, void** state);
  void (*close)(void* state);

  /* May be null if no output has coordinates. The coordinates of the element `index` of an output. */
  const char* (*coordinates)(const msda_own_call* call, void* state, int32_t output, const int64_t* index,
                             msda_own_coordinate* coordinates);

  /* Gives all addends of an element to `add`, if its coordinates lie in `cells`: cells that exact arithmetic gives, or
   * beside these, and so also outside of 0 to size - 1. An addend that reads outside of a tensor is an error in every
   * cell that the kernel's rounding may reach. */
  const char* (*addends)(const msda_own_call* call, void* state, int32_t output, const int64_t* index,
                         const int64_t* cells, msda_own_add add, void* to);
} msda_own_operator_description;

/* What the library exports; msda-replay looks it up by this name. */
MSDA_OWN_EXPORT const msda_own_operator_description* msda_own_operator(void);

#ifdef __cplusplus
}
#endif
