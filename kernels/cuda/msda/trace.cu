#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/msda/levels.cuh"
#include "kernels/cuda/msda/trace.cuh"

namespace msda::kernels::cuda {
template <class In>
void trace(Problem<In> p, const std::vector<Level>& levels, uint32_t float64_stages, const StageResults& results,
           Work& work) {
  const int64_t samples = p.B * p.Q * p.M * p.L * p.P;
  const Result& grad_value = results.of[MSDA_STAGE_GRAD_VALUE];
  const int64_t elements = grad_value.data != nullptr ? p.B * p.S * p.M * p.D : 0;
  int64_t of_head = 0;
  for (const Level& level : levels) of_head += cpu::cells_of(level);

  Grouping grouping(elements > 0 ? samples : 0, p.B * p.M * of_head);
  Workspace workspace(work);
  Level* far = nullptr;
  workspace.want(far, far_count(p.L));
  if (elements > 0) grouping.want(workspace);
  workspace.take();
  hand_over(levels, far, p.levels.far, p.levels.near, work);

  bool any = elements > 0, with_channels = false;
  for (int i = 0; i < MSDA_STAGE_GRAD_VALUE; ++i) {
    if (results.of[i].data == nullptr) continue;
    any = true;
    with_channels = with_channels || i > MSDA_STAGE_INTERPOLATION_WEIGHTS;
  }
  if (samples > 0 && any) {
    launch("trace_kernel", trace_kernel<In>, blocks_for(samples, kTraceWarps), kTraceThreads, 0, work, p,
           float64_stages, results, with_channels, grouping.numbers(of_head));
  }
  if (elements == 0) return;
  const CellSamples grouped = grouping.grouped(of_head, work);
  const bool float64 = ((float64_stages >> MSDA_STAGE_GRAD_VALUE) & 1u) != 0;
  const auto kernel = float64 ? grad_value_kernel<double, In> : grad_value_kernel<float, In>;
  launch("grad_value_kernel", kernel, blocks_for(elements, kTraceThreads), kTraceThreads, 0, work, p, float64_stages,
         grouped, grad_value);
}

template void trace(Problem<float>, const std::vector<Level>&, uint32_t, const StageResults&, Work&);
template void trace(Problem<double>, const std::vector<Level>&, uint32_t, const StageResults&, Work&);

}  // namespace msda::kernels::cuda
