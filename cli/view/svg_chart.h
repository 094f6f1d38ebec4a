// SvgChart: curves as a picture in SVG.
//
// Kind:   pure function.
// Limits: Series' points; names are cut.
#pragma once

#include <string>
#include <vector>

#include "cli/view/series.h"

namespace capstan::cli {

struct NamedCurve {
  std::string name;
  Series series;
};

// `title`: what the curves show, such as "loss". A curve whose points stand for several steps has their range behind
// it.
std::string SvgChart(const std::vector<NamedCurve>& curves, const std::string& title);

}  // namespace capstan::cli
