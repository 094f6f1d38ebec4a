// ListedAdmission: admission by an allow list in a file, which is read again when it changes.
//
// Kind:   any thread may use it.
// Limits: kRefusalsMax lines about refusals are kept; further ones are dropped.
// Fails:  Open: kInvalid, also for a list that other users may write. Later: a list that is gone or cannot be read
//         leaves the former one in force; a notice says so once, and each look tries again.
// Why:    a key is added or revoked while a job runs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mailbox.h"
#include "common/base/status.h"
#include "common/keys/admission.h"
#include "common/keys/allow_list.h"

namespace capstan {

class ListedAdmission final : public Admission {
 public:
  using OnNotice = std::function<void(const std::string& text)>;
  static constexpr std::size_t kRefusalsMax = 64;

  // `on_notice` is called by the threads that call Refresh and NoteRefused.
  static Result<std::shared_ptr<ListedAdmission>> Open(const std::string& path, OnNotice on_notice);

  std::optional<Principal> Find(const PublicKey& key, Time now) const override;
  std::string WhyNot(const PublicKey& key, Time now) const;
  // Looks at the file, at most once a second, and takes a list that has not changed since the last look: somebody may
  // be writing it.
  void Refresh(std::chrono::steady_clock::time_point now) override;
  // Tells on_notice, at most once a second.
  void NoteRefused(const PublicKey& key, const std::string& from, Time now) override;
  // Returns lines about refusals since the last call, one a minute at most.
  std::vector<std::string> TakeRefusals() override;
  // Rises with each list that was read.
  std::uint64_t version() const override { return version_.load(std::memory_order_acquire); }

 private:
  // The facts about a file of which at least one changes when the file is written, replaced, removed or gets another
  // mode.
  struct Stamp {
    std::uint64_t inode = 0, bytes = 0;
    std::int64_t written = 0, written_nanoseconds = 0, changed = 0, changed_nanoseconds = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct State {
    std::shared_ptr<const AllowList> list;
    Stamp stamp;                 // of the file that `list` is from
    std::optional<Stamp> newer;  // of a file that is taken if it stays as it is
    std::optional<Stamp> told;   // of a file that could not be taken, of which the notice was
    std::chrono::steady_clock::time_point next_look{};
    Time last_refusal{};
    std::uint64_t refusals = 0;  // since the last that was told
    Time last_kept{};
    std::uint64_t unkept = 0;  // refusals since the last that was kept
    std::vector<std::string> kept;
  };

  ListedAdmission(std::string path, OnNotice on_notice) : path_(std::move(path)), on_notice_(std::move(on_notice)) {}
  static Stamp StampOf(const std::string& path);
  static Result<AllowList> Read(const std::string& path);
  // Returns the stamp of a list that is to be read now.
  std::optional<Stamp> TakeStamp(std::chrono::steady_clock::time_point now);

  const std::string path_;
  const OnNotice on_notice_;
  mutable Guarded<State> state_;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace capstan
