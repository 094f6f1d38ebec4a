// Gzip: returns the contents of the file that gzip would make of `bytes`.
//
// Kind: a function of tests.
#pragma once

#include <string>
#include <string_view>

namespace capstan::train {

std::string Gzip(std::string_view bytes);

}  // namespace capstan::train
