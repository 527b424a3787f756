// The C ABI of index_put.
#include <limits>

#include "kernels/cuda/common/call.h"
#include "kernels/cuda/index_put/operator.h"
#include "kernels/index_put.h"

namespace msda::kernels::cuda {
namespace {

void check_index_put(const msda_index_put_call& call) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (call.index.dtype != MSDA_INT32 && call.index.dtype != MSDA_INT64) {
    throw InvalidArgument("index is not of type int32 or int64");
  }
  check_rank_and_sizes("index", call.index, 1);
  if (call.count < 0 || call.row_bytes < 0) throw InvalidArgument("count and row_bytes must not be negative");
  const bool has_work = call.count > 0 && call.row_bytes > 0 && call.index.shape[0] > 0;
  if (has_work && (call.rows == nullptr || call.values == nullptr)) {
    throw InvalidArgument("rows or values is a null pointer");
  }
  const int64_t planes = call.planes == 0 ? 1 : call.planes;
  if (planes < 0 || call.count % planes != 0 || call.index.shape[0] % planes != 0) {
    throw InvalidArgument("planes must not be negative, and divide count and the numbers of the index");
  }
  if (call.count > kMost || call.index.shape[0] > kMost) throw Unavailable("more rows than a GPU's kernels can count");
}

}  // namespace
}  // namespace msda::kernels::cuda

using namespace msda::kernels;  // NOLINT: the function below is C

msda_status msda_cuda_index_put(const msda_index_put_call* call, void* stream) {
  return cuda::enqueued(stream, [&](cuda::Work& work) {
    if (call == nullptr) throw InvalidArgument("call is a null pointer");
    cuda::check_index_put(*call);
    cuda::need_device();
    if (call->count == 0 || call->row_bytes == 0 || call->index.shape[0] == 0) return;
    cuda::index_put(*call, work);
  });
}
