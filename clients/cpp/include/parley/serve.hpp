// The loop between a policy and a server, over ZeroMQ.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "parley/policy.hpp"

namespace parley {

struct Options {
    /// Where the server listens; empty takes it from PARLEY_ENDPOINT.
    std::string endpoint;
    /// Who says hello.
    std::string name = "parley-cpp";
    /// How long to wait for the server to appear, milliseconds.
    int patience_ms = 60'000;
    /// Where to keep what it takes to go on after a crash; if the file is there, go on.
    std::string session_file;
    /// What to ask for beyond the defaults, and which scenario, where a server offers several.
    std::optional<Capabilities> capabilities;
    std::optional<std::string> scenario;
    /// Is asked whenever something is waited for, and after a signal: whether to give up.
    std::function<bool()> interrupted = [] { return false; };
};

/// Decide for a server until its run is over; return its last message: why, and the jobs by
/// what became of them.
///
/// Throws WrongUsage (no endpoint is known, or it is none, or the session file is not one),
/// ConnectionLost, ServerRefused, ProtocolError, Interrupted, or what the policy throws. A session
/// that is open then is left by `bye`.
SessionEnd serve(Policy& policy, const Options& options);

}  // namespace parley
