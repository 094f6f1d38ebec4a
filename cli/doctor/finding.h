// Finding: the result of one check of `capstan doctor`.
//
// Kind:   a value.
#pragma once

#include <cstdint>
#include <string>

namespace capstan::cli {

enum class Level : std::uint8_t { kGood, kWarning, kError };  // kError: something will fail

struct Finding {
  Level level = Level::kGood;
  std::string check;   // the check's name, such as "memory"
  std::string text;    // what was found: a sentence
  std::string advice;  // what to do; empty if there is nothing to do
};

inline Finding Good(std::string check, std::string text) {
  return {Level::kGood, std::move(check), std::move(text), ""};
}
inline Finding Warning(std::string check, std::string text, std::string advice) {
  return {Level::kWarning, std::move(check), std::move(text), std::move(advice)};
}
inline Finding Problem(std::string check, std::string text, std::string advice) {
  return {Level::kError, std::move(check), std::move(text), std::move(advice)};
}

}  // namespace capstan::cli
