/* The operator of docs/own-operators.md's first example as a library: sum[segment[r], c] += source[r, c]. The variable
 * MSDA_TEST_FAULT of the environment names what is wrong with it. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/own_operator.h"

enum { S, C, R };
enum { SOURCE, SEGMENT, SUM };

static msda_own_dimension dimensions[] = {{"s", 0}, {"c", 1}, {"r", 1}};
static msda_own_tensor tensors[] = {
    {"source", MSDA_OWN_INPUT, 0, 2, {R, C}},
    {"segment", MSDA_OWN_INPUT, 1, 1, {R}},
    {"sum", MSDA_OWN_OUTPUT, 0, 2, {S, C}},
};
static msda_own_output outputs[] = {{SUM, 0, 1, {R}, 1, 1, {C}}};
static msda_own_operator_description description;

static int is(const char* fault) {
  const char* asked = getenv("MSDA_TEST_FAULT");
  return asked != NULL && strcmp(asked, fault) == 0;
}

static int overflow_stack(volatile char* above) {
  volatile char here[4096];
  here[0] = above == NULL ? 1 : above[0];
  return overflow_stack(here) + here[0];
}

static void misbehave(const char* where) {
  char fault[100];
  snprintf(fault, sizeof fault, "%s crashes", where);
  if (is(fault)) *(volatile int*)16 = 1;
  snprintf(fault, sizeof fault, "%s aborts", where);
  if (is(fault)) abort();
  snprintf(fault, sizeof fault, "%s exits", where);
  if (is(fault)) exit(0);
  snprintf(fault, sizeof fault, "%s loops", where);
  if (is(fault)) {
    for (volatile int i = 0;;) ++i;
  }
  snprintf(fault, sizeof fault, "%s sleeps", where);
  if (is(fault)) sleep(1000);
  snprintf(fault, sizeof fault, "%s overflows the stack", where);
  if (is(fault)) overflow_stack(NULL);
  snprintf(fault, sizeof fault, "%s closes files", where);
  if (is(fault)) {
    for (int fd = 0; fd < 100; ++fd) close(fd);
  }
  snprintf(fault, sizeof fault, "%s starts processes", where);
  for (int i = 0; is(fault) && i < 4; ++i) {
    if (fork() != 0) continue;
    if (i % 2 == 0) setsid();
    FILE* list = fopen(getenv("MSDA_TEST_LIST"), "a");
    fprintf(list, "%d\n", (int)getpid());
    fclose(list);
    sleep(1000);
  }
  if (is(fault) && system("sleep 1000 & echo $! >>$MSDA_TEST_LIST") != 0) abort();
  snprintf(fault, sizeof fault, "%s writes to the socket", where);
  if (is(fault)) write(3, "what a library prints to a descriptor that is not its own", 57);
  snprintf(fault, sizeof fault, "%s answers without end", where);
  if (is(fault)) {
    const unsigned long long frame[] = {1, 1 << 20};  // of words
    write(3, frame, sizeof frame);
    for (;; usleep(100000)) write(3, "", 1);
  }
  snprintf(fault, sizeof fault, "%s takes all memory", where);
  while (is(fault)) *(volatile char*)malloc(1 << 26) = 1;
}

__attribute__((constructor)) static void loaded(void) {
  const char* mark = getenv("MSDA_TEST_MARK");
  if (mark != NULL) fclose(fopen(mark, "w"));
  misbehave("loading");
}

/* The rows of each segment. */
typedef struct {
  int64_t *begin, *rows;
} table;

static void close_call(void* state) {
  table* of = state;
  free(of->begin);
  free(of->rows);
  free(of);
  misbehave("close");
}

static const char* open_call(const msda_own_call* call, void** state) {
  const int64_t segments = call->sizes[S], rows = call->sizes[R], *segment = call->tensors[SEGMENT].numbers;
  int has_rows = 0;
  misbehave("open");
  if (is("a refused call")) return "the segments do not ascend\n\x1b[31m";
  for (int32_t i = 0; i < call->value_count; ++i) {
    const msda_own_value* value = &call->values[i];
    has_rows |= strcmp(value->name, "rows") == 0 && value->is_integer && value->integer >= rows &&
                value->real == (double)value->integer;
  }
  if (!has_rows) return "has no number rows";
  if (call->tensors[SOURCE].numbers != NULL || call->tensors[SOURCE].shape[0] != rows) return "source is not as told";
  table* of = calloc(1, sizeof *of);
  of->begin = calloc((size_t)segments + 1, sizeof(int64_t));
  of->rows = calloc((size_t)rows + 1, sizeof(int64_t));
  for (int64_t r = 0; r < rows; ++r) {
    if (segment[r] >= 0 && segment[r] < segments) ++of->begin[segment[r] + 1];
  }
  for (int64_t s = 0; s < segments; ++s) of->begin[s + 1] += of->begin[s];
  for (int64_t s = segments; s > 0; --s) of->begin[s] = of->begin[s - 1];
  of->begin[0] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (segment[r] >= 0 && segment[r] < segments) of->rows[of->begin[segment[r] + 1]++] = r;
  }
  *state = of;
  return NULL;
}

static void spoil(msda_own_addend* one) {
  if (is("a row outside")) one->inputs[0].index[0] += 160;
  if (is("a negative row")) one->inputs[0].index[0] = -1;
  if (is("a huge row")) one->inputs[0].index[0] = INT64_MAX;
  if (is("a column outside")) one->inputs[0].index[1] += 8;
  if (is("no such tensor")) one->inputs[0].tensor = 3;
  if (is("a negative tensor")) one->inputs[0].tensor = -1;
  if (is("an integer factor")) one->inputs[0].tensor = SEGMENT;
  if (is("an output as a factor")) one->inputs[0].tensor = SUM;
  if (is("a weight of NaN")) one->weight = strtod("nan", NULL);
  if (is("an infinite weight")) one->weight = strtod("inf", NULL);
  if (is("a number twice")) one->number = 0;
  if (is("a number beyond")) one->number += 160;
  if (is("a start of its own")) one->number = -1;
  if (is("a negative input_count")) one->input_count = -1;
  if (is("five inputs")) one->input_count = 5;
}

static const char* addends(const msda_own_call* call, void* state, int32_t output, const int64_t* index,
                           const int64_t* cells, msda_own_add add, void* to) {
  const table* of = state;
  (void)call, (void)cells;
  if (output != 0 || (index[0] == 3 && is("a refused element"))) return "segment 3 is not one of mine";
  if (index[0] == 3) misbehave("addends");
  if (is("a null addend")) add(to, NULL);
  for (int64_t i = of->begin[index[0]]; i < of->begin[index[0] + 1]; ++i) {
    msda_own_addend one = {0};
    one.number = of->rows[i];
    one.weight = 1;
    one.input_count = 1;
    one.inputs[0].tensor = SOURCE;
    one.inputs[0].index[0] = of->rows[i];
    one.inputs[0].index[1] = index[1];
    spoil(&one);
    if (add(to, &one) && !is("no end of addends")) return NULL;
    if (is("no end of addends")) --i;
  }
  return NULL;
}

static const char* no_coordinates(const msda_own_call* call, void* state, int32_t output, const int64_t* index,
                                  msda_own_coordinate* all) {
  (void)call, (void)state, (void)output;
  all[0].location.tensor = is("a coordinate of nothing") ? -1 : SOURCE;
  all[0].location.index[0] = is("a location outside") ? 160 : index[0];
  all[0].size = is("no cells") ? 0 : 10;
  all[0].step_count = is("a negative step_count") ? -1 : is("nine steps") ? 9 : 1;
  all[0].steps[0].operation = is("no such operation") ? 4 : MSDA_OWN_DIVIDE;
  all[0].steps[0].operand = is("a division by zero") ? 0 : strtod(is("a step by NaN") ? "nan" : "2", NULL);
  misbehave("coordinates");
  return NULL;
}

static void spoil_description(void) {
  msda_own_operator_description* of = &description;
  const int32_t absurd = 1 << 30;
  if (is("another version")) of->abi_version = MSDA_OWN_ABI_VERSION + 1;
  if (is("another name")) of->name = "other_sum";
  if (is("no name")) of->name = NULL;
  if (is("no dimensions")) of->dimensions = NULL;
  if (is("no tensors")) of->tensors = NULL;
  if (is("no outputs")) of->outputs = NULL;
  if (is("no addends")) of->addends = NULL;
  if (is("no close")) of->close = NULL;
  if (is("-1 dimensions")) of->dimension_count = -1;
  if (is("-1 tensors")) of->tensor_count = -1;
  if (is("0 outputs")) of->output_count = 0;
  if (is("absurdly many dimensions")) of->dimension_count = absurd;
  if (is("absurdly many tensors")) of->tensor_count = absurd;
  if (is("absurdly many outputs")) of->output_count = absurd;
  if (is("absurdly many addends")) outputs[0].addends = absurd;
  if (is("-1 addends")) outputs[0].addends = -1;
  if (is("-1 coordinates")) outputs[0].coordinate_count = -1;
  if (is("-1 over")) outputs[0].over_count = -1;
  if (is("9 channels")) outputs[0].channel_count = 9;
  if (is("over an axis of its own")) outputs[0].over[0] = S;
  if (is("over nothing")) outputs[0].over[0] = 3;
  if (is("a channel that is none")) outputs[0].channels[0] = R;
  if (is("an output of nothing")) outputs[0].tensor = 3;
  if (is("an output that is an input")) outputs[0].tensor = SOURCE;
  if (is("no name of a dimension")) dimensions[1].name = NULL;
  if (is("two words")) dimensions[1].name = "two words";
  if (is("one name twice")) dimensions[1].name = "s";
  if (is("an endless name")) {
    static char name[1 << 20];
    memset(name, 'x', sizeof name);
    dimensions[1].name = name;
  }
  if (is("a pointer into nowhere")) dimensions[1].name = (const char*)16;
  if (is("an unknown tensor")) tensors[0].name = "sauce";
  if (is("no name of a tensor")) tensors[0].name = NULL;
  if (is("a tensor twice")) tensors[1] = tensors[0];
  if (is("an unknown role")) tensors[0].role = 3;
  if (is("another role")) tensors[0].role = MSDA_OWN_INOUT;
  if (is("another type")) tensors[1].is_integer = 0;
  if (is("another rank")) tensors[0].rank = 1;
  if (is("rank 9")) tensors[0].rank = 9;
  if (is("rank -1")) tensors[0].rank = -1;
  if (is("an axis of no dimension")) tensors[0].dimensions[0] = 3;
  if (is("an output's own axis")) tensors[2].dimensions[0] = -1;
  if (is("axes of one dimension")) tensors[2].dimensions[0] = C;
  if (is("a dimension without axes")) tensors[0].dimensions[0] = tensors[1].dimensions[0] = -1;
  if (is("sizes that contradict")) tensors[0].dimensions[0] = C;
  if (is("another shape")) tensors[1].dimensions[0] = S;
}

static void ask_for_coordinates(void) {
  static const char* const faults[] = {"a coordinate of nothing", "a location outside", "no cells",
                                       "a negative step_count",   "nine steps",         "no such operation",
                                       "a division by zero",      "a step by NaN",      "coordinates crashes"};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
    if (is(faults[i])) outputs[0].coordinate_count = 1, description.coordinates = no_coordinates;
  }
  if (is("no coordinates")) outputs[0].coordinate_count = 1;
}

const msda_own_operator_description* msda_own_operator(void) {
  description = (msda_own_operator_description){
      MSDA_OWN_ABI_VERSION, "segment_sum", 3, dimensions, 3, tensors, 1, outputs, open_call, close_call, NULL, addends};
  printf("a line of its own\n");
  fflush(stdout);
  fprintf(stderr, "and another\n");
  misbehave("describing");
  if (is("no description")) return NULL;
  spoil_description();
  ask_for_coordinates();
  return &description;
}
