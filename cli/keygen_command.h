// RunKeygen: the command capstan keygen.
//
// Kind:   a function; it writes files and prints.
#pragma once

#include <string>

namespace capstan::cli {

struct KeygenArguments {
  std::string folder;
  unsigned servers = 0, workers = 0;  // how many of them get a key of their own; 0: one for all
  std::string add, name;              // the role of a key to add, and its name; empty: none
  std::string revoke;                 // the name of a key to revoke; empty: none
  std::string output = "table";       // or json: what was made, without what to do then
};

// Makes the key files of a job and their allow list in the folder, or adds or revokes one key there. Prints what to do
// then. Returns the exit code.
int RunKeygen(const KeygenArguments& arguments);

}  // namespace capstan::cli
