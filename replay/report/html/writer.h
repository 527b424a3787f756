// Writes HTML, and SVG within it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace msda::replay {

// Texts and values of attributes may come from a file: each is escaped, control characters included. The names of
// elements and attributes are the program's own.
class Html {
 public:
  struct Attribute {
    std::string_view name;
    std::string value;
  };
  using Attributes = std::initializer_list<Attribute>;

  // An element that is closed at the end of this object's life.
  class [[nodiscard]] Element {
   public:
    Element(Html& html, std::string_view tag) : html_(&html), tag_(tag) {}
    Element(Element&& source) noexcept : html_(std::exchange(source.html_, nullptr)), tag_(source.tag_) {}
    Element& operator=(Element&&) = delete;
    ~Element() {
      if (html_ != nullptr) html_->close(tag_);
    }

   private:
    Html* html_;
    std::string_view tag_;
  };

  // The tag must outlive the element: a literal.
  Element in(std::string_view tag, Attributes attributes = {}) {
    open(tag, attributes);
    return Element(*this, tag);
  }
  // A whole element with this text.
  void add(std::string_view tag, Attributes attributes, std::string_view text);
  void add(std::string_view tag, std::string_view text) { add(tag, {}, text); }
  // An element without content.
  void empty(std::string_view tag, Attributes attributes);
  void text(std::string_view text);
  void end_line() { markup_ += '\n'; }
  void append(const Html& part) { markup_ += part.markup_; }

  const std::string& markup() const { return markup_; }

 private:
  void open(std::string_view tag, Attributes attributes, std::string_view end = ">");
  void close(std::string_view tag);

  std::string markup_;
};

// Returns a number in SVG: three decimals, without trailing zeros.
std::string coordinate_text(double x);

// A text in SVG; `anchor`: which end of it is at x: "start", "middle", "end".
void add_label(Html& html, double x, double y, const char* anchor, const std::string& text);

}  // namespace msda::replay
