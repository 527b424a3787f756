struct Tensor {
  std::string stored;  // the type that it was recorded in; a double holds every value exactly
  std::vector<long> shape;
  std::vector<double> numbers;

  double at(const std::vector<long>& index) const {
    size_t flat = 0;
    for (size_t i = 0; i < shape.size(); ++i)
      flat = flat * static_cast<size_t>(shape[i]) + static_cast<size_t>(index[i]);
    return numbers[flat];
  }
};
