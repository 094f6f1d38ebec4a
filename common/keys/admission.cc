#include "common/keys/admission.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

namespace capstan {

std::optional<Admission::Stamp> Admission::StampOf(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return std::nullopt;
  return Stamp{facts.st_ino, static_cast<std::uint64_t>(facts.st_size), facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
}

Result<AllowList> Admission::Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad() || !in.is_open()) {
    return Invalid("cannot read the allow list " + path + ": " + std::strerror(errno) + "; capstan keygen makes one");
  }
  return AllowList::Parse(text, path);
}

Result<std::shared_ptr<Admission>> Admission::Open(const std::string& path, OnNotice on_notice) {
  const Stamp stamp = StampOf(path).value_or(Stamp());
  CAPSTAN_ASSIGN_OR_RETURN(AllowList list, Read(path));
  std::shared_ptr<Admission> admission(new Admission(path, std::move(on_notice)));
  admission->state_.With([&](State& state) { state = {std::make_shared<const AllowList>(std::move(list)), stamp}; });
  return admission;
}

std::optional<Principal> Admission::Find(const PublicKey& key, AllowList::Time now) const {
  return state_.With([](const State& state) { return state.list; })->Find(key, now);
}

std::string Admission::WhyNot(const PublicKey& key, AllowList::Time now) const {
  return state_.With([](const State& state) { return state.list; })->WhyNot(key, now);
}

void Admission::Refresh() {
  const std::optional<Stamp> stamp = StampOf(path_);
  if (!stamp || *stamp == state_.With([](const State& state) { return state.stamp; })) return;
  Result<AllowList> list = Read(path_);
  if (!list.ok()) {
    state_.With([&](State& state) { state.stamp = *stamp; });
    if (on_notice_) on_notice_("the former allow list stays in force: " + list.status().message());
    return;
  }
  const std::size_t count = list->size();
  state_.With([&](State& state) { state = {std::make_shared<const AllowList>(std::move(*list)), *stamp}; });
  version_.fetch_add(1, std::memory_order_acq_rel);
  if (on_notice_) on_notice_("the allow list " + path_ + " was read again: " + std::to_string(count) + " keys");
}

}  // namespace capstan
