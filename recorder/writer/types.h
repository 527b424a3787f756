// Element types by their names in the spool.
#pragma once

#include <string>

#include "recorder/capture/schema.h"
#include "recorder/spool/follower.h"

namespace msda::record {

inline capture::ElementType type_of(const std::string& name) {
  using capture::ElementType;
  for (const ElementType type :
       {ElementType::kFloat16, ElementType::kBFloat16, ElementType::kFloat32, ElementType::kFloat64,
        ElementType::kInt32, ElementType::kInt64, ElementType::kUInt8}) {
    if (name_of(type) == name) return type;
  }
  throw spool::Error("a tensor in the spool has the unknown type " + name);
}

}  // namespace msda::record
