// The target reads the input as a file of token ids. Either the file is refused, or it gives windows of ids below the
// vocabulary. The first two bytes choose the options and the vocabulary.
#include <algorithm>

#include "tests/fuzz/input_file.h"
#include "tests/fuzz/target.h"
#include "worker/data/token_dataset.h"

namespace capstan::fuzz {
namespace {

using train::Split;

constexpr std::uint32_t kContext = 4;

void CheckWindow(const train::Dataset& dataset, std::uint64_t sample, std::uint32_t vocabulary) {
  train::BatchBuffer batch;
  Require(dataset.Fill(std::span(&sample, 1), Split::kTraining, {}, &batch).ok(), "a window can be drawn");
  Require(batch.tokens.size() == kContext && batch.targets.size() == kContext, "a window is whole");
  const auto is_known = [&](std::int32_t id) { return id >= 0 && static_cast<std::uint32_t>(id) < vocabulary; };
  Require(std::ranges::all_of(batch.tokens, is_known), "a token is below the vocabulary");
  Require(std::ranges::all_of(batch.targets, is_known), "a target is below the vocabulary");
  Require(std::equal(batch.tokens.begin() + 1, batch.tokens.end(), batch.targets.begin()),
          "a target is the next token");
}

void RunTokens(std::string_view bytes) {
  if (bytes.size() < 2) return;
  DataSection options;
  options.type = (bytes[0] & 1) == 0 ? TokenType::kUint16 : TokenType::kUint32;
  options.max_bytes = (bytes[0] & 2) == 0 ? 0 : 100;
  options.validation = (bytes[0] & 4) == 0 ? 0.0 : 0.25;
  options.vocabulary = static_cast<unsigned char>(bytes[1]) * 300U + 1;
  bytes.remove_prefix(2);
  const InputFile input(bytes);
  const auto dataset = train::TokenDataset::Open(input.path(), options, kContext);
  if (!dataset.ok()) return RequireReason(dataset.status(), input.path());
  const std::uint64_t count = (*dataset)->count(Split::kTraining) + (*dataset)->count(Split::kValidation);
  const std::size_t token_bytes = options.type == TokenType::kUint16 ? 2 : 4;
  Require((count * kContext + 1) * token_bytes <= bytes.size(), "windows lie in the file");
  CheckWindow(**dataset, 0, options.vocabulary);
  CheckWindow(**dataset, (*dataset)->count(Split::kTraining) - 1, options.vocabulary);
}

const Registered tokens_target({"tokens", RunTokens});

}  // namespace
}  // namespace capstan::fuzz
