// Layouts, numbers and signatures in cuda_driver.h are those of the toolkit's cuda.h.
#define __CUDA_API_VERSION_INTERNAL  // for functions of older versions, too
#include "recorder/device/cuda_driver.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace msda::cuda {
namespace {

// The same size, and a pointer or a structure on both sides or on none.
template <class A, class B>
constexpr bool kAlike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> == std::is_class_v<B>;

template <class... A, class... B>
constexpr bool same_call(CUresult (*)(A...), Result (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B)) return (kAlike<A, B> && ...);
  return false;
}

TEST(CudaDriver, FunctionsTakeWhatThoseOfTheToolkitTake) {
#define MSDA_COMPARE(users, field, name, parameters) \
  EXPECT_TRUE(same_call(decltype(&::name){}, Driver().field)) << #name;
  MSDA_CUDA_FUNCTIONS(MSDA_COMPARE)
#undef MSDA_COMPARE
}

TEST(CudaDriver, LaunchesLieAsInTheToolkit) {
  EXPECT_EQ(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute));
  EXPECT_EQ(offsetof(LaunchAttribute, numbers), offsetof(CUlaunchAttribute, value));
  EXPECT_EQ(sizeof LaunchAttribute().bytes, sizeof(CUlaunchAttributeValue));
  EXPECT_EQ(sizeof(LaunchConfig), sizeof(CUlaunchConfig));
  EXPECT_EQ(offsetof(LaunchConfig, block), offsetof(CUlaunchConfig, blockDimX));
  EXPECT_EQ(offsetof(LaunchConfig, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
  EXPECT_EQ(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
  EXPECT_EQ(offsetof(LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
  EXPECT_EQ(offsetof(LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));
  EXPECT_EQ(kCooperativeLaunch.id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
}

TEST(CudaDriver, CopiesLieAsInTheToolkit) {
  EXPECT_EQ(sizeof(CopyOfRows), sizeof(CUDA_MEMCPY2D));
  EXPECT_EQ(offsetof(CopyOfRows, from.y), offsetof(CUDA_MEMCPY2D, srcY));
  EXPECT_EQ(offsetof(CopyOfRows, from.type), offsetof(CUDA_MEMCPY2D, srcMemoryType));
  EXPECT_EQ(offsetof(CopyOfRows, from.host), offsetof(CUDA_MEMCPY2D, srcHost));
  EXPECT_EQ(offsetof(CopyOfRows, from.device), offsetof(CUDA_MEMCPY2D, srcDevice));
  EXPECT_EQ(offsetof(CopyOfRows, from.pitch), offsetof(CUDA_MEMCPY2D, srcPitch));
  EXPECT_EQ(offsetof(CopyOfRows, to), offsetof(CUDA_MEMCPY2D, dstXInBytes));
  EXPECT_EQ(offsetof(CopyOfRows, width), offsetof(CUDA_MEMCPY2D, WidthInBytes));
  EXPECT_EQ(offsetof(CopyOfRows, height), offsetof(CUDA_MEMCPY2D, Height));
  EXPECT_EQ(sizeof(CopyOfBox), sizeof(CUDA_MEMCPY3D));
  EXPECT_EQ(offsetof(CopyOfBox, from.z), offsetof(CUDA_MEMCPY3D, srcZ));
  EXPECT_EQ(offsetof(CopyOfBox, from.type), offsetof(CUDA_MEMCPY3D, srcMemoryType));
  EXPECT_EQ(offsetof(CopyOfBox, from.host), offsetof(CUDA_MEMCPY3D, srcHost));
  EXPECT_EQ(offsetof(CopyOfBox, from.device), offsetof(CUDA_MEMCPY3D, srcDevice));
  EXPECT_EQ(offsetof(CopyOfBox, from.pitch), offsetof(CUDA_MEMCPY3D, srcPitch));
  EXPECT_EQ(offsetof(CopyOfBox, from.height), offsetof(CUDA_MEMCPY3D, srcHeight));
  EXPECT_EQ(offsetof(CopyOfBox, to), offsetof(CUDA_MEMCPY3D, dstXInBytes));
  EXPECT_EQ(offsetof(CopyOfBox, width), offsetof(CUDA_MEMCPY3D, WidthInBytes));
  EXPECT_EQ(offsetof(CopyOfBox, depth), offsetof(CUDA_MEMCPY3D, Depth));
  EXPECT_EQ(static_cast<int>(MemoryType::kHost), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(static_cast<int>(MemoryType::kDevice), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(static_cast<int>(MemoryType::kArray), CU_MEMORYTYPE_ARRAY);
  EXPECT_EQ(static_cast<int>(MemoryType::kUnified), CU_MEMORYTYPE_UNIFIED);
}

TEST(CudaDriver, NodesLieAsInTheToolkit) {
  EXPECT_EQ(sizeof(KernelNodeParameters), sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
  EXPECT_EQ(offsetof(KernelNodeParameters, grid), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX));
  EXPECT_EQ(offsetof(KernelNodeParameters, block), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX));
  EXPECT_EQ(offsetof(KernelNodeParameters, shared_bytes), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes));
  EXPECT_EQ(offsetof(KernelNodeParameters, parameters), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kernelParams));
  EXPECT_EQ(offsetof(KernelNodeParameters, extra), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, extra));
  EXPECT_EQ(offsetof(KernelNodeParameters, kernel), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern));
  EXPECT_EQ(offsetof(KernelNodeParameters, context), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ctx));
  EXPECT_EQ(sizeof(SetNodeParameters), sizeof(CUDA_MEMSET_NODE_PARAMS));
  EXPECT_EQ(offsetof(SetNodeParameters, pitch), offsetof(CUDA_MEMSET_NODE_PARAMS, pitch));
  EXPECT_EQ(offsetof(SetNodeParameters, value), offsetof(CUDA_MEMSET_NODE_PARAMS, value));
  EXPECT_EQ(offsetof(SetNodeParameters, element_bytes), offsetof(CUDA_MEMSET_NODE_PARAMS, elementSize));
  EXPECT_EQ(offsetof(SetNodeParameters, width), offsetof(CUDA_MEMSET_NODE_PARAMS, width));
  EXPECT_EQ(offsetof(SetNodeParameters, height), offsetof(CUDA_MEMSET_NODE_PARAMS, height));
  EXPECT_EQ(static_cast<int>(NodeType::kKernel), CU_GRAPH_NODE_TYPE_KERNEL);
  EXPECT_EQ(static_cast<int>(NodeType::kCopy), CU_GRAPH_NODE_TYPE_MEMCPY);
  EXPECT_EQ(static_cast<int>(NodeType::kSet), CU_GRAPH_NODE_TYPE_MEMSET);
  EXPECT_EQ(static_cast<int>(NodeType::kHost), CU_GRAPH_NODE_TYPE_HOST);
  EXPECT_EQ(static_cast<int>(NodeType::kGraph), CU_GRAPH_NODE_TYPE_GRAPH);
  EXPECT_EQ(static_cast<int>(NodeType::kEmpty), CU_GRAPH_NODE_TYPE_EMPTY);
}

TEST(CudaDriver, NumbersAreTheToolkits) {
  EXPECT_EQ(kSuccess, CUDA_SUCCESS);
  EXPECT_EQ(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
  EXPECT_EQ(kNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(kNotFound, CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(kNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(reinterpret_cast<void*>(kParamEnd), CU_LAUNCH_PARAM_END);
  EXPECT_EQ(reinterpret_cast<void*>(kParamBufferPointer), CU_LAUNCH_PARAM_BUFFER_POINTER);
  EXPECT_EQ(reinterpret_cast<void*>(kParamBufferSize), CU_LAUNCH_PARAM_BUFFER_SIZE);
  EXPECT_EQ(static_cast<int>(kPerThreadDefaultStream), CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  EXPECT_EQ(reinterpret_cast<void*>(kStreamPerThread), static_cast<void*>(CU_STREAM_PER_THREAD));
  EXPECT_EQ(kDisableTiming, unsigned{CU_EVENT_DISABLE_TIMING});
  EXPECT_EQ(sizeof(IpcHandle), sizeof(CUipcMemHandle));
}

}  // namespace
}  // namespace msda::cuda
