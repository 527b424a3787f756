#include <bit>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/trace.cuh"

namespace msda::kernels::cuda {
namespace {

// Sorts samples by cell. CUB's radix sort is stable, so the samples of a cell keep their order.
class Grouping {
 public:
  Grouping(int64_t samples, int64_t cells) : samples_(samples), cells_(cells) {
    cub::DoubleBuffer<uint64_t> cell(nullptr, nullptr);
    cub::DoubleBuffer<uint32_t> sample(nullptr, nullptr);
    if (samples > 0) sort(nullptr, cell, sample, nullptr);
  }
  void want(Workspace& workspace) {
    for (auto*& memory : cell_) workspace.want(memory, samples_);
    for (auto*& memory : sample_) workspace.want(memory, samples_);
    workspace.want(begin_, cells_ + 1);
    workspace.want(temporary_, static_cast<int64_t>(temporary_bytes_));
  }
  CellNumbers numbers(int64_t of_head) const { return {of_head, cell_[0], sample_[0]}; }
  CellSamples grouped(int64_t of_head, cudaStream_t stream) {
    cub::DoubleBuffer<uint64_t> cell(cell_[0], cell_[1]);
    cub::DoubleBuffer<uint32_t> sample(sample_[0], sample_[1]);
    if (samples_ > 0) sort(temporary_, cell, sample, stream);
    launch("cell_begin_kernel", cell_begin_kernel, blocks_for(cells_ + 1, kTraceThreads), kTraceThreads, 0, stream,
           cell.Current(), samples_, cells_, begin_);
    return {of_head, begin_, sample.Current()};
  }

 private:
  void sort(void* temporary, cub::DoubleBuffer<uint64_t>& cell, cub::DoubleBuffer<uint32_t>& sample,
            cudaStream_t stream) {
    const int bits = std::bit_width(static_cast<uint64_t>(cells_));
    check(cub::DeviceRadixSort::SortPairs(temporary, temporary_bytes_, cell, sample, samples_, 0, bits, stream),
          "cub::DeviceRadixSort");
  }
  int64_t samples_, cells_;
  uint64_t* cell_[2] = {};
  uint32_t* sample_[2] = {};
  int64_t* begin_ = nullptr;
  char* temporary_ = nullptr;
  size_t temporary_bytes_ = 0;
};

}  // namespace

template <class In>
void trace(Problem<In> p, const std::vector<Level>& levels, uint32_t float64_stages, const StageResults& results,
           cudaStream_t stream) {
  const int64_t samples = p.B * p.Q * p.M * p.L * p.P;
  const Result& grad_value = results.of[MSDA_STAGE_GRAD_VALUE];
  const int64_t elements = grad_value.data != nullptr ? p.B * p.S * p.M * p.D : 0;
  int64_t of_head = 0;
  for (const Level& level : levels) of_head += cpu::cells_of(level);

  Grouping grouping(elements > 0 ? samples : 0, p.B * p.M * of_head);
  Workspace workspace(stream);
  Level* far = nullptr;
  workspace.want(far, far_count(p.L));
  if (elements > 0) grouping.want(workspace);
  workspace.take();
  hand_over(levels, far, p.levels.far, p.levels.near, stream);

  bool any = elements > 0, with_channels = false;
  for (int i = 0; i < MSDA_STAGE_GRAD_VALUE; ++i) {
    if (results.of[i].data == nullptr) continue;
    any = true;
    with_channels = with_channels || i > MSDA_STAGE_INTERPOLATION_WEIGHTS;
  }
  if (samples > 0 && any) {
    launch("trace_kernel", trace_kernel<In>, blocks_for(samples, kTraceWarps), kTraceThreads, 0, stream, p,
           float64_stages, results, with_channels, grouping.numbers(of_head));
  }
  if (elements == 0) return;
  const CellSamples grouped = grouping.grouped(of_head, stream);
  const bool float64 = ((float64_stages >> MSDA_STAGE_GRAD_VALUE) & 1u) != 0;
  const auto kernel = float64 ? grad_value_kernel<double, In> : grad_value_kernel<float, In>;
  launch("grad_value_kernel", kernel, blocks_for(elements, kTraceThreads), kTraceThreads, 0, stream, p, float64_stages,
         grouped, grad_value);
}

template void trace(Problem<float>, const std::vector<Level>&, uint32_t, const StageResults&, cudaStream_t);
template void trace(Problem<double>, const std::vector<Level>&, uint32_t, const StageResults&, cudaStream_t);

}  // namespace msda::kernels::cuda
