/* Whether libmsda has kernels for GPUs, and whose runtime is linked into it. */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the CUDA toolkit that the library was built with, as "13.0"; "" if it was built without CUDA. */
MSDA_API const char* msda_cuda_version(void);

#ifdef __cplusplus
}
#endif
