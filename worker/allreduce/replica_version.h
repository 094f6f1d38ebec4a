// ReplicaVersion: which version a replica holds, and which next version it has built.
//
// Kind:   a value.
// Why:    a version is named by its number and by the generation that committed it. A group may build a version whose
//         step is never committed. Another group then builds the same number from other sums.
#pragma once

#include <optional>
#include <utility>

#include "worker/session/step_terms.h"

namespace capstan::train {

class ReplicaVersion {
 public:
  struct Name {
    Version version;
    Generation made_in;  // 0: not made by a step of this timeline
  };

  // Whether the replica holds the version that these terms name.
  bool Is(const session::StepTerms& terms) const {
    return present_ && present_->version == terms.version && present_->made_in == terms.made_in;
  }
  // Whether other workers may copy the version from this replica. Not with made_in 0: such a name stays the same when
  // the shards go back to a snapshot with the same number, so the copies could differ.
  bool MayHandOn(const session::StepTerms& terms) const { return Is(terms) && terms.made_in.value != 0; }

  // The replica now holds this version.
  void Become(const session::StepTerms& terms) {
    present_ = Name{terms.version, terms.made_in};
    built_.reset();
  }
  // The replica holds no version, or an unknown one.
  void Forget() { present_.reset(); }

  // The next version was built in this generation, and its step is not committed yet.
  void Build(Version version, Generation generation, StepAction action) {
    built_ = Built{{version, generation}, action};
  }

  enum class Taking { kNot, kPresent, kBuilt, kSkipped };
  // How the replica comes to the version that these terms name. kPresent: the replica holds it already. kBuilt: it is
  // the version that was built, and must be published. kSkipped: the step was skipped, so the weights stay. kNot: the
  // replica does not have it.
  Taking Take(const session::StepTerms& terms) {
    if (Is(terms)) return Taking::kPresent;
    const std::optional<Built> built = std::exchange(built_, {});
    const bool fits = present_ && built && built->name.version == terms.version &&
                      built->name.made_in == terms.made_in && built->action == terms.action;
    if (!fits) return Taking::kNot;
    present_ = built->name;
    return terms.action == StepAction::kApply ? Taking::kBuilt : Taking::kSkipped;
  }

  // nullopt in present(): the replica's version is not known. nullopt in built(): no version was built.
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
