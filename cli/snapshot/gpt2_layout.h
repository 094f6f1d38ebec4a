// AdoptGpt2: converts GPT-2 tensors in OpenAI's layout into those of capstan's gpt.
//
// Kind:   function, in memory.
// Shapes: a linear layer's weight is [in, out] in the file and [out, in] here, so it is transposed. Positions beyond
//         the model's context are dropped.
// Fails:  kInvalid: the file has a head that differs from the token embedding. Other mismatches are left for the later
//         comparison of names and shapes.
// Why:    published GPT-2 weights, such as Hugging Face's, have this layout, with or without "transformer." in front of
//         the names.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/data/catalog.h"
#include "common/data/safetensors.h"

namespace capstan::cli {

// Whether the file has OpenAI's layout, which the shape of the first layer's attention weights shows.
bool IsGpt2Layout(const SafetensorsFile& file);

// Converts `file`. `path` names it in messages.
Status AdoptGpt2(const Catalog& catalog, const std::string& path, SafetensorsFile* file);

}  // namespace capstan::cli
