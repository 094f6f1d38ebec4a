// The parts of Catch2 that tests need, of version 2 (one header) or 3 (a library). The runner is
// Catch2::Catch2WithMain.
//
// Why:      the versions have different headers, and different names for the same things. Tests use the names of
//           version 2, and EventListenerBase of version 3.
#pragma once

#if __has_include(<catch2/catch.hpp>)
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // for the listeners
#include <catch2/catch.hpp>

namespace Catch {
using EventListenerBase = TestEventListenerBase;
}  // namespace Catch
#else
#include <catch2/catch_approx.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <string>

using Catch::Approx;

namespace Catch {
namespace Matchers {
inline StringContainsMatcher Contains(const std::string& part) { return ContainsSubstring(part); }
}  // namespace Matchers
using Matchers::Contains;
using Matchers::Equals;
using Matchers::StartsWith;
}  // namespace Catch
#endif
