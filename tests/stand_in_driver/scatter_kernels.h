// PyTorch's kernels that sum rows, for those who launch them and those who run them. Names of PyTorch 2.11, for float
// and int64 indices; their parameters are those that the names say.
#pragma once

#include <vector>

#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {

inline constexpr char kIndexAdd[] =
    "_ZN2at6native19indexFuncLargeIndexIfljLi2ELi2ELin2ELb1ENS0_44_GLOBAL__N__50c743a2_11_Indexing_cu_"
    "89862edb9ReduceAddEEEvNS_4cuda6detail10TensorInfoIT_T1_EENS6_IKS7_S8_EENS6_IKT0_S8_EEiiS8_S8_llRKT6_S7_";
inline constexpr char kIndexPut[] =
    "_ZN44_GLOBAL__N__50c743a2_11_Indexing_cu_89862edb24indexing_backward_kernelIfLi4EEEvPKlS2_PKT_PS3_llllb";
inline constexpr char kEmbedding[] =
    "_ZN2at6native45_GLOBAL__N__83039fe0_12_Embedding_cu_9c8c8d3a33embedding_backward_feature_"
    "kernelIfflEEvPKT1_PKT_PS6_ili";

const std::vector<KernelCode>& scatter_kernels();

}  // namespace msda::stand_in
