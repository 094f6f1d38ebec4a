#include "common/keys/listed_admission.h"

#include <sys/stat.h>

#include <utility>

#include "common/keys/allow_list_text.h"

namespace capstan {
namespace {

constexpr std::chrono::minutes kKeptEvery{1};

std::string Attempts(std::uint64_t count) {
  return count > 1 ? " (" + std::to_string(count) + " attempts since the last line)" : "";
}

}  // namespace

ListedAdmission::Stamp ListedAdmission::StampOf(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return {};
  return {facts.st_ino,         static_cast<std::uint64_t>(facts.st_size),
          facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec,
          facts.st_ctim.tv_sec, facts.st_ctim.tv_nsec};
}

Result<AllowList> ListedAdmission::Read(const std::string& path) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, ReadAllowListText(path));
  return AllowList::Parse(text, path);
}

Result<std::shared_ptr<ListedAdmission>> ListedAdmission::Open(const std::string& path, OnNotice on_notice) {
  const Stamp stamp = StampOf(path);
  CAPSTAN_ASSIGN_OR_RETURN(AllowList list, Read(path));
  std::shared_ptr<ListedAdmission> admission(new ListedAdmission(path, std::move(on_notice)));
  admission->state_.With([&](State& state) {
    state.list = std::make_shared<const AllowList>(std::move(list));
    state.stamp = stamp;
  });
  return admission;
}

std::optional<Principal> ListedAdmission::Find(const PublicKey& key, Time now) const {
  return state_.With([](const State& state) { return state.list; })->Find(key, now);
}

std::string ListedAdmission::WhyNot(const PublicKey& key, Time now) const {
  return state_.With([](const State& state) { return state.list; })->WhyNot(key, now);
}

std::optional<ListedAdmission::Stamp> ListedAdmission::TakeStamp(std::chrono::steady_clock::time_point now) {
  const Stamp stamp = StampOf(path_);
  return state_.With([&](State& state) -> std::optional<Stamp> {
    if (now < state.next_look) return std::nullopt;
    state.next_look = now + std::chrono::seconds(1);
    if (stamp == state.stamp) return std::nullopt;
    if (state.newer != stamp) {
      state.newer = stamp;
      return std::nullopt;
    }
    return stamp;
  });
}

void ListedAdmission::Refresh(std::chrono::steady_clock::time_point now) {
  const std::optional<Stamp> stamp = TakeStamp(now);
  if (!stamp) return;
  Result<AllowList> list = Read(path_);
  if (!list.ok()) {  // the next look tries again
    const bool is_new = state_.With([&](State& state) { return std::exchange(state.told, stamp) != stamp; });
    if (is_new && on_notice_) on_notice_("the former allow list stays in force: " + list.status().message());
    return;
  }
  const std::size_t count = list->size();
  state_.With([&](State& state) {
    state.list = std::make_shared<const AllowList>(std::move(*list));
    state.stamp = *stamp;
    state.told.reset();
  });
  version_.fetch_add(1, std::memory_order_acq_rel);
  if (on_notice_) on_notice_("the allow list " + path_ + " was read again: " + std::to_string(count) + " keys");
}

void ListedAdmission::NoteRefused(const PublicKey& key, const std::string& from, Time now) {
  std::uint64_t told = 0, kept = 0;
  state_.With([&](State& state) {
    ++state.refusals;
    ++state.unkept;
    if (now > state.last_refusal) {
      state.last_refusal = now;
      told = std::exchange(state.refusals, 0);
    }
    if (now >= state.last_kept + kKeptEvery && state.kept.size() < kRefusalsMax) {
      state.last_kept = now;
      kept = std::exchange(state.unkept, 0);
    }
  });
  if (told == 0 && kept == 0) return;
  const std::string what = "a process at " + from + " was not let in: its key " + TextOf(key) + " " + WhyNot(key, now);
  if (kept != 0) state_.With([&](State& state) { state.kept.push_back(what + Attempts(kept)); });
  if (told != 0 && on_notice_) on_notice_(what + Attempts(told));
}

std::vector<std::string> ListedAdmission::TakeRefusals() {
  return state_.With([](State& state) { return std::exchange(state.kept, {}); });
}

}  // namespace capstan
