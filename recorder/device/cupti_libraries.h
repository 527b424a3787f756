// CUPTI's libraries that the recorder can use, the newest first: those of the releases whose layouts its hook knows.
#pragma once

namespace msda::record::cupti {

inline constexpr const char* kLibraryNames[] = {"libcupti.so.13", "libcupti.so.12"};

}  // namespace msda::record::cupti
