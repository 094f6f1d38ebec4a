#include "common/data/clipping.h"

#include <cmath>
#include <cstdio>
#include <limits>

namespace capstan {

namespace {

std::string NumberText(double limit) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", limit);
  return text;
}

// A limit is applied as fp32, so a smaller one would be 0, and a larger one infinite.
Status CheckLimit(const char* name, double limit) {
  using Fp32 = std::numeric_limits<float>;
  if (limit == 0 || (limit >= static_cast<double>(Fp32::min()) && limit <= static_cast<double>(Fp32::max()))) return {};
  return Invalid(std::string(name) + " to clip to is " + NumberText(limit) +
                 "; it must be a number from 1.2e-38 to 3.4e38, or 0 for none");
}

}  // namespace

std::string TextOf(const Clipping& clipping) {
  if (clipping == Clipping()) return "none";
  const std::string norm = clipping.norm != 0 ? "norm " + NumberText(clipping.norm) : "";
  const std::string value = clipping.value != 0 ? "value " + NumberText(clipping.value) : "";
  return norm + (norm.empty() || value.empty() ? "" : " and ") + value;
}

Status CheckClipping(const Clipping& clipping) {
  CAPSTAN_RETURN_IF_ERROR(CheckLimit("the norm", clipping.norm));
  CAPSTAN_RETURN_IF_ERROR(CheckLimit("the value", clipping.value));
  if (clipping.norm == 0 || clipping.value == 0) return {};
  return Invalid("a step is clipped by norm or by value, and here are both (" + TextOf(clipping) +
                 "); set one of them to 0");
}

}  // namespace capstan
