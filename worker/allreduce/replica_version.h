// ReplicaVersion: which version a replica is, and which one was built beside it.
//
// Kind:   a value.
// Why:    a version is named by its number and by the generation that committed it. What a group built and did not
//         commit may be built again by another one from other sums, with the same number.
#pragma once

#include <optional>
#include <utility>

#include "worker/session/step_terms.h"

namespace capstan::train {

class ReplicaVersion {
 public:
  struct Name {
    Version version;
    Generation made_in;  // 0: by no step of this history
  };

  // Whether the replica is the version that these terms name.
  bool Is(const client::StepTerms& terms) const {
    return present_ && present_->version == terms.version && present_->made_in == terms.made_in;
  }
  // Whether others may have it from here. What no step made is the shards', which may have gone back to another one.
  bool MayHandOn(const client::StepTerms& terms) const { return Is(terms) && terms.made_in.value != 0; }

  // The replica was filled with it.
  void Become(const client::StepTerms& terms) {
    present_ = Name{terms.version, terms.made_in};
    built_.reset();
  }
  // The replica is no version, or none that is known.
  void Forget() { present_.reset(); }

  // The version after the present one was built in this generation, and awaits its commit.
  void Build(Version version, Generation generation, StepAction action) {
    built_ = Built{{version, generation}, action};
  }

  enum class Taking { kNot, kPresent, kBuilt, kSkipped };
  // What the replica is to these terms: not their version; that version already; with what was built beside it, which
  // is to become the present one; with its step skipped, as it is.
  Taking Take(const client::StepTerms& terms) {
    if (Is(terms)) return Taking::kPresent;
    const std::optional<Built> built = std::exchange(built_, {});
    const bool fits = present_ && built && built->name.version == terms.version &&
                      built->name.made_in == terms.made_in && built->action == terms.action;
    if (!fits) return Taking::kNot;
    present_ = built->name;
    return terms.action == StepAction::kApply ? Taking::kBuilt : Taking::kSkipped;
  }

  // None: it is no version that is known; nothing was built.
  const std::optional<Name>& present() const { return present_; }
  std::optional<Name> built() const { return built_ ? std::optional(built_->name) : std::nullopt; }

 private:
  struct Built {
    Name name;
    StepAction action = StepAction::kApply;
  };
  std::optional<Name> present_;
  std::optional<Built> built_;
};

}  // namespace capstan::train
