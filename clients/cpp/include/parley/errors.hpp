// What can go wrong on the dispatcher's side; the text of each is one line for its user.
#pragma once

#include <stdexcept>
#include <string>

namespace parley {

/// The dispatcher cannot go on.
class Error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Something was asked for that makes no sense, before any server was involved.
class WrongUsage : public Error {
    using Error::Error;
};

/// The server is gone, or never was there.
class ConnectionLost : public Error {
    using Error::Error;
};

/// The user pressed Ctrl-C.
class Interrupted : public Error {
    using Error::Error;
};

/// What arrived is not the protocol; `code` and `path` are as errors.md has them.
class ProtocolError : public Error {
public:
    ProtocolError(std::string code, const std::string& message, const std::string& path = "")
        : Error(code + ": " + message + (path.empty() ? "" : " (" + path + ")")),
          code_(std::move(code)) {}

    const std::string& code() const { return code_; }

private:
    std::string code_;
};

/// The server sent an `error`; `code` is its code, `over` whether it was fatal.
class ServerRefused : public Error {
public:
    ServerRefused(const std::string& message, std::string code, bool over)
        : Error(message), code_(std::move(code)), over_(over) {}

    const std::string& code() const { return code_; }
    bool over() const { return over_; }

private:
    std::string code_;
    bool over_;
};

}  // namespace parley
