#include "parley/program.hpp"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <vector>

#include "parley/serve.hpp"

namespace parley {
namespace {

// A signal can set nothing else.
volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) { interrupted = 1; }

struct Arguments {
    std::string connect, session_file;
    std::optional<Micros> interval_us;
    bool kill_overdue = false;
    bool help = false;
};

/// Read a positive number of seconds, to the microsecond.
Micros microseconds(const std::string& text) {
    const std::size_t point = std::min(text.find('.'), text.size());
    const std::string whole = text.substr(0, point);
    std::string parts = point < text.size() ? text.substr(point + 1) : "";
    const auto digits = [](const std::string& some) {
        return std::all_of(some.begin(), some.end(),
                           [](unsigned char one) { return std::isdigit(one) != 0; });
    };
    const bool read = digits(whole) && digits(parts) && !(whole.empty() && parts.empty()) &&
                      whole.size() <= 9 && parts.size() <= 6;
    parts.resize(6, '0');
    const Micros micros =
        read ? (whole.empty() ? 0 : std::stoll(whole)) * second + std::stoll(parts) : 0;
    if (micros <= 0) {
        throw WrongUsage("--interval is a positive number of seconds, not '" + text + "'");
    }
    return micros;
}

Arguments read_arguments(const std::vector<std::string>& given) {
    Arguments read;
    for (std::size_t at = 0; at < given.size(); ++at) {
        const std::size_t equals = given[at].find('=');
        const std::string option = given[at].substr(0, equals);
        const auto value = [&]() -> std::string {
            if (equals != std::string::npos) return given[at].substr(equals + 1);
            if (at + 1 == given.size()) throw WrongUsage(option + " wants a value");
            return given[++at];
        };
        if (option == "--connect") {
            read.connect = value();
        } else if (option == "--session-file") {
            read.session_file = value();
        } else if (option == "--interval") {
            read.interval_us = microseconds(value());
        } else if (given[at] == "--kill-overdue") {
            read.kill_overdue = true;
        } else if (given[at] == "--help" || given[at] == "-h") {
            read.help = true;
        } else {
            throw WrongUsage("'" + given[at] + "' is no option; --help shows them");
        }
    }
    return read;
}

void help(const std::string& name) {
    std::cout << "usage: " << name
              << " [--connect ENDPOINT] [--session-file PATH] [--interval SECONDS] "
                 "[--kill-overdue]\n\n"
                 "Decide for a Parley server.\n\n"
                 "  --connect ENDPOINT   where it listens; PARLEY_ENDPOINT if not given\n"
                 "  --session-file PATH  keeps what it takes to go on after a crash; if it is "
                 "there, go on\n"
                 "  --interval SECONDS   decide at multiples of it only\n"
                 "  --kill-overdue       first kill running jobs whose walltime has passed\n";
}

void take_signals() {
    struct sigaction action {};
    action.sa_handler = on_interrupt;  // without SA_RESTART: it ends whatever waits
    sigaction(SIGINT, &action, nullptr);
}

int decide_for_one_session(const std::string& name, const Arguments& arguments,
                           std::unique_ptr<Policy> policy) {
    if (arguments.interval_us) {
        policy = std::make_unique<Periodic>(std::move(policy), *arguments.interval_us);
    }
    if (arguments.kill_overdue) policy = std::make_unique<KillOverdue>(std::move(policy));
    Options options;
    options.endpoint = arguments.connect;
    options.name = name;
    options.session_file = arguments.session_file;
    options.interrupted = [] { return interrupted != 0; };
    const SessionEnd end = serve(*policy, options);
    if (end.complete()) return 0;
    std::cerr << name << ": the run ended as " << end.reason << "\n";
    return 1;
}

}  // namespace

int program(const std::string& name, int count, char** arguments, std::unique_ptr<Policy> policy) {
    try {
        const Arguments read = read_arguments({arguments + 1, arguments + count});
        if (read.help) {
            help(name);
            return 0;
        }
        take_signals();
        return decide_for_one_session(name, read, std::move(policy));
    } catch (const WrongUsage& error) {
        std::cerr << name << ": " << error.what() << "\n";
        return 2;
    } catch (const Interrupted& error) {
        std::cerr << name << ": " << error.what() << "\n";
        return 130;
    } catch (const std::exception& error) {
        std::cerr << name << ": " << error.what() << "\n";
        return 1;
    }
}

int program(const std::string& name, int count, char** arguments,
            std::function<void(View&)> decide, Ask ask) {
    return program(name, count, arguments,
                   std::make_unique<FunctionPolicy>(std::move(decide), ask));
}

}  // namespace parley
