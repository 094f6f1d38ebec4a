// AdoptGpt2: tensors of GPT-2 as OpenAI laid them out, turned into those of a gpt of ours.
//
// Kind:   function, in memory.
// Shapes: a weight of a linear layer is [in, out] there and [out, in] here: it is transposed. Positions behind the
//         model's context are left out.
// Fails:  kInvalid: a head of its own, where ours is the token embedding's. What else does not fit is left as it is,
//         for whoever compares names and shapes.
// Why:    the weights that people have are in this layout: those that Hugging Face hands out, "transformer." before the
//         names or not.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/data/catalog.h"
#include "common/data/safetensors.h"

namespace capstan::cli {

// Whether the file has that layout: the first layer's attention says which way round its weights are.
bool IsGpt2Layout(const SafetensorsFile& file);

// `path` names the file in messages.
Status AdoptGpt2(const Catalog& catalog, const std::string& path, SafetensorsFile* file);

}  // namespace capstan::cli
