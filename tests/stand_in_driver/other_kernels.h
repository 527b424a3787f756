// Names and structs of the kernels that are not the operator's backward, for those who launch them and those who run
// them.
#pragma once

#include <cstdint>

namespace msda::stand_in {

// As PyTorch 2.x passes tensors to its kernels, by value.
template <class T, class Index>
struct TensorInfo {
  T* data;
  Index sizes[25], strides[25];
  int dims;
};

// Names of PyTorch 2.15, CUDA 13.2.
inline constexpr char kGridSamplerFloat[] =
    "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_2d_backward_kernelIfiEEvT0_NS_"
    "4cuda6detail10TensorInfoIKT_S3_EES9_S9_NS6_IS7_S3_EESA_NS0_6detail24GridSamplerInterpolationENSB_"
    "18GridSamplerPaddingEbS3_b";
inline constexpr char kGridSamplerDouble[] =
    "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_2d_backward_kernelIdlEEvT0_NS_"
    "4cuda6detail10TensorInfoIKT_S3_EES9_S9_NS6_IS7_S3_EESA_NS0_6detail24GridSamplerInterpolationENSB_"
    "18GridSamplerPaddingEbS3_b";
inline constexpr char kGridSampler3dFloat[] =
    "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_3d_backward_kernelIfiEEvT0_NS_"
    "4cuda6detail10TensorInfoIKT_S3_EES9_S9_NS6_IS7_S3_EESA_NS0_6detail24GridSamplerInterpolationENSB_"
    "18GridSamplerPaddingEbS3_b";
inline constexpr char kGridSampler3dDouble[] =
    "_ZN2at6native47_GLOBAL__N__035bd546_14_GridSampler_cu_23dc5aa531grid_sampler_3d_backward_kernelIdlEEvT0_NS_"
    "4cuda6detail10TensorInfoIKT_S3_EES9_S9_NS6_IS7_S3_EESA_NS0_6detail24GridSamplerInterpolationENSB_"
    "18GridSamplerPaddingEbS3_b";

// Kernels of torchvision 0.26 and PyTorch 2.11, for float; their parameters are those that the names say.
inline constexpr char kRoiAlign[] =
    "_ZN6vision3ops57_GLOBAL__N__188fa4c8_19_roi_align_kernel_cu_85cbb3f1_438630roi_align_backward_kernel_"
    "implIfEEviPKT_"
    "S3_iiiiiibPS3_S5_iiiii";
inline constexpr char kDeformableCol2im[] =
    "_ZN6vision3ops61_GLOBAL__N__0c0c7144_23_deform_conv2d_kernel_cu_85cbb3f1_431624deformable_col2im_kernelIflEEvT0_"
    "PKT_S6_S6_S3_S3_S3_S3_S3_S3_S3_S3_S3_S3_S3_S3_S3_S3_S3_bPS4_";
inline constexpr char kUpsampleBilinear2d[] =
    "_ZN2at6native54_GLOBAL__N__483be8b1_21_UpSampleBilinear2d_cu_607db5e338upsample_bilinear2d_backward_out_"
    "frameIffEEv"
    "miiiiT0_S3_bPT_PKS4_";
inline constexpr char kUpsampleNearest2d[] =
    "_ZN2at6native53_GLOBAL__N__222ba01c_20_UpSampleNearest2d_cu_198c5ce237upsample_nearest2d_backward_out_"
    "frameIffXadL_"
    "ZNS0_40nearest_neighbor_bw_compute_source_indexEfiiEEEEvPKT_mmmmmmPS3_ff";

// A kernel that nobody but its user knows:
//
//     void scale_add(int rows, Scale scale, const float* x, float* y, unsigned char* positive)
//
// y += alpha * x, of [rows, columns], and whether each result is positive.
struct Scale {
  int columns;
  float alpha;
};
// Another one, which says where its tensors are:
//
//     void whereabouts(int count, const float* x, const float* y, float* sums, long* places)
//
// x and y lie between each other's elements, sums has gaps: sums[3 i] += x[2 i] + y[2 i].
inline constexpr char kWhereabouts[] = "_Z11whereaboutsiPKfS0_PfPl";
inline constexpr int kPlaces = 4;

inline constexpr char kScaleAdd[] = "_Z9scale_addi5ScalePKfPfPh";

}  // namespace msda::stand_in
