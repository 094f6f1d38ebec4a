// Gzip: packs `bytes`; returns the contents of a gzip file.
//
// Kind: a function of tests.
#pragma once

#include <string>
#include <string_view>

namespace capstan::train {

std::string Gzip(std::string_view bytes);

}  // namespace capstan::train
