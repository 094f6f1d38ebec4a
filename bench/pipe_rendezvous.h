// PipeRendezvous: processes forked by one parent exchange their addresses through the parent.
//
// Kind:   each child has one, on its channel to the parent. The parent calls Introduce once for each exchange.
#pragma once

#include <sstream>
#include <vector>

#include "bench/child_process.h"
#include "worker/collective/rendezvous.h"

namespace capstan::bench {

class PipeRendezvous : public collective::Rendezvous {
 public:
  explicit PipeRendezvous(Channel* parent) : parent_(parent) {}

  Result<std::vector<std::string>> Exchange(int, std::string bytes, collective::Deadline) override {
    std::string line = "-";  // marks an empty contribution
    for (const char byte : bytes) {
      line += static_cast<char>('a' + (byte >> 4 & 15));
      line += static_cast<char>('a' + (byte & 15));
    }
    parent_->Send(line);
    CAPSTAN_ASSIGN_OR_RETURN(const std::string all, parent_->Receive());
    std::vector<std::string> texts;
    std::istringstream words(all);
    for (std::string word; words >> word;) {
      std::string text;
      for (std::size_t i = 1; i + 1 < word.size(); i += 2) {
        text += static_cast<char>((word[i] - 'a') << 4 | (word[i + 1] - 'a'));
      }
      texts.push_back(text);
    }
    return texts;
  }

 private:
  Channel* const parent_;
};

// Receives one line from each child, and sends all lines to every child.
inline Status Introduce(std::vector<ChildProcess>* children) {
  std::string all;
  for (ChildProcess& child : *children) {
    CAPSTAN_ASSIGN_OR_RETURN(const std::string line, child.channel().Receive());
    all += line + " ";
  }
  for (ChildProcess& child : *children) child.channel().Send(all);
  return {};
}

}  // namespace capstan::bench
