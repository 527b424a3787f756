// The CUPTI libraries that the recorder can use, newest first: its hook knows the structures of these releases.
#pragma once

namespace msda::record::cupti {

inline constexpr const char* kLibraryNames[] = {"libcupti.so.13", "libcupti.so.12"};

}  // namespace msda::record::cupti
