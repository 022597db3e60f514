// A policy as a program: options, signals, exit statuses.
#pragma once

#include <functional>
#include <memory>

#include "parley/policy.hpp"

namespace parley {

/// Decide for one session by a policy, as `--connect`, `--session-file`, `--interval` and
/// `--kill-overdue` have it; tell what goes wrong in one line on standard error.
/// Returns the exit status: 0 the run is complete, 1 it is not, 2 wrong usage, 130 interrupted.
int program(const std::string& name, int count, char** arguments, std::unique_ptr<Policy> policy);

/// The same with a function of the view.
int program(const std::string& name, int count, char** arguments,
            std::function<void(View&)> decide, Ask ask = Ask::always);

}  // namespace parley
