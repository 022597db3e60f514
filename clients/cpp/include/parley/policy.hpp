// The only interface to implement for a dispatcher, and two that wrap another.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "parley/view.hpp"

namespace parley {

/// When to be asked: at every instant at which something happened, or at those only at which a
/// pending job could start.
enum class Ask { always, actionable };

class Policy {
public:
    virtual ~Policy() = default;
    /// Start, reject or kill jobs by way of the view.
    virtual void decide(View& view) = 0;
    /// The picture of the state begins anew: at the first request, and after a resume.
    virtual void begin(View&) {}
    /// Whoever does nothing while no pending job could start need not be asked then.
    virtual Ask ask() const { return Ask::always; }
};

/// A function of the view as a policy.
class FunctionPolicy : public Policy {
public:
    explicit FunctionPolicy(std::function<void(View&)> decide, Ask ask = Ask::always)
        : decide_(std::move(decide)), ask_(ask) {}
    void decide(View& view) override { decide_(view); }
    Ask ask() const override { return ask_; }

private:
    std::function<void(View&)> decide_;
    Ask ask_;
};

/// Another policy, at multiples of an interval only: between them, a timer is set for the next.
class Periodic : public Policy {
public:
    Periodic(std::unique_ptr<Policy> policy, Micros interval_us)
        : policy_(std::move(policy)), interval_us_(interval_us) {}
    void decide(View& view) override;
    void begin(View& view) override;

private:
    void come_back(View& view);

    std::unique_ptr<Policy> policy_;
    Micros interval_us_;
    Micros tick_ = -1;
};

/// Another policy, after running jobs whose walltime has passed were killed, in order of number.
class KillOverdue : public Policy {
public:
    explicit KillOverdue(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}
    void decide(View& view) override;
    void begin(View& view) override { policy_->begin(view); }

private:
    std::unique_ptr<Policy> policy_;
};

}  // namespace parley
