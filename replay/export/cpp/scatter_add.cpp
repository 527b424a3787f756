
// --- Sums of the rows, or the elements, of a tensor that share an index: one element of the sum.

std::vector<long> source_place(long row) {
  std::vector<long> place = kIndex;
  place[kDim] = row;
  return place;
}

// Returns whether a source row, or its element in the column of kIndex, has the index of the element.
bool is_named(long row) {
  const Tensor &index = tensors.at("index"), &sum = tensors.at(std::string("observed_") + kTensor);
  long name = static_cast<long>(index.at(index.shape.size() == 1 ? std::vector<long>{row} : source_place(row)));
  if (kHasPaddingIdx && name == kPaddingIdx) return false;
  if (kWrapsNegative && name < 0) name += sum.shape[kDim];
  return name == kIndex[kDim];
}

template <class Real>
std::vector<Part> contributions() {
  const Tensor& source = tensors.at("source");
  std::vector<Part> parts;
  for (long row = 0; row < source.shape[kDim]; ++row) {
    if (is_named(row)) parts.push_back({source.at(source_place(row)), 1});
  }
  for (Part& part : parts) {
    if (kScaleGradByFreq) part.weight = Real(1.0 / static_cast<double>(parts.size()));
  }
  return parts;
}

// A row that nothing is added to keeps it in any case.
bool held(size_t count, double& value) {
  const auto self = tensors.find("self");
  if (self == tensors.end() || !(kIncludeSelf || count == 0)) return false;
  value = self->second.at(kIndex);
  return true;
}

double divided_by(size_t count) {
  const bool is_mean = kReduce == std::string("mean");
  return is_mean ? std::max(1.0, static_cast<double>(count) + (kIncludeSelf ? 1 : 0)) : 1;
}
